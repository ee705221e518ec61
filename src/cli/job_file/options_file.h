/* options_file.h: options of `rueda run` from a file, as horovodrun reads them by --config-file. */
#ifndef RUEDA_CLI_JOB_FILE_OPTIONS_FILE_H
#define RUEDA_CLI_JOB_FILE_OPTIONS_FILE_H

#include <stdbool.h>
#include <stddef.h>

#define OPTIONS_FILE_MAX 64 /* options in a file */

typedef struct options_file {
    char *words[OPTIONS_FILE_MAX]; /* "--log-level=info", in memory of their own */
    size_t count;
} options_file;

/* Reads the file. False: what is wrong was said on stderr. Free it in both cases. */
bool options_file_read(options_file *file, const char *path);
void options_file_free(options_file *file);

#endif
