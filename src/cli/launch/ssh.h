/* ssh.h: the command that starts an agent on another host. */
#ifndef RUEDA_CLI_LAUNCH_SSH_H
#define RUEDA_CLI_LAUNCH_SSH_H

#include "cli/launcher.h"

/* Its words, for execvp, in memory of their own. Nothing secret is among them: the job follows over
 * the agent's stdin. */
char **ssh_command(const launch_ssh *ssh, const char *host, int64_t connect_s);
void ssh_command_free(char **command);

/* A word as a shell reads it back, in memory of its own. */
char *ssh_quote(const char *word);

#endif
