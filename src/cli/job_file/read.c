/* read.c: see read.h. */
#include "cli/job_file/read.h"

#include "cli/job_file/tree.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

char *job_read_whole(const char *path, size_t *bytes)
{
    FILE *file = fopen(path, "rbe");
    if (file == NULL)
        return NULL;
    char *text = malloc(JOB_BYTES_MAX + 1);
    errno = text != NULL ? 0 : ENOMEM;
    *bytes = text != NULL ? fread(text, 1, JOB_BYTES_MAX + 1, file) : 0;
    const int reason = errno;
    if (ferror(file) || text == NULL) {
        free(text);
        text = NULL;
    }
    fclose(file);
    errno = reason;
    return text;
}
