/* options.h: the words after a program's name, as a table of what it understands. */
#ifndef EXAMPLES_OPTIONS_H
#define EXAMPLES_OPTIONS_H

#include <rueda.h>
#include <stdbool.h>
#include <stddef.h>

#define EXIT_USAGE 2
#define MAX_EPOCHS 1000
#define MAX_WORKERS 1024 /* in one rank */
#define OPTIONS_ERROR_BYTES 512

/* What follows the name, and what the value is. */
typedef enum option_kind {
    OPTION_FLAG,    /* nothing; bool */
    OPTION_NUMBER,  /* from min to max; int64_t */
    OPTION_WORKERS, /* the same, and in a job of several ranks a power of two */
    OPTION_RATE,    /* above 0; double */
    OPTION_WORD,    /* one of the words; int: its place among them */
    OPTION_FILE,    /* const char *, which lives as long as argv */
    OPTION_LOG      /* the same, ending in .csv or .json */
} option_kind;

typedef struct option {
    const char *name;
    option_kind kind;
    void *value;
    const char *argument; /* for people; NULL for a flag */
    const char *help;     /* what it is for, with the default */
    int64_t min, max;
    const char *const *words; /* up to NULL */
} option;

/* What every training program understands. */
typedef enum progress_mode {
    PROGRESS_AUTO,
    PROGRESS_BAR,
    PROGRESS_LINES,
    PROGRESS_NONE
} progress_mode;

typedef struct run_options {
    int64_t epochs, workers_per_rank, seed, eval_every;
    double lr;
    const char *log, *save; /* NULL: none */
    int progress;           /* progress_mode */
    bool json;
} run_options;

#define RUN_OPTIONS 9
#define MAX_OPTIONS 24

/* Writes the RUN_OPTIONS rows of the table for them. */
void options_of_run(run_options *r, option *rows);

typedef enum options_result { OPTIONS_GO, OPTIONS_HELPED, OPTIONS_BAD } options_result;

/* Sets the values that the words name; the others keep theirs, which are the defaults. Prints nothing,
 * since all ranks get the same words: `error` gets one line for one of them to say. */
options_result options_parse(const char *program, const option *table, size_t count, int argc,
                             char **argv, char error[OPTIONS_ERROR_BYTES]);

/* The table for people, with the values it now has as the defaults. */
void options_help(const char *about, const option *table, size_t count);

#endif
