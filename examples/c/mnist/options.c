/* options.c: see options.h. */
#include "options.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char options_help[] =
    "Trains a network on MNIST. Start it alone, or on N ranks: rueda run -np N mnist [options]\n"
    "\n"
    "  --op OP               adasum, average or sum: how the workers' steps are combined (adasum)\n"
    "  --epochs N            times every image is seen (2)\n"
    "  --batch N             images in a step, for each worker (32)\n"
    "  --lr RATE             learning rate at its peak (0.02)\n"
    "  --workers-per-rank N  one process stands in for N workers; a power of two (1)\n"
    "  --seed N              of the first weights and the shuffles (1)\n"
    "  --data FOLDER         with the idx files (data/mnist, looked for upward)\n"
    "  --limit N             only the first N images for training, and for the test\n"
    "  --eval-every STEPS    test accuracy so often; 0: after every epoch (0)\n"
    "  --log FILE            one row for every step, as FILE.csv or FILE.json (lines of JSON)\n"
    "  --progress MODE       bar, lines, none or auto: a bar on a terminal (auto)\n"
    "  --json                events as lines of JSON on stdout, and nothing else\n"
    "  --help                this\n";

typedef struct parser {
    options *o;
    char *error;
} parser;

__attribute__((format(printf, 2, 3))) static bool complain(const parser *p, const char *format, ...)
{
    char what[OPTIONS_ERROR_BYTES / 2];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    snprintf(p->error, OPTIONS_ERROR_BYTES, "mnist: %s; see mnist --help", what);
    return false;
}

static bool read_number(const parser *p, const char *name, const char *text, int64_t min,
                        int64_t max, int64_t *value)
{
    char *end;
    errno = 0;
    const long long number = strtoll(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0 || number < min || number > max)
        return complain(p, "%s takes a number from %lld to %lld, not '%s'", name, (long long)min,
                        (long long)max, text);
    *value = number;
    return true;
}

/* One of a list of words; *value is its place. */
static bool read_word(const parser *p, const char *name, const char *text, const char *const *words,
                      int *value)
{
    for (int i = 0; words[i] != NULL; i++) {
        if (strcmp(text, words[i]) == 0) {
            *value = i;
            return true;
        }
    }
    return complain(p, "%s does not know '%s'", name, text);
}

static bool read_op(const parser *p, const char *name, const char *text)
{
    static const char *const words[] = {"average", "sum", "adasum", NULL};
    static const rueda_op ops[] = {RUEDA_AVERAGE, RUEDA_SUM, RUEDA_ADASUM};
    int which = 0;
    if (!read_word(p, name, text, words, &which))
        return false;
    p->o->op = ops[which];
    return true;
}

static bool read_rate(const parser *p, const char *name, const char *text)
{
    char *end;
    const double rate = strtod(text, &end);
    if (end == text || *end != '\0' || !(rate > 0) || !isfinite(rate))
        return complain(p, "%s takes a number above 0, not '%s'", name, text);
    p->o->lr = rate;
    return true;
}

static bool read_workers(const parser *p, const char *name, const char *text)
{
    int64_t *n = &p->o->workers_per_rank;
    if (!read_number(p, name, text, 1, MAX_WORKERS, n))
        return false;
    if ((*n & (*n - 1)) != 0)
        return complain(
            p, "%s takes a power of two: the tree over all workers is cut between ranks", name);
    return true;
}

static bool read_log(const parser *p, const char *name, const char *text)
{
    const char *dot = strrchr(text, '.');
    if (dot == NULL || (strcmp(dot, ".csv") != 0 && strcmp(dot, ".json") != 0))
        return complain(p, "%s takes a file that ends in .csv or .json, not '%s'", name, text);
    p->o->log = text;
    return true;
}

/* An option with a value. */
static bool read_option(const parser *p, const char *name, const char *text)
{
    static const char *const modes[] = {"auto", "bar", "lines", "none", NULL};
    options *o = p->o;
    int mode = 0;
    if (strcmp(name, "--op") == 0)
        return read_op(p, name, text);
    if (strcmp(name, "--epochs") == 0)
        return read_number(p, name, text, 1, MAX_EPOCHS, &o->epochs);
    if (strcmp(name, "--batch") == 0)
        return read_number(p, name, text, 1, MAX_BATCH, &o->batch);
    if (strcmp(name, "--lr") == 0)
        return read_rate(p, name, text);
    if (strcmp(name, "--workers-per-rank") == 0)
        return read_workers(p, name, text);
    if (strcmp(name, "--seed") == 0)
        return read_number(p, name, text, 0, INT64_MAX, &o->seed);
    if (strcmp(name, "--limit") == 0)
        return read_number(p, name, text, 1, INT_MAX, &o->limit);
    if (strcmp(name, "--eval-every") == 0)
        return read_number(p, name, text, 0, INT_MAX, &o->eval_every);
    if (strcmp(name, "--log") == 0)
        return read_log(p, name, text);
    if (strcmp(name, "--data") == 0) {
        if (strlen(text) >= sizeof o->data)
            return complain(p, "%s: the path is too long", name);
        strcpy(o->data, text);
        return true;
    }
    if (strcmp(name, "--progress") == 0) {
        if (!read_word(p, name, text, modes, &mode))
            return false;
        o->progress = (progress_mode)mode;
        return true;
    }
    return complain(p, "unknown option '%s'", name);
}

/* data/mnist beside the program or in a folder above it, as in a tree that was built in place;
 * otherwise in the working directory. */
static void find_data(char data[MAX_PATH_BYTES])
{
    static const char below[] = "/data/mnist";
    char path[MAX_PATH_BYTES];
    const ssize_t length = readlink("/proc/self/exe", path, sizeof path - sizeof below);
    if (length > 0) {
        path[length] = '\0';
        for (char *slash = strrchr(path, '/'); slash != NULL; slash = strrchr(path, '/')) {
            strcpy(slash, below);
            if (access(path, R_OK) == 0) {
                strcpy(data, path);
                return;
            }
            *slash = '\0';
        }
    }
    strcpy(data, below + 1);
}

options_result options_parse(options *o, int argc, char **argv, char error[OPTIONS_ERROR_BYTES])
{
    *o = (options){
        .op = RUEDA_ADASUM, .epochs = 2, .batch = 32, .workers_per_rank = 1, .seed = 1, .lr = 0.02};
    const parser p = {o, error};
    for (int i = 1; i < argc; i++) {
        const char *name = argv[i];
        if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
            return OPTIONS_HELPED;
        if (strcmp(name, "--json") == 0) {
            o->json = true;
        } else if (name[0] != '-') {
            complain(&p, "what is '%s'?", name);
            return OPTIONS_BAD;
        } else if (i + 1 == argc) {
            complain(&p, "'%s' is unknown, or its value is missing", name);
            return OPTIONS_BAD;
        } else if (!read_option(&p, name, argv[++i])) {
            return OPTIONS_BAD;
        }
    }
    if (o->json)
        o->progress = PROGRESS_NONE;
    if (o->data[0] == '\0')
        find_data(o->data);
    return OPTIONS_GO;
}
