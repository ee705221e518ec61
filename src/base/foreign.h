/* foreign.h: who we are in the words of other launchers: torchrun, Open MPI, MPICH (PMI), Slurm.
 *
 * They tell rank and size, and mostly how many ranks this host has. Where all are on one host a name
 * of the job is enough to find each other; on several hosts a place to meet is needed, too.
 */
#ifndef RUEDA_BASE_FOREIGN_H
#define RUEDA_BASE_FOREIGN_H

#include "base/config.h"

/* Fills in rank, size, local rank, job and meeting place from the environment of the first launcher
 * that left its variables; settings that are given stay. The job's name stays empty where the launcher
 * tells nothing that only this job has, alike on all hosts. Without any: nothing changes. ERR_CONFIG: a
 * variable is not a number, or rank and size contradict each other. */
rueda_status foreign_adopt(config *c);

/* Whose mpirun started us, by its variables: "openmpi", "mpich", or NULL: none, or `rueda run`. */
const char *foreign_mpi(void);
/* Whether a process manager stands by that MPI can ask for the other ranks. */
bool foreign_has_pmi(void);

#endif
