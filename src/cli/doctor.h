/* doctor.h: the two halves of `rueda doctor`. */
#ifndef RUEDA_CLI_DOCTOR_H
#define RUEDA_CLI_DOCTOR_H

#include <stdbool.h>

/* Looks at this machine. 0, or 1 if something necessary is missing. */
int doctor_check(bool json);

/* Makes the MPI plug-in with an mpicc, for this user. 0; 1: it cannot be made; 2: mpicc is missing. */
int doctor_build_mpi(const char *mpicc);

typedef enum doctor_form { DOCTOR_TEXT, DOCTOR_MARKDOWN, DOCTOR_JSON } doctor_form;

/* Prints every setting. 0, or 1 if the environment has one that is not valid. */
int doctor_config(doctor_form form);

/* For config_load: warns on stderr about a variable that means nothing. */
void doctor_warn_unknown(const char *name, const char *nearest);

#endif
