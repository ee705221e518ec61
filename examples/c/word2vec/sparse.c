/* sparse.c: see sparse.h. There is room for all rows of all workers from the start: the system gives
 * memory to what is touched, which is little of it. */
#include "sparse.h"

#include <stdlib.h>
#include <string.h>

bool sparse_init(sparse *s, int words, int size, int workers)
{
    const size_t rows = (size_t)words * (size_t)workers;
    *s = (sparse){.words = words, .size = size};
    s->indices = malloc(sizeof *s->indices * rows);
    s->values = malloc(sizeof *s->values * rows * (size_t)size);
    s->places = calloc((size_t)words, sizeof *s->places);
    return s->indices != NULL && s->values != NULL && s->places != NULL;
}

void sparse_free(sparse *s)
{
    free(s->indices);
    free(s->values);
    free(s->places);
}

void sparse_clear(sparse *s)
{
    s->count = s->first = 0;
}

void sparse_next_worker(sparse *s)
{
    s->first = s->count;
}

/* A place is believed only if the row there is of this worker and of this word, so that places need
 * not be cleared. */
float *sparse_row(sparse *s, int32_t word)
{
    int32_t place = s->places[word];
    if (place < s->first || place >= s->count || s->indices[place] != word) {
        place = s->places[word] = s->count++;
        s->indices[place] = word;
        memset(s->values + (size_t)place * (size_t)s->size, 0, sizeof *s->values * (size_t)s->size);
    }
    return s->values + (size_t)place * (size_t)s->size;
}
