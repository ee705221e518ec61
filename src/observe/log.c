/* log.c: one line, one write. */
#include "observe/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define LOG_LINE_MAX 2048

static const char *const level_names[] = {"error", "warn", "info", "debug"};

bool log_level_parse(const char *text, log_level *level)
{
    /* Horovod's spellings, beside "warning" */
    if (strcasecmp(text, "fatal") == 0)
        return *level = LOG_ERROR, true;
    if (strcasecmp(text, "trace") == 0)
        return *level = LOG_DEBUG, true;
    for (int i = 0; i < 4; i++) {
        if (strncasecmp(text, level_names[i], strlen(level_names[i])) == 0)
            return *level = (log_level)i, true;
    }
    return false;
}

void log_line(const logger *l, log_level level, const char *format, ...)
{
    if (level > l->level)
        return;
    char line[LOG_LINE_MAX];
    int used = l->rank < 0 ? snprintf(line, sizeof line, "rueda %s: ", level_names[level])
                           : snprintf(line, sizeof line, "rueda %s: rank %d: ", level_names[level],
                                      l->rank);
    va_list args;
    va_start(args, format);
    vsnprintf(line + used, sizeof line - 1 - (size_t)used, format, args);
    va_end(args);
    const size_t length = strlen(line);
    line[length] = '\n';
    const ssize_t written = write(STDERR_FILENO, line, length + 1);
    (void)written; /* nowhere left to complain */
}
