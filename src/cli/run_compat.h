/* run_compat.h: horovodrun's options, for scripts and hands that know it. */
#ifndef RUEDA_CLI_RUN_COMPAT_H
#define RUEDA_CLI_RUN_COMPAT_H

#include "cli/run_options.h"

#define RUN_COMPAT_MAX 80

/* The rows of the options' table; returns how many. */
size_t run_compat_options(run_options *o, option rows[RUN_COMPAT_MAX]);
/* The variables that they set, as "NAME=VALUE" in memory of their own, at most RUN_VARIABLES_MAX. */
size_t run_compat_variables(const run_options *o, char **list);

/* Says, in one line, which options were given that have no effect. */
void run_compat_warn(const run_options *o);

/* As launch_job, with horovodrun's prefix before lines; a failure is then told on stderr in its words, too.
 * Scripts look for both. */
int run_compat_launch(run_options *o);

#endif
