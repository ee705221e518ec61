/* log.h: one row for every step, as CSV or as lines of JSON. */
#ifndef EXAMPLES_LOG_H
#define EXAMPLES_LOG_H

#include "common/record.h"

#include <stdio.h>

typedef struct log_file {
    const subject *about;
    FILE *file;   /* NULL: no log */
    bool json;    /* its format; otherwise CSV */
    FILE *events; /* NULL, or where each record goes as JSON too */
} log_file;

/* `path` may be NULL; the end of the name tells the format. False, with errno: it cannot be made. */
bool log_open(log_file *log, const subject *about, const char *path, FILE *events);
void log_step(log_file *log, const step_record *r);
bool log_close(log_file *log, const run_summary *s); /* false: not all was written */

#endif
