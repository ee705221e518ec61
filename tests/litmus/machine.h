/* machine.h: the state of a litmus program under way, and its memory as C11 allows it to be seen.
 *
 * Every atomic place has a list of messages, one for each value that was stored, in modification order. A view
 * says how far into each list somebody has seen, and which plain accesses happened before. A thread may
 * load any message that is not behind its view, and may put a new one anywhere after it. A message carries the
 * view that its writer released with it, and whoever acquires it takes that view over.
 *
 * Invariant: a state has one form. Messages that no thread can load any more are gone, and views count from
 * the first that is left, so two states that can do the same are the same bytes.
 */
#ifndef RUEDA_TESTS_LITMUS_MACHINE_H
#define RUEDA_TESTS_LITMUS_MACHINE_H

#include "litmus.h"

#include <stdio.h>

#define MESSAGES_MAX 56 /* of all places, that can still be loaded */
#define STEPS_MAX 250   /* of one thread */
#define PLAIN_MAX 6     /* places of plain memory: their bits must fit into `knows` */

typedef struct view {
    uint8_t seen[LITMUS_PLACES]; /* the last message seen */
    uint32_t knows; /* for each plain place: the last write, and the last read of each thread */
} view;

typedef struct message {
    int16_t value;
    uint16_t attached; /* by a read-modify-write to the one before: nothing comes between */
    view released;
} message;

typedef struct thread {
    uint8_t next; /* step */
    uint8_t ended;
    uint8_t asleep;   /* 1 + the place that it sleeps on */
    uint8_t returned; /* so many times from a sleep for no reason */
    int16_t registers[LITMUS_REGISTERS];
    view current;  /* what happened before the next step */
    view acquired; /* what will have after an acquire fence */
    view released; /* what had happened at the last release fence */
} thread;

typedef struct state {
    thread threads[LITMUS_THREADS];
    view sequential;               /* what seq_cst fences and stores have agreed on */
    uint8_t kernel[LITMUS_PLACES]; /* of a futex word: what the last wake has made known */
    uint8_t first[LITMUS_PLACES];  /* message; the list of a place follows that of the one before */
    uint8_t count[LITMUS_PLACES];  /* of messages; of other memory one */
    uint32_t total;
    message messages[MESSAGES_MAX]; /* those after `total` are not copied */
} state;

static inline message *message_at(state *s, int place, int at)
{
    return &s->messages[s->first[place] + at];
}

static inline int message_value(const state *s, int place, int at)
{
    return s->messages[s->first[place] + at].value;
}

/* A program with its changes made and its labels found. */
typedef struct machine {
    const litmus_program *program;
    int threads, places;
    litmus_step steps[LITMUS_THREADS][STEPS_MAX];
    uint8_t live[LITMUS_THREADS][STEPS_MAX]; /* registers that the step or a later one uses */
    uint32_t strong[LITMUS_THREADS]
                   [STEPS_MAX]; /* places that it or a later one uses with seq_cst, … */
    uint32_t weak[LITMUS_THREADS][STEPS_MAX]; /* … and otherwise */
    uint8_t writers[LITMUS_PLACES];           /* threads that ever change the place: a bit each */
    int8_t plain_index[LITMUS_PLACES];
    const char *failure; /* of the last step; NULL: none */
    char failure_text[200];
    FILE *story; /* where steps are told; NULL: nowhere */
} machine;

/* change.c */
void machine_init(machine *m, const litmus_program *program, const litmus_change *changes,
                  int count);
int machine_label(const machine *m, int t, int label);

/* uses.c: what a program can never notice is left out of its states, or there would be many times as many. */
void uses_find(machine *m);

/* memory.c: every function takes the thread's own way of choosing as an index of a message. */
typedef enum applied { APPLIED, APPLIED_NOT, APPLIED_LAST } applied;

void memory_init(const machine *m, state *s);
/* The first message that the thread may load. */
int memory_oldest(const state *s, int t, const litmus_step *step);
int memory_load(state *s, int t, int place, int at, litmus_order order);
bool memory_fits_behind(const state *s, int place, int at);
/* False: there is no room for one more message. */
bool memory_store(state *s, int t, int place, int at, int value, litmus_order order);
bool memory_modify(state *s, int t, int place, int at, int value, litmus_order order);
void memory_fence(state *s, int t, litmus_order order);
bool memory_read(machine *m, state *s, int t, int place, int *value);
bool memory_write(machine *m, state *s, int t, int place, int value);
void memory_lock(state *s, int t, int place);
void memory_unlock(state *s, int t, int place);
void memory_copy(state *to, const state *from);
/* Brings the state into its one form. */
void memory_tidy(const machine *m, state *s);

/* steps.c */
void steps_init(machine *m, state *s);
/* The thread's next step, done in the way of that number; APPLIED_LAST: there are no more ways. */
applied steps_apply(machine *m, state *s, int t, int way);

#endif
