/* tools.h: the programs of the platforms, and the files they take. */
#ifndef RUEDA_CLI_SUBMIT_TOOLS_H
#define RUEDA_CLI_SUBMIT_TOOLS_H

#include <stdbool.h>
#include <stddef.h>

/* Whether PATH has the program. */
bool tool_exists(const char *program);

/* Runs a command and returns its exit code; *said gets all that it said, in memory of the caller. A
 * signal that would end us ends the command, and then us. */
int tool_ask(char *const *command, char **said);
/* The last line of that which is not empty; "nothing" if there is none. */
const char *tool_last_line(char *said);

/* Runs a command with our own input and output; returns its exit code. */
int tool_show(char *const *command);

/* Writes a file for our user alone. False: complained. */
bool tool_write(const char *path, const char *text, size_t bytes);
/* The same under a new name in this folder, "rueda-submit-XXXXXX" and the suffix; `path` has room for
 * TOOL_PATH_MAX bytes. */
#define TOOL_PATH_MAX 64
bool tool_write_new(const char *suffix, const char *text, size_t bytes, char *path);

#endif
