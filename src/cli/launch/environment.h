/* environment.h: which variables go along to other hosts, whose login sets all others. */
#ifndef RUEDA_CLI_LAUNCH_ENVIRONMENT_H
#define RUEDA_CLI_LAUNCH_ENVIRONMENT_H

#include "cli/launcher.h"

/* The variables for all ranks of a host: those the job sets, `own_host` ("RUEDA_HOST=…", or NULL) before
 * them, and elsewhere also those that matter of our own. The list is the caller's to free, the texts are not. */
char **environment_for(const launch_options *options, bool here, const char *own_host);

#endif
