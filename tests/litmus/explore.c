/* explore.c: all states that a program can get into, the nearest first, so that a trace is as short as can be. */
#include "machine.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define STATES_MAX 8000000
#define FIRST_BUCKETS (UINT64_C(1) << 12)

typedef struct fingerprint {
    uint64_t a, b;
} fingerprint;

/* How a state was first reached. */
typedef struct node {
    uint32_t parent;
    uint8_t t, way;
} node;

typedef struct state_list {
    state *states;
    uint32_t *numbers;
    size_t count, room;
} state_list;

typedef struct exploration {
    machine m;
    fingerprint *buckets; /* all zero: free */
    uint64_t bucket_count;
    node *nodes;
    size_t count, room;
    state_list now, next;
} exploration;

static void *grown(void *memory, size_t bytes)
{
    void *larger = realloc(memory, bytes);
    if (larger == NULL) {
        fprintf(stderr, "litmus: out of memory\n");
        exit(1);
    }
    return larger;
}

static void *zeroed(size_t bytes)
{
    return memset(grown(NULL, bytes), 0, bytes);
}

/* ---- States that were seen ------------------------------------------------------------------- */

static uint64_t mix(uint64_t h, uint64_t word)
{
    h = (h ^ word) * UINT64_C(0x9E3779B97F4A7C15);
    return h ^ (h >> 29);
}

static void add_bytes(fingerprint *f, const void *bytes, size_t count)
{
    const uint8_t *at = bytes;
    for (; count > 0; count -= count < 8 ? count : 8) {
        uint64_t word = 0;
        memcpy(&word, at, count < 8 ? count : 8);
        f->a = mix(f->a, word);
        f->b = mix(f->b + UINT64_C(0xD1B54A32D192ED03), word ^ (word << 17));
        at += 8;
    }
}

/* 128 bits: that two states of a few million have the same is less likely than a broken machine. */
static fingerprint fingerprint_of(const machine *m, const state *s)
{
    fingerprint f = {1, 2};
    add_bytes(&f, s->threads, (size_t)m->threads * sizeof s->threads[0]);
    add_bytes(&f, s->sequential.seen, (size_t)m->places);
    add_bytes(&f, s->kernel, (size_t)m->places);
    add_bytes(&f, s->count, (size_t)m->places);
    add_bytes(&f, s->messages, s->total * sizeof s->messages[0]);
    return f;
}

static fingerprint *find(exploration *x, fingerprint f)
{
    uint64_t i = f.a & (x->bucket_count - 1);
    while ((x->buckets[i].a != 0 || x->buckets[i].b != 0) &&
           (x->buckets[i].a != f.a || x->buckets[i].b != f.b))
        i = (i + 1) & (x->bucket_count - 1);
    return &x->buckets[i];
}

static void grow_buckets(exploration *x)
{
    fingerprint *before = x->buckets;
    const uint64_t count = x->bucket_count;
    x->bucket_count = count == 0 ? FIRST_BUCKETS : 4 * count;
    x->buckets = zeroed(x->bucket_count * sizeof *x->buckets);
    for (uint64_t i = 0; i < count; i++) {
        if (before[i].a != 0 || before[i].b != 0)
            *find(x, before[i]) = before[i];
    }
    free(before);
}

/* Notes a state that is new, to be looked at later. */
static void note(exploration *x, const state *s, uint32_t parent, int t, int way)
{
    if (2 * x->count >= x->bucket_count)
        grow_buckets(x);
    const fingerprint f = fingerprint_of(&x->m, s);
    fingerprint *place = find(x, f);
    if (place->a != 0 || place->b != 0)
        return;
    *place = f;
    if (x->count == x->room) {
        x->room = x->room == 0 ? 1024 : 2 * x->room;
        x->nodes = grown(x->nodes, x->room * sizeof *x->nodes);
    }
    x->nodes[x->count] = (node){parent, (uint8_t)t, (uint8_t)way};
    state_list *l = &x->next;
    if (l->count == l->room) {
        l->room = l->room == 0 ? 256 : 2 * l->room;
        l->states = grown(l->states, l->room * sizeof *l->states);
        l->numbers = grown(l->numbers, l->room * sizeof *l->numbers);
    }
    memory_copy(&l->states[l->count], s);
    l->numbers[l->count++] = (uint32_t)x->count++;
}

/* ---- Ends ------------------------------------------------------------------------------------ */

static const char *judge(machine *m, const state *s)
{
    litmus_end end = {.values = {0}};
    for (int p = 0; p < m->places; p++)
        end.values[p] = message_value(s, p, s->count[p] - 1);
    for (int t = 0; t < m->threads; t++) {
        end.ended[t] = s->threads[t].ended;
        for (int r = 0; r < LITMUS_REGISTERS; r++)
            end.registers[t][r] = s->threads[t].registers[r];
    }
    if (m->program->judge != NULL)
        return m->program->judge(&end);
    for (int t = 0; t < m->threads; t++) {
        if (end.ended[t])
            continue;
        snprintf(m->failure_text, sizeof m->failure_text, LITMUS_FOR_EVER ": %s %s",
                 m->program->threads[t].name, s->threads[t].asleep ? "sleeps" : "waits");
        return m->failure_text;
    }
    return NULL;
}

/* ---- The walk -------------------------------------------------------------------------------- */

/* All steps from one state; a failure stops. Returns the thread and way of a failure in *last. */
static void go_on(exploration *x, const state *s, uint32_t number, node *last)
{
    bool stuck = true;
    state after;
    for (int t = 0; t < x->m.threads; t++) {
        for (int way = 0;; way++) {
            memory_copy(&after, s);
            const applied done = steps_apply(&x->m, &after, t, way);
            if (done == APPLIED_LAST)
                break;
            if (done == APPLIED_NOT)
                continue;
            stuck = false;
            *last = (node){number, (uint8_t)t, (uint8_t)way};
            if (x->m.failure != NULL)
                return;
            note(x, &after, number, t, way);
        }
    }
    if (stuck) {
        *last = (node){number, UINT8_MAX, 0};
        x->m.failure = judge(&x->m, s);
    }
}

static void walk(exploration *x, node *last)
{
    while (x->next.count > 0) {
        const state_list finished = x->now;
        x->now = x->next;
        x->next = finished;
        x->next.count = 0;
        for (size_t i = 0; i < x->now.count; i++) {
            go_on(x, &x->now.states[i], x->now.numbers[i], last);
            if (x->count > STATES_MAX)
                x->m.failure = "too many states";
            if (x->m.failure != NULL)
                return;
        }
    }
}

/* ---- The trace ------------------------------------------------------------------------------- */

static void tell_end(machine *m, const state *s)
{
    for (int t = 0; t < m->threads; t++) {
        if (!s->threads[t].ended)
            fprintf(m->story, "  %-12s … %s for ever\n", m->program->threads[t].name,
                    s->threads[t].asleep ? "sleeps" : "waits");
    }
}

/* Goes the way once more, and tells it. */
static void tell_story(exploration *x, const node *last, char *text, size_t bytes)
{
    size_t length = 1;
    for (uint32_t i = last->parent; i != 0; i = x->nodes[i].parent)
        length++;
    node *path = grown(NULL, length * sizeof *path);
    path[length - 1] = *last;
    for (size_t i = length - 1; i > 0; i--)
        path[i - 1] = x->nodes[path[i].parent];
    machine *m = &x->m;
    m->failure = NULL;
    m->story = fmemopen(text, bytes, "w");
    assert(m->story != NULL);
    state s;
    steps_init(m, &s);
    for (size_t i = 0; i < length && path[i].t != UINT8_MAX; i++)
        steps_apply(m, &s, path[i].t, path[i].way);
    if (path[length - 1].t == UINT8_MAX)
        tell_end(m, &s);
    fclose(m->story);
    m->story = NULL;
    text[bytes - 1] = '\0';
    free(path);
}

litmus_result *litmus_explore(const litmus_program *program, const litmus_change *changes,
                              int count)
{
    exploration *x = zeroed(sizeof *x);
    litmus_result *result = zeroed(sizeof *result);
    machine_init(&x->m, program, changes, count);
    state first;
    node last = {0, UINT8_MAX, 0};
    steps_init(&x->m, &first);
    note(x, &first, 0, 0, 0);
    if (x->m.failure == NULL)
        walk(x, &last);
    result->states = x->count;
    if (x->m.failure != NULL) {
        result->failure = strdup(x->m.failure);
        tell_story(x, &last, result->trace, sizeof result->trace);
    }
    free(x->buckets);
    free(x->nodes);
    free(x->now.states);
    free(x->now.numbers);
    free(x->next.states);
    free(x->next.numbers);
    free(x);
    return result;
}

void litmus_free(litmus_result *result)
{
    free(result->failure);
    free(result);
}
