/* tensors.h: operations that tests submit, wait for and check.
 *
 * A task is one operation of a process set. Inputs depend on the member's index in the set, so that
 * every member knows what must come out.
 */
#ifndef RUEDA_TESTS_TENSORS_H
#define RUEDA_TESTS_TENSORS_H

#include "harness.h"
#include "values.h"

typedef enum memory_kind {
    MEMORY_PRIVATE,
    MEMORY_SHARED, /* rueda_alloc */
    MEMORY_MIXED,  /* shared on even ranks */
    MEMORY_KIND_COUNT
} memory_kind;

/* Bytes from the heap or from rueda_alloc, never NULL; the kind is that of this rank. */
void *memory_take(memory_kind kind, size_t bytes);
void memory_give(memory_kind kind, void *memory);

typedef enum task_kind {
    TASK_ALLREDUCE,
    TASK_ALLGATHER,
    TASK_BROADCAST,
    TASK_ALLTOALL,
    TASK_REDUCESCATTER,
    TASK_REDUCE,
    TASK_GATHER,
    TASK_SCATTER,
    TASK_BARRIER,
    TASK_KIND_COUNT
} task_kind;

const char *task_kind_name(task_kind kind);
/* Whether `count` of such a task is one of ROWS_… */
bool task_counts_rows(task_kind kind);

/* How many rows each member has (allgather, gather), sends (alltoall) or gets (scatter; even: nobody says how
 * many): even, uneven with none on some, none but one, none at all, many. */
enum { ROWS_EVEN, ROWS_UNEVEN, ROWS_ONE, ROWS_NONE, ROWS_MANY, ROWS_COUNT };
size_t rows_of_member(int rows, int index);

typedef struct task {
    task_kind kind;
    recipe recipe;
    size_t count;  /* elements; reducescatter: rows; or one of ROWS_… */
    size_t width;  /* elements of a row, at least 1 where there are rows */
    int root;      /* where there is one: index in the set */
    bool in_place; /* or, where the output has another size: the library provides it */
    memory_kind memory;
    int32_t set;
    char name[RUEDA_MAX_NAME + 1];
    /* while it runs */
    void *input, *output;
    rueda_request *request;
} task;

/* A name made of all that the task is; shown in reports. */
void task_name(task *t);
void task_submit(task *t);
/* Waits, checks the result, and that an input that is not the output was left alone. */
void task_finish(task *t);
void task_run(task *t);
/* Frees the memory of a task that has ended otherwise. */
void task_drop(task *t);

typedef rueda_status (*collective)(const rueda_tensor *, const rueda_options *, rueda_request **);
/* Calls it, waits for its end and takes no output. */
rueda_status run_and_drop(collective call, const rueda_tensor *tensor,
                          const rueda_options *options);

#endif
