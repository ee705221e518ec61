/* timeline_check.h: reads a timeline as a stranger would: is it JSON, is every end that of a beginning? For
 * tests; knows nothing of how it was written. */
#ifndef RUEDA_OBSERVE_TIMELINE_CHECK_H
#define RUEDA_OBSERVE_TIMELINE_CHECK_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct check_event {
    unsigned pid;
    int tid;          /* -1: none */
    char ph;          /* what kind of event */
    double ts;        /* -1: none */
    const char *name; /* "": none */
    const json_t *args;
} check_event;

typedef struct check_timeline {
    char *text;
    json_t *array;
    check_event *events;
    size_t count;
} check_timeline;

/* Whether the text is one whole JSON array. */
static inline bool check_is_array(const char *text)
{
    json_t *array = json_loads(text, 0, NULL);
    const bool is_array = json_is_array(array);
    json_decref(array);
    return is_array;
}

static inline check_event check_read_event(const json_t *event)
{
    const json_t *tid = json_object_get(event, "tid"), *ts = json_object_get(event, "ts");
    const char *ph = json_string_value(json_object_get(event, "ph"));
    const char *name = json_string_value(json_object_get(event, "name"));
    return (check_event){.pid = (unsigned)json_integer_value(json_object_get(event, "pid")),
                         .tid = tid == NULL ? -1 : (int)json_integer_value(tid),
                         .ph = ph == NULL ? '?' : *ph,
                         .ts = ts == NULL ? -1 : json_number_value(ts),
                         .name = name == NULL ? "" : name,
                         .args = json_object_get(event, "args")};
}

static inline void check_free(check_timeline *t)
{
    free(t->events);
    json_decref(t->array);
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
    t->array = text == NULL ? NULL : json_loads(text, 0, NULL);
    if (!json_is_array(t->array))
        return false;
    t->count = json_array_size(t->array);
    t->events = calloc(t->count + 1, sizeof *t->events);
    for (size_t i = 0; i < t->count; i++)
        t->events[i] = check_read_event(json_array_get(t->array, i));
    return true;
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
    for (size_t i = 0; i < t->count; i++) {
        const check_event *e = &t->events[i];
        const char *name = json_string_value(json_object_get(e->args, "name"));
        if (strcmp(e->name, "process_name") == 0 && name != NULL && strcmp(name, tensor) == 0)
            return e->pid;
    }
    return 0;
}

#endif
