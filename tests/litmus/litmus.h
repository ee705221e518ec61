/* litmus.h: small programs of a few threads, and whether anything that C11 allows makes them fail.
 *
 * A program has places (atomic words, plain memory, locks) and for each thread a list of steps. litmus_explore
 * walks through every order of steps and every value that a load may see, and stops at the first failure: a
 * data race, a step MUST that does not hold, or an end that the program's judge refuses, as a thread that
 * sleeps for ever. README.md says what the model allows and what it leaves out.
 *
 * A change is made to a program to show that the exploration finds what is missing then.
 */
#ifndef RUEDA_TESTS_LITMUS_H
#define RUEDA_TESTS_LITMUS_H

#include <stdbool.h>
#include <stdint.h>

#define LITMUS_THREADS 4
#define LITMUS_PLACES 20
#define LITMUS_REGISTERS 6
#define LITMUS_TRACE 16384 /* bytes of a trace, which is cut there */

typedef enum litmus_order { PLAIN, RELAXED, ACQUIRE, RELEASE, ACQ_REL, SEQ_CST } litmus_order;

typedef enum litmus_kind {
    STEP_END, /* ends a list of steps */
    STEP_LABEL,
    STEP_GOTO,
    STEP_IF,
    STEP_SET,
    STEP_COUNT,
    STEP_MUST,
    STEP_READ,
    STEP_WRITE,
    STEP_NAP,
    STEP_FENCE,
    STEP_LOAD,
    STEP_AWAIT,
    STEP_STORE,
    STEP_ADD,
    STEP_EXCHANGE,
    STEP_COMPARE_EXCHANGE,
    STEP_SLEEP,
    STEP_WAKE,
    STEP_LOCK,
    STEP_UNLOCK
} litmus_kind;

typedef enum litmus_relation { EQ, NE, GE } litmus_relation;

/* Registers by name, so that a value is not taken for one. */
typedef enum litmus_register { R0, R1, R2, R3, R4, R5 } litmus_register;

typedef struct litmus_step {
    litmus_kind kind;
    const char *says; /* the line of the source that it stands for */
    const char *name; /* by which a change finds it; NULL: none does */
    litmus_order order;
    litmus_relation relation;
    int place, reg, value, label;
    bool by_register; /* `value` is the number of a register that has it */
} litmus_step;

/* The last argument of each is what the step says, and may go on with fields: .name = "notify.fence" */
#define LABEL(l)                                                                                   \
    {                                                                                              \
        .kind = STEP_LABEL, .label = (l)                                                           \
    }
#define GOTO(l)                                                                                    \
    {                                                                                              \
        .kind = STEP_GOTO, .label = (l)                                                            \
    }
#define IF(r, rel, v, l, ...)                                                                      \
    {                                                                                              \
        .kind = STEP_IF, .reg = (r), .relation = (rel), .value = (v), .label = (l),                \
        .says = __VA_ARGS__                                                                        \
    }
#define SET(r, v)                                                                                  \
    {                                                                                              \
        .kind = STEP_SET, .reg = (r), .value = (v)                                                 \
    }
#define COPY(r, from)                                                                              \
    {                                                                                              \
        .kind = STEP_SET, .reg = (r), .value = (from), .by_register = true                         \
    }
#define COUNT(r, v)                                                                                \
    {                                                                                              \
        .kind = STEP_COUNT, .reg = (r), .value = (v)                                               \
    }
#define MUST(r, rel, v, ...)                                                                       \
    {                                                                                              \
        .kind = STEP_MUST, .reg = (r), .relation = (rel), .value = (v), .says = __VA_ARGS__        \
    }
#define READ(r, p, ...)                                                                            \
    {                                                                                              \
        .kind = STEP_READ, .reg = (r), .place = (p), .says = __VA_ARGS__                           \
    }
#define WRITE(p, v, ...)                                                                           \
    {                                                                                              \
        .kind = STEP_WRITE, .place = (p), .value = (v), .says = __VA_ARGS__                        \
    }
/* A sleep that is over after a short time, whatever happens: for the model it is nothing at all. */
#define NAP(...)                                                                                   \
    {                                                                                              \
        .kind = STEP_NAP, .says = __VA_ARGS__                                                      \
    }
#define FENCE(o, ...)                                                                              \
    {                                                                                              \
        .kind = STEP_FENCE, .order = (o), .says = __VA_ARGS__                                      \
    }
#define LOAD(o, r, p, ...)                                                                         \
    {                                                                                              \
        .kind = STEP_LOAD, .order = (o), .reg = (r), .place = (p), .says = __VA_ARGS__             \
    }
/* Loads again and again until the value is right; that it may be wrong for ever is no failure as long as the
 * right one comes. The register has the value. */
#define AWAIT(o, r, p, rel, v, ...)                                                                \
    {                                                                                              \
        .kind = STEP_AWAIT, .order = (o), .reg = (r), .place = (p), .relation = (rel),             \
        .value = (v), .says = __VA_ARGS__                                                          \
    }
#define STORE(o, p, v, ...)                                                                        \
    {                                                                                              \
        .kind = STEP_STORE, .order = (o), .place = (p), .value = (v), .says = __VA_ARGS__          \
    }
/* The register gets what was there before. */
#define ADD(o, r, p, v, ...)                                                                       \
    {                                                                                              \
        .kind = STEP_ADD, .order = (o), .reg = (r), .place = (p), .value = (v),                    \
        .says = __VA_ARGS__                                                                        \
    }
#define EXCHANGE(o, r, p, v, ...)                                                                  \
    {                                                                                              \
        .kind = STEP_EXCHANGE, .order = (o), .reg = (r), .place = (p), .value = (v),               \
        .says = __VA_ARGS__                                                                        \
    }
/* The register holds what is expected, and then what was there: equal means that it was done. */
#define COMPARE_EXCHANGE(o, r, p, v, ...)                                                          \
    {                                                                                              \
        .kind = STEP_COMPARE_EXCHANGE, .order = (o), .reg = (r), .place = (p), .value = (v),       \
        .says = __VA_ARGS__                                                                        \
    }
/* A futex: sleeps if the place has the register's value, until WAKE; see `returns`. */
#define SLEEP(r, p, ...)                                                                           \
    {                                                                                              \
        .kind = STEP_SLEEP, .reg = (r), .place = (p), .says = __VA_ARGS__                          \
    }
#define WAKE(p, ...)                                                                               \
    {                                                                                              \
        .kind = STEP_WAKE, .place = (p), .says = __VA_ARGS__                                       \
    }
#define LOCK(p, ...)                                                                               \
    {                                                                                              \
        .kind = STEP_LOCK, .place = (p), .says = __VA_ARGS__                                       \
    }
#define UNLOCK(p, ...)                                                                             \
    {                                                                                              \
        .kind = STEP_UNLOCK, .place = (p), .says = __VA_ARGS__                                     \
    }
#define END                                                                                        \
    {                                                                                              \
        .kind = STEP_END                                                                           \
    }

typedef enum litmus_memory { ATOMIC_WORD, PLAIN_MEMORY, MUTEX } litmus_memory;

typedef struct litmus_place {
    const char *name;
    litmus_memory memory;
    int initial;
} litmus_place;

/* All begin with 0. */
#define WORD(n)                                                                                    \
    {                                                                                              \
        .name = (n), .memory = ATOMIC_WORD                                                         \
    }
#define MEMORY(n)                                                                                  \
    {                                                                                              \
        .name = (n), .memory = PLAIN_MEMORY                                                        \
    }
#define LOCKED(n)                                                                                  \
    {                                                                                              \
        .name = (n), .memory = MUTEX                                                               \
    }

typedef struct litmus_thread {
    const char *name;
    const litmus_step *steps; /* NULL: no such thread */
} litmus_thread;

/* What is left when no thread can go on. */
typedef struct litmus_end {
    int registers[LITMUS_THREADS][LITMUS_REGISTERS];
    int values[LITMUS_PLACES];
    bool ended[LITMUS_THREADS]; /* else it sleeps, or waits, for ever */
} litmus_end;

typedef struct litmus_program {
    litmus_place places[LITMUS_PLACES]; /* up to the first without a name */
    litmus_thread threads[LITMUS_THREADS];
    /* What is wrong with an end; NULL: nothing. Without a judge every thread must have ended. */
    const char *(*judge)(const litmus_end *end);
    int returns;           /* so many times a thread's sleeps end for no reason, as by a signal */
    bool whole;            /* leaves out no state, as a check of uses.c: many times as many */
    bool judges_registers; /* else `registers` of an end are all 0 */
} litmus_program;

/* Each changes every step of the name; what is NULL does nothing. */
typedef struct litmus_change {
    const char *leave_out;
    const char *order_of; /* gets `order` */
    litmus_order order;
    const char *move, *behind; /* behind the next step of the second name */
} litmus_change;

typedef struct litmus_result {
    uint64_t states;
    char *failure; /* NULL: none */
    char trace[LITMUS_TRACE];
} litmus_result;

/* `changes`: as many as `count`. */
litmus_result *litmus_explore(const litmus_program *program, const litmus_change *changes,
                              int count);
void litmus_free(litmus_result *result);

/* For tests: explore small programs whole as well, print a line, and on a surprise the trace. LITMUS_TRACE=1 in the environment prints all traces. */
void litmus_holds(const char *name, const litmus_program *program);
void litmus_holds_with(const char *name, const litmus_program *program, litmus_change change);
/* `failure`: how its sentence begins. */
void litmus_fails(const char *name, const litmus_program *program, litmus_change change,
                  const char *failure);

#define LITMUS_RACE "data race"
#define LITMUS_FOR_EVER "for ever"
#define LITMUS_UNCHANGED ((litmus_change){.leave_out = NULL})

#endif
