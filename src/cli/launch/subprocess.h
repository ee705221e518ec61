/* subprocess.h: runs a program that works for us, and reads what it says. */
#ifndef RUEDA_CLI_LAUNCH_SUBPROCESS_H
#define RUEDA_CLI_LAUNCH_SUBPROCESS_H

#include <stddef.h>

#define SUBPROCESS_LINE_MAX 4096 /* longer lines are cut */

/* Is told every line of stdout and stderr, without its end. */
typedef void subprocess_listener(void *context, const char *line);

/* Runs the command (looked up in PATH) with nothing to read and waits for its end; without a listener its output is
 * ours. A signal that
 * would end us ends it and all it has started instead, and is the number in *caught (otherwise 0): the
 * caller cleans up and ends. Returns its exit code as the shell counts; 127 if there is no such
 * program. */
int subprocess_run(char *const *command, subprocess_listener *listener, void *context, int *caught);

/* Runs a command and returns its exit code; *said gets all that it said, in memory of the caller. A signal that
 * would end us ends the command, and then us. */
int subprocess_ask(char *const *command, char **said);

#endif
