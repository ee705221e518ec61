/* harness_mpi.h: between harness.c and harness_mpi.c. */
#ifndef RUEDA_TESTS_HARNESS_MPI_H
#define RUEDA_TESTS_HARNESS_MPI_H

#include "harness.h"

#include <sys/types.h>

/* In the test: whether mpirun can run the job, as TEST_MPI_RANKS says. */
bool mpi_serves(const job *j);
/* Starts this program anew under TEST_MPIRUN, for the job of this number. */
bool mpi_start(const job *j, int number, int board, pid_t *pid);
void mpi_end(pid_t pid); /* if it is still running; 0: it is not */

/* In a rank that was started so: the number of its job, otherwise 0. */
int mpi_job_number(void);
int mpi_rank(void);
int mpi_open_board(void);

#endif
