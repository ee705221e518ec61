/* mpi.h: a job's part of MPI, from rueda_init to rueda_shutdown.
 *
 * MPI tells who we are where a communicator is given, brings the job's key and rank 0's address to all,
 * and moves data. Control stays on our sockets: MPI cannot sleep.
 */
#ifndef RUEDA_TRANSPORT_MPI_H
#define RUEDA_TRANSPORT_MPI_H

#include "base/config.h"
#include "kernel/kernel.h"
#include "observe/log.h"
#include "transport/mpi/plugin.h"

typedef struct mpi_job {
    const mpi_plugin *plugin;
    mpi_world *world;
    bool moves_data; /* between ranks that share no memory */
} mpi_job;

/* Where MPI is wanted (RUEDA_TRANSPORT=mpi, a communicator, or ranks that mpirun started on several hosts
 * and for which there is a plug-in): joins the others and fills in rank, size, job, key and meeting place
 * of the settings. Otherwise *job is NULL and nothing changes. All ranks call it; it blocks until they
 * have. ERR_CONFIG: no MPI, or not one. ERR_TIMEOUT: some did not come. */
rueda_status mpi_job_open(config *settings, const void *communicator, const kernel_table *kernel,
                          const logger *log, mpi_job **job);
/* After all channels. NULL is allowed. `whole`: the job is not broken. */
void mpi_job_close(mpi_job *job, bool whole);

#endif
