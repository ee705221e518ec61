/* tools.h: the programs of the platforms, and the files they take. */
#ifndef RUEDA_CLI_SUBMIT_TOOLS_H
#define RUEDA_CLI_SUBMIT_TOOLS_H

#include <stdbool.h>
#include <stddef.h>

/* The last line that is not empty of what subprocess_ask got; "nothing" if there is none. */
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
