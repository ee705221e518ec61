/* sparse.h: gradients of a few rows of a table. */
#ifndef WORD2VEC_SPARSE_H
#define WORD2VEC_SPARSE_H

#include <stdbool.h>
#include <stdint.h>

/* Rows of several workers one after the other; the rows of one worker are all different. */
typedef struct sparse {
    int words, size;
    int count;        /* rows so far, of all workers */
    int first;        /* where the rows of this worker begin */
    int32_t *indices; /* which row of the table each one is */
    float *values;    /* count × size */
    int32_t *places;  /* of each row of the table: where it is in this list */
} sparse;

bool sparse_init(sparse *s, int words, int size, int workers); /* false: out of memory */
void sparse_free(sparse *s);

void sparse_clear(sparse *s);       /* no rows, no workers */
void sparse_next_worker(sparse *s); /* what was there stays; rows are new again */

/* This worker's row for a word; new ones are zero. Valid until sparse_free. */
float *sparse_row(sparse *s, int32_t word);

#endif
