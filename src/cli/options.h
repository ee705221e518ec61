/* options.h: the command line of one command, described as a table.
 *
 * Names are matched whole ("-np", "--timeout"); a value follows as the next word or after "=". Every
 * command understands --help. Bad usage is answered with one line that says what to write instead.
 */
#ifndef RUEDA_CLI_OPTIONS_H
#define RUEDA_CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EXIT_USAGE 2

typedef enum option_type {
    OPTION_FLAG,   /* bool */
    OPTION_NUMBER, /* int64_t */
    OPTION_MS,     /* int64_t milliseconds; given as seconds, with fractions */
    OPTION_TEXT,   /* const char * */
    OPTION_LIST,   /* may be given again and again; const char *[argc], ends with NULL */
    OPTION_IDLE,  /* known, but without effect: its name joins a list as of OPTION_LIST; `value`: it
                      takes one, which is dropped */
    OPTION_ABSENT /* known, but not built: bad usage, and `help` is why */
} option_type;

typedef struct option {
    const char *name;  /* "--timeout" */
    const char *value; /* what help calls the value: "SECONDS"; NULL for a flag */
    const char *help;  /* */
    option_type type;
    void *target;     /* as the type says; left alone when the option is not given */
    int64_t min, max; /* bounds of a number, or of milliseconds */
} option;

typedef struct command_line {
    const char *usage; /* "rueda run -np N [options] COMMAND [ARGUMENTS...]" */
    const char *about; /* a paragraph */
    const option *options;
    size_t option_count;
    const option *hidden; /* more options, which help does not list */
    size_t hidden_count;
    const char **operand; /* one word may stand anywhere among the options; NULL: the first word
                             that is no option ends them */
} command_line;

typedef enum options_result { OPTIONS_GO, OPTIONS_HELPED, OPTIONS_BAD } options_result;

/* Fills the targets. `*next` is the index of the first word that was not consumed (argc if none).
 * OPTIONS_HELPED: help was printed, exit 0. OPTIONS_BAD: the reason was printed, exit EXIT_USAGE. */
options_result options_parse(const command_line *line, int argc, char **argv, int *next);
int options_exit_code(options_result stopped);

/* Prints "rueda COMMAND: " and the sentence to stderr; returns EXIT_USAGE. */
int options_complain(const char *command, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
