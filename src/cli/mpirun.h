/* mpirun.h: jobs that mpirun starts: `rueda run --mpi` and `rueda bench --transport mpi`. */
#ifndef RUEDA_CLI_MPIRUN_H
#define RUEDA_CLI_MPIRUN_H

#include "cli/launcher.h"

typedef struct mpirun_options {
    const launch_options *launch; /* ranks, hosts, one step, variables, directory, plain output */
    const char *program;          /* NULL: mpirun */
    const char *arguments;        /* more words for it, separated by blanks; may be NULL */
    bool dry_run;                 /* prints the command */
} mpirun_options;

/* Becomes mpirun; returns only with the exit code of a failure, or of a dry run. Variables of the job
 * travel by their names: no value is on a command line. */
int mpirun_become(const mpirun_options *options);

#endif
