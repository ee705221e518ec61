/* tensors.h: tensors that tests submit, wait for and check. */
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

/* One allreduce of a one-dimensional tensor: submitted, then finished and checked. */
typedef struct trial {
    recipe recipe;
    size_t count;
    bool in_place;
    memory_kind memory;
    int32_t set;
    const int32_t *set_ranks; /* NULL: 0 … set_size−1 */
    int set_size;             /* 0: all ranks of the job */
    char name[RUEDA_MAX_NAME + 1];
    /* while it runs */
    void *input, *output;
    rueda_request *request;
} trial;

void trial_submit(trial *t);
/* Waits, checks the result, and that an input that is not the output was left alone. */
void trial_finish(trial *t);
void trial_run(trial *t);

/* The inputs of one rank in an operation that moves rows: `rows` × `width` elements. */
void *rows_of(const recipe *r, int rank, size_t rows, size_t width, memory_kind memory);

#endif
