/* run_options.h: what the command line of `rueda run` says. */
#ifndef RUEDA_CLI_RUN_OPTIONS_H
#define RUEDA_CLI_RUN_OPTIONS_H

#include "cli/launch/hosts.h"
#include "cli/options.h"

#define RUN_NUMBERS 5 /* options that set a variable to a number */
#define RUN_TEXTS 2   /* … to a text */
#define RUN_VARIABLES_MAX (RUN_NUMBERS + RUN_TEXTS + 6) /* that options set, and the list's end */

typedef struct run_options {
    launch_options launch; /* all but the steps; points into what follows */
    bool dry_run, check_build;
    bool mpi; /* mpirun starts the ranks */
    const char *mpirun, *mpi_arguments;
    bool horovodrun; /* a failure is also told in horovodrun's words */

    /* As written. */
    int64_t ranks, min_ranks, ssh_port, numbers[RUN_NUMBERS]; /* a number that is not given: -1 */
    const char *hosts_text, *host_file, *bind, *timeline, *texts[RUN_TEXTS], *config_file;
    const char **variables, **ssh_options; /* end with NULL */
    const char **idle;                     /* names of options without effect; ends with NULL */
    bool hierarchical, no_stall_check, mark_cycles, tcp, granted;

    host_list hosts;
    char **environment, **forwarded; /* what -x and others come to */
    size_t own_variables;            /* of `environment`: in memory of their own */
} run_options;

/* Fills `o`, to be freed in any case. `*next` is where the command starts. The number of ranks is 0 if
 * neither -np nor hosts say it. */
options_result run_options_parse(run_options *o, int argc, char **argv, int *next);
void run_options_free(run_options *o);

extern const char run_usage[];

#endif
