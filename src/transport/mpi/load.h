/* load.h: which MPI a process belongs to, and its plug-in. */
#ifndef RUEDA_TRANSPORT_MPI_LOAD_H
#define RUEDA_TRANSPORT_MPI_LOAD_H

#include "base/config.h"
#include "transport/mpi/plugin.h"

/* "openmpi" or "mpich": of the library that the process has loaded, else of the mpirun that started it;
 * NULL: nothing says it. ERR_CONFIG: they are two. */
rueda_status mpi_flavour(const char **flavour);

/* The plug-in's path for a flavour (NULL: of any, if there is only one); RUEDA_MPI_PLUGIN, the user's
 * folder and the library's are looked through in this order. False: there is none. */
#define MPI_PATH_MAX 1024
bool mpi_find(const config *settings, const char *flavour, char path[MPI_PATH_MAX]);

/* Loads it, for the rest of the process's life. ERR_CONFIG: there is none, or MPI itself is missing, or
 * it is of another flavour or version; the sentence says what to do. */
rueda_status mpi_load(const config *settings, const char *flavour, const mpi_plugin **plugin);

/* The folder where a user's own plug-ins are; false: there is no home. */
bool mpi_user_folder(char path[MPI_PATH_MAX]);
/* The folder of the library, or of the program that has it inside. */
bool mpi_own_folder(char path[MPI_PATH_MAX]);

const char *mpi_flavour_name(const char *flavour); /* for people: "Open MPI" */

#endif
