/* settings.h: what the program can be told. */
#ifndef MNIST_SETTINGS_H
#define MNIST_SETTINGS_H

#include "common/options.h"

#define MAX_BATCH 4096

typedef struct settings {
    run_options run;
    int op_word; /* place among the words of --op */
    int64_t batch, limit;
    const char *data; /* NULL: look for it */
} settings;

rueda_op settings_op(const settings *s);

/* Sets the defaults and writes the table; returns the number of rows. */
size_t settings_table(settings *s, option table[MAX_OPTIONS]);

/* data/mnist beside the program or in a folder above it, as in a tree that was built in place;
 * otherwise in the working directory. */
#define MAX_PATH_BYTES 4096
void find_data(char data[MAX_PATH_BYTES]);

#endif
