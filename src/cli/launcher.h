/* launcher.h: starts the ranks of a job on this machine and stays until all have ended. */
#ifndef RUEDA_CLI_LAUNCHER_H
#define RUEDA_CLI_LAUNCHER_H

#include <stdbool.h>
#include <stdint.h>

#define LAUNCH_GRACE_S 5    /* between asking a rank to end and killing it */
#define LAUNCH_DRAIN_MS 200 /* for output that is still under way when the last rank has ended */

#define EXIT_TIMEOUT 124        /* as timeout(1) */
#define EXIT_NOT_EXECUTABLE 126 /* as the shell */
#define EXIT_NOT_FOUND 127
#define EXIT_SIGNAL 128 /* plus the number of the signal */

typedef struct launch_options {
    int ranks;
    bool prefix;       /* "[rank]: " before every line */
    int64_t timeout_s; /* for the whole job; 0: none */
    char **command;    /* ends with NULL */
} launch_options;

/* Returns the exit code: 0, or that of the first rank that failed, whose fate is then the last line
 * on stderr. Signals that end the launcher reach all ranks. */
int launch_job(const launch_options *options);

#endif
