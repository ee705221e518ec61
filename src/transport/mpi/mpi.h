/* mpi.h: a job's part of MPI, from rueda_init to rueda_shutdown.
 *
 * MPI tells who we are where a communicator is given, brings the job's key and rank 0's address to all,
 * and moves data. Control stays on our sockets: MPI cannot sleep.
 */
#ifndef RUEDA_TRANSPORT_MPI_H
#define RUEDA_TRANSPORT_MPI_H

#include "transport/mpi/plugin.h"
#include "transport/transport.h"

/* A transport_job, for everybody else. */
typedef struct mpi_job {
    const mpi_plugin *plugin;
    mpi_world *world;
} mpi_job;

extern const transport_table transport_mpi;

/* Where MPI is wanted (RUEDA_TRANSPORT=mpi, a communicator, or ranks that mpirun started on several hosts
 * and for which there is a plug-in): joins the others and fills in rank, size, job, key and meeting place
 * of the settings. Otherwise nothing changes. All ranks call it; it blocks until they have. ERR_CONFIG: no
 * MPI, or not one. ERR_TIMEOUT: some did not come. */
rueda_status mpi_join(const transport_terms *terms, transport_job **job);
void mpi_leave(transport_job *job, bool whole);

#endif
