/* tail.h: the last lines of a rank, to be shown again when it has failed. */
#ifndef RUEDA_CLI_LAUNCH_TAIL_H
#define RUEDA_CLI_LAUNCH_TAIL_H

#include "cli/launch/bytes.h"

#define TAIL_LINES 12
#define TAIL_LINES_ERRORS 60 /* of stderr: a traceback through a framework is long */
#define TAIL_LINES_ALL 1000
#define TAIL_BYTES 8192 /* of these lines together */

/* Keeps the last of what comes, at least TAIL_BYTES. */
void tail_add(bytes *tail, const char *data, size_t count);
/* Calls `show` for each of the last `lines` lines, in order, without their ends. */
void tail_show(const bytes *tail, int lines, void (*show)(void *context, const char *line),
               void *context);

#endif
