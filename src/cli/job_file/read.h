/* read.h: a file as bytes. */
#ifndef RUEDA_CLI_JOB_FILE_READ_H
#define RUEDA_CLI_JOB_FILE_READ_H

#include <stddef.h>

/* At most JOB_BYTES_MAX + 1 bytes of a file, to be freed; the last one shows that there are too many.
 * NULL: errno says why not. */
char *job_read_whole(const char *path, size_t *bytes);

#endif
