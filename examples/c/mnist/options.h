/* options.h: the words after the program's name. */
#ifndef MNIST_OPTIONS_H
#define MNIST_OPTIONS_H

#include <rueda.h>
#include <stdbool.h>

#define EXIT_USAGE 2
#define MAX_EPOCHS 1000
#define MAX_BATCH 4096
#define MAX_WORKERS 1024 /* in one rank */
#define MAX_PATH_BYTES 4096
#define OPTIONS_ERROR_BYTES 512

typedef enum progress_mode {
    PROGRESS_AUTO,
    PROGRESS_BAR,
    PROGRESS_LINES,
    PROGRESS_NONE
} progress_mode;

typedef struct options {
    rueda_op op;
    int64_t epochs, batch, workers_per_rank, seed, limit, eval_every;
    double lr;
    char data[MAX_PATH_BYTES];
    const char *log; /* NULL: none */
    progress_mode progress;
    bool json;
} options;

typedef enum options_result { OPTIONS_GO, OPTIONS_HELPED, OPTIONS_BAD } options_result;

extern const char options_help[];

/* Prints nothing, since all ranks get the same words: `error` gets one line for one of them to say. */
options_result options_parse(options *o, int argc, char **argv, char error[OPTIONS_ERROR_BYTES]);

#endif
