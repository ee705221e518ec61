/* options.c: see options.h. */
#include "common/options.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void options_of_run(run_options *r, option *rows)
{
    static const char *const modes[] = {"auto", "bar", "lines", "none", NULL};
    const option all[RUN_OPTIONS] = {
        {"--epochs", OPTION_NUMBER, &r->epochs, "N", "times everything is seen", 1, MAX_EPOCHS,
         NULL},
        {"--lr", OPTION_RATE, &r->lr, "RATE", "learning rate where it is largest", 0, 0, NULL},
        {"--workers-per-rank", OPTION_WORKERS, &r->workers_per_rank, "N",
         "one process stands in for N workers; with several ranks a power of two", 1, MAX_WORKERS,
         NULL},
        {"--seed", OPTION_NUMBER, &r->seed, "N", "of everything random", 0, INT64_MAX, NULL},
        {"--eval-every", OPTION_NUMBER, &r->eval_every, "STEPS",
         "test so often; 0: after every epoch", 0, INT32_MAX, NULL},
        {"--log", OPTION_LOG, &r->log, "FILE",
         "one row for every step, as FILE.csv or FILE.json (lines of JSON)", 0, 0, NULL},
        {"--save", OPTION_FILE, &r->save, "FILE",
         "the parameters at the end, as float32 one after the other", 0, 0, NULL},
        {"--progress", OPTION_WORD, &r->progress, "MODE",
         "bar, lines, none, or auto: a bar on a terminal", 0, 0, modes},
        {"--json", OPTION_FLAG, &r->json, NULL,
         "events as lines of JSON on stdout, and nothing else", 0, 0, NULL}};
    memcpy(rows, all, sizeof all);
}

typedef struct parser {
    const char *program;
    char *error;
} parser;

__attribute__((format(printf, 2, 3))) static bool complain(const parser *p, const char *format, ...)
{
    char what[OPTIONS_ERROR_BYTES / 2];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    snprintf(p->error, OPTIONS_ERROR_BYTES, "%s: %s; see %s --help", p->program, what, p->program);
    return false;
}

/* ---- One value ------------------------------------------------------------------------------- */

static bool read_number(const parser *p, const option *o, const char *text)
{
    char *end;
    errno = 0;
    const long long number = strtoll(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0 || number < o->min || number > o->max)
        return complain(p, "%s takes a number from %lld to %lld, not '%s'", o->name,
                        (long long)o->min, (long long)o->max, text);
    if (o->kind == OPTION_WORKERS && rueda_size() > 1 && (number & (number - 1)) != 0)
        return complain(
            p, "%s takes a power of two: the tree over all workers is cut between ranks", o->name);
    *(int64_t *)o->value = number;
    return true;
}

static bool read_rate(const parser *p, const option *o, const char *text)
{
    char *end;
    const double rate = strtod(text, &end);
    if (end == text || *end != '\0' || !(rate > 0) || !isfinite(rate))
        return complain(p, "%s takes a number above 0, not '%s'", o->name, text);
    *(double *)o->value = rate;
    return true;
}

static bool read_word(const parser *p, const option *o, const char *text)
{
    for (int i = 0; o->words[i] != NULL; i++) {
        if (strcmp(text, o->words[i]) == 0) {
            *(int *)o->value = i;
            return true;
        }
    }
    return complain(p, "%s does not know '%s'", o->name, text);
}

static bool read_file(const parser *p, const option *o, const char *text)
{
    const char *dot = strrchr(text, '.');
    if (o->kind == OPTION_LOG &&
        (dot == NULL || (strcmp(dot, ".csv") != 0 && strcmp(dot, ".json") != 0)))
        return complain(p, "%s takes a file that ends in .csv or .json, not '%s'", o->name, text);
    *(const char **)o->value = text;
    return true;
}

static bool read_value(const parser *p, const option *o, const char *text)
{
    switch (o->kind) {
    case OPTION_NUMBER:
    case OPTION_WORKERS:
        return read_number(p, o, text);
    case OPTION_RATE:
        return read_rate(p, o, text);
    case OPTION_WORD:
        return read_word(p, o, text);
    case OPTION_FILE:
    case OPTION_LOG:
        return read_file(p, o, text);
    case OPTION_FLAG:
        break;
    }
    return false;
}

/* ---- All of them ----------------------------------------------------------------------------- */

static const option *find(const option *table, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(table[i].name, name) == 0)
            return &table[i];
    }
    return NULL;
}

options_result options_parse(const char *program, const option *table, size_t count, int argc,
                             char **argv, char error[OPTIONS_ERROR_BYTES])
{
    const parser p = {program, error};
    for (int i = 1; i < argc; i++) {
        const char *name = argv[i];
        if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
            return OPTIONS_HELPED;
        const option *o = find(table, count, name);
        bool good = true;
        if (o == NULL)
            good = complain(&p, name[0] == '-' ? "unknown option '%s'" : "what is '%s'?", name);
        else if (o->kind == OPTION_FLAG)
            *(bool *)o->value = true;
        else if (i + 1 == argc)
            good = complain(&p, "'%s' lacks its value", name);
        else
            good = read_value(&p, o, argv[++i]);
        if (!good)
            return OPTIONS_BAD;
    }
    return OPTIONS_GO;
}

static void print_default(const option *o)
{
    const char *file = NULL;
    switch (o->kind) {
    case OPTION_NUMBER:
    case OPTION_WORKERS:
        printf(" (%lld)", (long long)*(int64_t *)o->value);
        break;
    case OPTION_RATE:
        printf(" (%g)", *(double *)o->value);
        break;
    case OPTION_WORD:
        printf(" (%s)", o->words[*(int *)o->value]);
        break;
    case OPTION_FILE:
    case OPTION_LOG:
        file = *(const char **)o->value;
        if (file != NULL)
            printf(" (%s)", file);
        break;
    case OPTION_FLAG:
        break;
    }
}

void options_help(const char *about, const option *table, size_t count)
{
    printf("%s\n\n", about);
    for (size_t i = 0; i < count; i++) {
        const option *o = &table[i];
        const char *argument = o->argument != NULL ? o->argument : "";
        printf("  %s %-*s %s", o->name, (int)(22 - strlen(o->name)), argument, o->help);
        print_default(o);
        putchar('\n');
    }
    printf("  %-23s %s\n", "--help", "this");
}
