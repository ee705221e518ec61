/* options.c: parses a command line by its table. */
#include "cli/options.h"

#include "base/text.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HELP_COLUMN 26    /* where the explanations of --help start */
#define NAME_MAX_BYTES 64 /* of a misspelt option: no name is as long */

int options_complain(const char *command, const char *format, ...)
{
    va_list args;
    fprintf(stderr, "rueda %s: ", command);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    return EXIT_USAGE;
}

static void print_option(const char *name, const char *value, const char *help)
{
    const int used = printf("  %s%s%s", name, value ? " " : "", value ? value : "");
    printf("%*s%s\n", used < HELP_COLUMN ? HELP_COLUMN - used : 1, "", help);
}

static void print_help(const command_line *line)
{
    printf("usage: %s\n\n%s\n\noptions:\n", line->usage, line->about);
    for (size_t i = 0; i < line->option_count; i++)
        print_option(line->options[i].name, line->options[i].value, line->options[i].help);
    print_option("--help", NULL, "this text");
}

static const option *find_in(const option *options, size_t count, const char *word)
{
    const size_t length = strcspn(word, "=");
    for (size_t i = 0; i < count; i++) {
        if (strlen(options[i].name) == length && strncmp(options[i].name, word, length) == 0)
            return &options[i];
    }
    return NULL;
}

/* The option that a word names, also as "--name=value"; NULL if none. */
static const option *find_option(const command_line *line, const char *word)
{
    const option *found = find_in(line->options, line->option_count, word);
    return found != NULL ? found : find_in(line->hidden, line->hidden_count, word);
}

/* The value of "--name=value" is no part of what was misspelt. Hidden options come last: where both are
 * as near, help knows the other. */
static options_result complain_unknown(const command_line *line, const char *command,
                                       const char *word)
{
    char name[NAME_MAX_BYTES];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(word, "="), word);
    text_nearest nearest = text_nearest_to(name);
    for (size_t i = 0; i < line->option_count; i++)
        text_nearest_offer(&nearest, line->options[i].name);
    for (size_t i = 0; i < line->hidden_count; i++)
        text_nearest_offer(&nearest, line->hidden[i].name);
    if (nearest.best != NULL)
        options_complain(command, "unknown option %s; did you mean %s?", word, nearest.best);
    else
        options_complain(command, "unknown option %s; see rueda %s --help", word, command);
    return OPTIONS_BAD;
}

static options_result set_number(const option *o, const char *command, const char *text)
{
    char *end;
    errno = 0;
    const long long number = strtoll(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || number < o->min || number > o->max) {
        options_complain(command, "%s %s is not valid; give a number from %lld to %lld", o->name,
                         text, (long long)o->min, (long long)o->max);
        return OPTIONS_BAD;
    }
    *(int64_t *)o->target = number;
    return OPTIONS_GO;
}

static options_result set_ms(const option *o, const char *command, const char *text)
{
    char *end;
    const double ms = strtod(text, &end) * 1e3;
    if (end == text || *end != '\0' || !(ms >= (double)o->min && ms <= (double)o->max)) {
        options_complain(command, "%s %s is not valid; give seconds from %g to %.10g", o->name,
                         text, (double)o->min / 1e3, (double)o->max / 1e3);
        return OPTIONS_BAD;
    }
    *(int64_t *)o->target = (int64_t)(ms + 0.5);
    return OPTIONS_GO;
}

static void add_to_list(const char **list, const char *text)
{
    while (*list != NULL)
        list++;
    *list = text;
}

/* Takes one option and its value; advances *at past both. */
static options_result take_option(const option *o, int argc, char **argv, int *at)
{
    const char *word = argv[(*at)++];
    const char *text = strchr(word, '=');
    if (o->type == OPTION_FLAG) {
        if (text != NULL)
            return options_complain(argv[0], "%s takes no value", o->name), OPTIONS_BAD;
        *(bool *)o->target = true;
        return OPTIONS_GO;
    }
    if (o->type == OPTION_IDLE) {
        *at += o->value != NULL && text == NULL && *at < argc;
        add_to_list(o->target, o->name);
        return OPTIONS_GO;
    }
    if (o->type == OPTION_ABSENT)
        return options_complain(argv[0], "%s: %s", o->name, o->help), OPTIONS_BAD;
    if (text == NULL && *at == argc)
        return options_complain(argv[0], "%s needs a value: %s %s", o->name, o->name, o->value),
               OPTIONS_BAD;
    text = text != NULL ? text + 1 : argv[(*at)++];
    if (o->type == OPTION_NUMBER)
        return set_number(o, argv[0], text);
    if (o->type == OPTION_MS)
        return set_ms(o, argv[0], text);
    if (o->type == OPTION_LIST)
        add_to_list(o->target, text);
    else
        *(const char **)o->target = text;
    return OPTIONS_GO;
}

static bool is_option(const char *word)
{
    return word[0] == '-' && word[1] != '\0';
}

options_result options_parse(const command_line *line, int argc, char **argv, int *next)
{
    int at = 1;
    while (at < argc) {
        const char *word = argv[at];
        if (strcmp(word, "--") == 0) {
            at++;
            break;
        }
        if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)
            return print_help(line), OPTIONS_HELPED;
        if (!is_option(word)) {
            if (line->operand == NULL || *line->operand != NULL)
                break;
            *line->operand = argv[at++];
            continue;
        }
        const option *o = find_option(line, word);
        if (o == NULL)
            return complain_unknown(line, argv[0], word);
        const options_result result = take_option(o, argc, argv, &at);
        if (result != OPTIONS_GO)
            return result;
    }
    *next = at;
    return OPTIONS_GO;
}

int options_exit_code(options_result stopped)
{
    return stopped == OPTIONS_HELPED ? 0 : EXIT_USAGE;
}
