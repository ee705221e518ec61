/* settings.h: what the program can be told. */
#ifndef WORD2VEC_SETTINGS_H
#define WORD2VEC_SETTINGS_H

#include "common/options.h"

/* How the workers' work becomes one. */
typedef enum how {
    HOW_ADASUM,  /* each trains alone on its lines; Adasum of what that changed */
    HOW_AVERAGE, /* the same, and the mean of what that changed */
    HOW_GATHER   /* gradients of a few rows, by allgather */
} how;

typedef struct settings {
    run_options run;
    int how;
    int64_t lines, size, window, negatives, least, limit;
    double frequent;
    const char *corpus, *vectors;
} settings;

extern const char *const how_words[];

/* Sets the defaults and writes the table; returns the number of rows. */
size_t settings_table(settings *s, option table[MAX_OPTIONS]);

#endif
