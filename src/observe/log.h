/* log.h: what the library tells on stderr, prefixed with rank and level. The first detector of a
 * problem logs it; nobody else does. */
#ifndef RUEDA_OBSERVE_LOG_H
#define RUEDA_OBSERVE_LOG_H

#include "base/status.h"

#include <stdbool.h>

typedef enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG } log_level;

typedef struct logger {
    log_level level; /* lines above it are dropped */
    int rank;        /* -1: not known yet */
} logger;

bool log_level_parse(const char *text, log_level *level);

/* Writes one line with one system call, so that ranks don't mix their lines. Thread-safe. */
void log_line(const logger *l, log_level level, const char *format, ...) STATUS_PRINTF(3, 4);

#endif
