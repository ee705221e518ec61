/* timeline_read.c: see timeline_read.h. */
#include "cli/timeline_read.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_ROOM 1024

void timeline_sum_init(timeline_sum *s)
{
    memset(s, 0, sizeof *s);
    s->first_tid = -1;
}

void timeline_sum_fini(timeline_sum *s)
{
    for (size_t i = 0; i < s->tensor_room; i++)
        free(s->tensors[i].name);
    free(s->tensors);
    free(s->lanes);
}

/* ---- Tables, by number ------------------------------------------------------------------------ */

static size_t slot_of(uint32_t pid, int tid, size_t room)
{
    return (size_t)((pid + (uint64_t)(uint32_t)tid * 2654435761u) * UINT64_C(0x9E3779B97F4A7C15) >>
                    20) %
           room;
}

/* pid 0 belongs to no tensor, so it marks a place that is free. */
static timeline_tensor *place_tensor(timeline_tensor *table, size_t room, uint32_t pid)
{
    size_t i = slot_of(pid, 0, room);
    while (table[i].pid != 0 && table[i].pid != pid)
        i = (i + 1) % room;
    return &table[i];
}

static timeline_lane *place_lane(timeline_lane *table, size_t room, uint32_t pid, int tid)
{
    size_t i = slot_of(pid, tid, room);
    while (table[i].pid != 0 && (table[i].pid != pid || table[i].tid != tid))
        i = (i + 1) % room;
    return &table[i];
}

static bool grow_tensors(timeline_sum *s)
{
    const size_t room = s->tensor_room == 0 ? FIRST_ROOM : 2 * s->tensor_room;
    timeline_tensor *grown = calloc(room, sizeof *grown);
    if (grown == NULL)
        return false;
    for (size_t i = 0; i < s->tensor_room; i++) {
        if (s->tensors[i].pid != 0)
            *place_tensor(grown, room, s->tensors[i].pid) = s->tensors[i];
    }
    free(s->tensors);
    s->tensors = grown;
    s->tensor_room = room;
    return true;
}

static bool grow_lanes(timeline_sum *s)
{
    const size_t room = s->lane_room == 0 ? FIRST_ROOM : 2 * s->lane_room;
    timeline_lane *grown = calloc(room, sizeof *grown);
    if (grown == NULL)
        return false;
    for (size_t i = 0; i < s->lane_room; i++) {
        const timeline_lane *l = &s->lanes[i];
        if (l->pid != 0)
            *place_lane(grown, room, l->pid, l->tid) = *l;
    }
    free(s->lanes);
    s->lanes = grown;
    s->lane_room = room;
    return true;
}

static timeline_tensor *tensor_of(timeline_sum *s, uint32_t pid)
{
    if (2 * s->tensor_count >= s->tensor_room && !grow_tensors(s))
        return s->failed = true, NULL;
    timeline_tensor *t = place_tensor(s->tensors, s->tensor_room, pid);
    s->tensor_count += t->pid == 0;
    t->pid = pid;
    return t;
}

static timeline_lane *lane_of(timeline_sum *s, uint32_t pid, int tid)
{
    if (2 * s->lane_count >= s->lane_room && !grow_lanes(s))
        return s->failed = true, NULL;
    timeline_lane *l = place_lane(s->lanes, s->lane_room, pid, tid);
    s->lane_count += l->pid == 0;
    l->pid = pid;
    l->tid = tid;
    return l;
}

/* ---- One line --------------------------------------------------------------------------------- */

typedef struct event {
    json_t *object; /* what the texts lie in */
    uint32_t pid;
    int tid;
    char ph;
    double ts;
    const char *name;   /* "" if there is none */
    const json_t *args; /* NULL if there are none */
} event;

/* Whether the object is an event; e->object is the caller's then. */
static bool take_fields(json_t *object, event *e)
{
    const json_t *pid = json_object_get(object, "pid"), *tid = json_object_get(object, "tid"),
                 *ts = json_object_get(object, "ts");
    const char *ph = json_string_value(json_object_get(object, "ph")),
               *name = json_string_value(json_object_get(object, "name"));
    const json_int_t number = json_integer_value(pid), rank = json_integer_value(tid);
    if (!json_is_integer(pid) || ph == NULL || (!json_is_number(ts) && *ph != 'M'))
        return false;
    *e = (event){.object = object,
                 .pid = (uint32_t)number,
                 .tid = (int)rank,
                 .ph = *ph,
                 .ts = json_number_value(ts),
                 .name = name == NULL ? "" : name,
                 .args = json_object_get(object, "args")};
    return number >= 0 && number <= UINT32_MAX && rank >= 0 && rank < TIMELINE_RANKS_MAX;
}

static bool parse(const char *line, size_t length, event *e)
{
    json_t *object = json_loadb(line, length, 0, NULL);
    if (take_fields(object, e))
        return true;
    json_decref(object);
    return false;
}

static bool is_named(const event *e, const char *name)
{
    return strcmp(e->name, name) == 0;
}

static void take_name(timeline_sum *s, const event *e)
{
    const char *name = json_string_value(json_object_get(e->args, "name"));
    timeline_tensor *t = e->pid == 0 || name == NULL ? NULL : tensor_of(s, e->pid);
    if (t != NULL && t->name == NULL)
        t->name = strdup(name);
}

static timeline_activity activity_of(const event *e, int depth)
{
    static const char negotiate[] = "NEGOTIATE_";
    if (depth > 0)
        return is_named(e, "QUEUE") ? ACTIVITY_QUEUE : ACTIVITY_WORK;
    return strncmp(e->name, negotiate, sizeof negotiate - 1) == 0 ? ACTIVITY_NEGOTIATE
                                                                  : ACTIVITY_COUNT;
}

static void begin_activity(timeline_lane *l, const event *e)
{
    l->open[l->depth] = (timeline_open){activity_of(e, l->depth), e->ts};
    l->depth++;
    l->last_rank = -1;
    l->last_ts = l->before_ts = 0;
}

/* "0", "1", …: this rank is ready. */
static void note_ready(timeline_lane *l, const event *e)
{
    if (l->last_rank >= 0 && e->ts <= l->last_ts) {
        l->before_ts = e->ts > l->before_ts ? e->ts : l->before_ts;
        return;
    }
    l->before_ts = l->last_rank >= 0 ? l->last_ts : e->ts;
    l->last_ts = e->ts;
    l->last_rank = atoi(e->name);
}

static void note_late(timeline_sum *s, const timeline_lane *l)
{
    if (l->tid != s->first_tid || l->last_rank < 0 || l->last_rank >= TIMELINE_RANKS_MAX)
        return;
    s->late[l->last_rank].times++;
    s->late[l->last_rank].us += l->last_ts - l->before_ts;
}

static void end_activity(timeline_sum *s, timeline_tensor *t, timeline_lane *l, const event *e)
{
    const timeline_open *o = &l->open[--l->depth];
    const double us = e->ts - o->ts;
    if (o->activity == ACTIVITY_COUNT) {
        t->operations++;
        t->longest_us = us > t->longest_us ? us : t->longest_us;
        return;
    }
    t->us[o->activity] += us;
    if (o->activity == ACTIVITY_NEGOTIATE)
        note_late(s, l);
}

/* What is wrong, or NULL. */
static const char *take_event(timeline_sum *s, const event *e)
{
    s->events++;
    if (e->ph == 'M') {
        if (is_named(e, "process_name"))
            take_name(s, e);
        return NULL;
    }
    s->first_ts = s->first_ts == 0 || e->ts < s->first_ts ? e->ts : s->first_ts;
    s->last_ts = e->ts > s->last_ts ? e->ts : s->last_ts;
    if (e->pid == 0) {
        const json_int_t notes = json_integer_value(json_object_get(e->args, "notes"));
        s->dropped += is_named(e, "DROPPED") && notes > 0 ? (uint64_t)notes : 0;
        s->rounds += is_named(e, "CYCLE_START");
        return NULL;
    }
    if (s->first_tid < 0 || e->tid < s->first_tid)
        s->first_tid = e->tid;
    timeline_tensor *t = tensor_of(s, e->pid);
    timeline_lane *l = t == NULL ? NULL : lane_of(s, e->pid, e->tid);
    if (l == NULL)
        return "out of memory";
    if (e->ph == 'X')
        note_ready(l, e);
    else if (e->ph == 'B' && l->depth == TIMELINE_DEPTH_MAX)
        return "activities lie too deep in each other";
    else if (e->ph == 'B')
        begin_activity(l, e);
    else if (e->ph == 'E' && l->depth == 0)
        return "an activity ends that has not begun";
    else if (e->ph == 'E')
        end_activity(s, t, l, e);
    return NULL;
}

/* ---- Files ------------------------------------------------------------------------------------ */

static bool complain(char *reason, size_t line, const char *what)
{
    snprintf(reason, TIMELINE_REASON_MAX, "line %zu: %s", line, what);
    return false;
}

/* Without the newline, and without the comma before it. */
static void trim(char *line, ssize_t *length)
{
    while (*length > 0 && strchr("\r\n ", line[*length - 1]) != NULL)
        line[--*length] = '\0';
    if (*length > 0 && line[*length - 1] == ',')
        line[--*length] = '\0';
}

static void copy_line(timeline_sum *s, FILE *merged, const char *line)
{
    if (merged != NULL)
        fprintf(merged, "%s%s", s->events > 0 ? ",\n" : "", line);
}

bool timeline_sum_add(timeline_sum *s, FILE *from, FILE *merged, char reason[TIMELINE_REASON_MAX])
{
    char *line = NULL;
    size_t room = 0, number = 0;
    bool good = true, opened = false, closed = false;
    for (ssize_t length; good && (length = getline(&line, &room, from)) >= 0;) {
        number++;
        trim(line, &length);
        event e;
        if (length == 0)
            continue;
        if (closed || (!opened && strcmp(line, "[") != 0)) {
            good = complain(reason, number, "this is not a timeline of rueda");
        } else if (!opened) {
            opened = true;
        } else if (strcmp(line, "]") == 0) {
            closed = true;
        } else if (!parse(line, (size_t)length, &e)) {
            good = complain(reason, number, "this is not an event of a timeline of rueda");
        } else {
            copy_line(s, merged, line);
            const char *wrong = take_event(s, &e);
            good = wrong == NULL || complain(reason, number, wrong);
            json_decref(e.object);
        }
    }
    free(line);
    return good && (closed || complain(reason, number, "the closing bracket is missing"));
}

size_t timeline_sum_open(const timeline_sum *s)
{
    size_t open = 0;
    for (size_t i = 0; i < s->lane_room; i++)
        open += (size_t)s->lanes[i].depth;
    return open;
}

double timeline_tensor_us(const timeline_tensor *t)
{
    return t->us[ACTIVITY_NEGOTIATE] + t->us[ACTIVITY_QUEUE] + t->us[ACTIVITY_WORK];
}

static int by_time(const void *a, const void *b)
{
    const double x = timeline_tensor_us(*(timeline_tensor *const *)a),
                 y = timeline_tensor_us(*(timeline_tensor *const *)b);
    return x < y ? 1 : x > y ? -1 : 0;
}

timeline_tensor **timeline_sum_sorted(const timeline_sum *s)
{
    timeline_tensor **sorted = calloc(s->tensor_count + 1, sizeof *sorted);
    size_t count = 0;
    for (size_t i = 0; sorted != NULL && i < s->tensor_room; i++) {
        if (s->tensors[i].pid != 0)
            sorted[count++] = &s->tensors[i];
    }
    if (sorted != NULL)
        qsort(sorted, count, sizeof *sorted, by_time);
    return sorted;
}
