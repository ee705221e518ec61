/* status.c: the sentence of the last failure, one for each thread. */
#include "base/status.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Whose sentence it is: the thread's. All others ask here. */
#ifdef RUEDA_SIMULATED
char *world_status_text(void); /* of the fiber that stands for a thread; see world/sim */
#define last_text world_status_text
#else
static char *last_text(void)
{
    static _Thread_local char text[STATUS_TEXT_MAX];
    return text;
}
#endif

rueda_status status_fail(rueda_status code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(last_text(), STATUS_TEXT_MAX, format, args);
    va_end(args);
    return code;
}

rueda_status status_fail_errno(rueda_status code, const char *format, ...)
{
    const int saved = errno;
    va_list args;
    va_start(args, format);
    vsnprintf(last_text(), STATUS_TEXT_MAX, format, args);
    va_end(args);
    char *text = last_text();
    const size_t used = strlen(text);
    snprintf(text + used, STATUS_TEXT_MAX - used, ": %s", strerror(saved));
    return code;
}

rueda_status status_restore(rueda_status code, const char *text)
{
    snprintf(last_text(), STATUS_TEXT_MAX, "%s", text);
    return code;
}

const char *status_text(void)
{
    return last_text();
}

const char *rueda_status_name(rueda_status status)
{
    switch (status) {
#define STATUS_NAME_CASE(name, value, scope, sentence)                                             \
    case RUEDA_##name:                                                                             \
        return "RUEDA_" #name;
        RUEDA_STATUS_LIST(STATUS_NAME_CASE)
    }
    return "?";
}

const char *rueda_status_sentence(rueda_status status)
{
    switch (status) {
#define STATUS_SENTENCE_CASE(name, value, scope, sentence)                                         \
    case RUEDA_##name:                                                                             \
        return sentence;
        RUEDA_STATUS_LIST(STATUS_SENTENCE_CASE)
    }
    return "?";
}

rueda_scope rueda_status_scope(rueda_status status)
{
    switch (status) {
#define STATUS_SCOPE_CASE(name, value, scope, sentence)                                            \
    case RUEDA_##name:                                                                             \
        return RUEDA_SCOPE_##scope;
        RUEDA_STATUS_LIST(STATUS_SCOPE_CASE)
    }
    return RUEDA_SCOPE_PROCESS;
}
