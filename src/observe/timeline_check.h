/* timeline_check.h: reads a timeline as a stranger would: is it JSON, is every end that of a beginning? For
 * tests; knows nothing of how it was written. */
#ifndef RUEDA_OBSERVE_TIMELINE_CHECK_H
#define RUEDA_OBSERVE_TIMELINE_CHECK_H

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK_NAME_MAX 2048
#define CHECK_DEPTH_MAX 16

/* ---- JSON ------------------------------------------------------------------------------------ */

static const char *json_skip(const char *at)
{
    return at + strspn(at, " \t\r\n");
}

/* Each returns what follows the thing at `at`, or NULL if it is none. */
static const char *json_string(const char *at)
{
    if (*at++ != '"')
        return NULL;
    for (; *at != '"'; at++) {
        if ((unsigned char)*at < ' ')
            return NULL;
        if (*at != '\\')
            continue;
        at++;
        if (*at == 'u') {
            for (int i = 0; i < 4; i++) {
                if (!isxdigit((unsigned char)*++at))
                    return NULL;
            }
        } else if (*at == '\0' || strchr("\"\\/bfnrt", *at) == NULL) {
            return NULL;
        }
    }
    return at + 1;
}

static const char *json_number(const char *at)
{
    at += *at == '-';
    const size_t whole = strspn(at, "0123456789");
    if (whole == 0 || (whole > 1 && *at == '0'))
        return NULL;
    at += whole;
    if (*at == '.') {
        const size_t part = strspn(at + 1, "0123456789");
        if (part == 0)
            return NULL;
        at += 1 + part;
    }
    return at;
}

static const char *json_value(const char *at, int depth);

/* The inside of an object or an array. */
static const char *json_list(const char *at, char closing, int depth)
{
    at = json_skip(at);
    if (*at == closing)
        return at + 1;
    for (;;) {
        if (closing == '}') {
            at = json_string(json_skip(at));
            at = at == NULL ? NULL : json_skip(at);
            if (at == NULL || *at++ != ':')
                return NULL;
        }
        at = json_value(json_skip(at), depth + 1);
        if (at == NULL)
            return NULL;
        at = json_skip(at);
        if (*at == closing)
            return at + 1;
        if (*at++ != ',')
            return NULL;
    }
}

static const char *json_value(const char *at, int depth)
{
    if (depth > CHECK_DEPTH_MAX)
        return NULL;
    switch (*at) {
    case '{':
        return json_list(at + 1, '}', depth);
    case '[':
        return json_list(at + 1, ']', depth);
    case '"':
        return json_string(at);
    case 't':
        return strncmp(at, "true", 4) == 0 ? at + 4 : NULL;
    case 'f':
        return strncmp(at, "false", 5) == 0 ? at + 5 : NULL;
    case 'n':
        return strncmp(at, "null", 4) == 0 ? at + 4 : NULL;
    default:
        return json_number(at);
    }
}

/* Whether the text is one whole JSON array. */
static inline bool check_is_array(const char *text)
{
    text = json_skip(text);
    const char *end = *text == '[' ? json_value(text, 0) : NULL;
    return end != NULL && *json_skip(end) == '\0';
}

/* ---- Events ---------------------------------------------------------------------------------- */

typedef struct check_event {
    unsigned pid;
    int tid;   /* -1: none */
    char ph;   /* */
    double ts; /* -1: none */
    char *name;
    const char *line; /* the whole event, in the text */
    size_t length;
} check_event;

typedef struct check_timeline {
    char *text;
    check_event *events;
    size_t count;
} check_timeline;

static const char *check_field(const char *line, size_t length, const char *key)
{
    const char *found = memmem(line, length, key, strlen(key));
    return found == NULL ? NULL : found + strlen(key);
}

static check_event check_parse_event(const char *line, size_t length)
{
    const char *pid = check_field(line, length, "\"pid\": "),
               *tid = check_field(line, length, "\"tid\": "),
               *ph = check_field(line, length, "\"ph\": \""),
               *ts = check_field(line, length, "\"ts\": "),
               *name = check_field(line, length, "\"name\": \"");
    check_event e = {.pid = pid == NULL ? 0 : (unsigned)strtoul(pid, NULL, 10),
                     .tid = tid == NULL ? -1 : atoi(tid),
                     .ph = ph == NULL ? '?' : *ph,
                     .ts = ts == NULL ? -1 : strtod(ts, NULL),
                     .line = line,
                     .length = length};
    e.name = name == NULL ? strdup("") : strndup(name, (size_t)(json_string(name - 1) - 1 - name));
    return e;
}

static inline void check_free(check_timeline *t)
{
    for (size_t i = 0; i < t->count; i++)
        free(t->events[i].name);
    free(t->events);
    free(t->text);
    *t = (check_timeline){0};
}

/* The whole file with a zero after it, NULL if it cannot be read. */
static inline char *check_read(const char *path)
{
    FILE *from = fopen(path, "r");
    if (from == NULL)
        return NULL;
    size_t used = 0, room = 1 << 16;
    char *text = malloc(room);
    for (size_t got; (got = fread(text + used, 1, room - used - 1, from)) > 0;) {
        used += got;
        if (room - used < 2)
            text = realloc(text, room *= 2);
    }
    fclose(from);
    text[used] = '\0';
    return text;
}

/* Takes the text over. False: it is not a JSON array. */
static inline bool check_parse(check_timeline *t, char *text)
{
    *t = (check_timeline){.text = text};
    if (text == NULL || !check_is_array(text))
        return false;
    const char *at = json_skip(text) + 1;
    for (size_t room = 0;;) {
        at = json_skip(at);
        if (*at == ']')
            return true;
        if (*at == ',') {
            at++;
            continue;
        }
        const char *end = json_value(at, 0);
        if (t->count == room)
            t->events = realloc(t->events, (room = room == 0 ? 64 : 2 * room) * sizeof *t->events);
        t->events[t->count++] = check_parse_event(at, (size_t)(end - at));
        at = end;
    }
}

/* Every E ends the B before it on the same row, and times on a row do not go back. Returns what is wrong,
 * NULL if nothing is. `open`: at the end of the file beginnings may be open. */
static inline const char *check_nesting(const check_timeline *t, bool open)
{
    typedef struct row {
        unsigned pid;
        int tid, depth;
        double ts;
    } row;
    row *rows = NULL;
    size_t count = 0;
    const char *wrong = NULL;
    for (size_t i = 0; i < t->count && wrong == NULL; i++) {
        const check_event *e = &t->events[i];
        if (e->ph != 'B' && e->ph != 'E')
            continue;
        row *r = rows;
        while (r < rows + count && (r->pid != e->pid || r->tid != e->tid))
            r++;
        if (r == rows + count) {
            const size_t index = count++;
            rows = realloc(rows, count * sizeof *rows);
            r = rows + index;
            *r = (row){e->pid, e->tid, 0, 0};
        }
        r->depth += e->ph == 'B' ? 1 : -1;
        if (r->depth < 0)
            wrong = "an end without a beginning";
        else if (e->ts < r->ts)
            wrong = "an event before the one that was written before it";
        else if (e->ph == 'B' && e->name[0] == '\0')
            wrong = "a beginning without a name";
        r->ts = e->ts;
    }
    for (size_t i = 0; i < count && wrong == NULL && !open; i++)
        wrong = rows[i].depth == 0 ? NULL : "a beginning without an end";
    free(rows);
    return wrong;
}

static inline size_t check_count(const check_timeline *t, char ph, const char *name)
{
    size_t count = 0;
    for (size_t i = 0; i < t->count; i++)
        count += t->events[i].ph == ph && strcmp(t->events[i].name, name) == 0;
    return count;
}

/* The number of the tensor of this name; 0: there is none. */
static inline unsigned check_pid(const check_timeline *t, const char *tensor)
{
    char args[CHECK_NAME_MAX];
    snprintf(args, sizeof args, "\"args\": {\"name\": \"%s\"}", tensor);
    for (size_t i = 0; i < t->count; i++) {
        const check_event *e = &t->events[i];
        if (e->ph == 'M' && strcmp(e->name, "process_name") == 0 &&
            check_field(e->line, e->length, args) != NULL)
            return e->pid;
    }
    return 0;
}

#endif
