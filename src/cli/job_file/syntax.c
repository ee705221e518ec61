/* syntax.c: libyaml says where it could not go on; what was forgotten usually stands before that,
 * and the text shows it: a colon, a space after it, a tab in the indentation. */
#include "cli/job_file/syntax.h"

#include "base/text.h"
#include "cli/job_file/keys.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#define WORD_MAX 60 /* bytes of a word that is quoted in a complaint */

/* One line of the text, without indentation, comment and end. */
typedef struct line {
    int number; /* from 1; 0: there is none */
    int indent;
    const char *start;
    size_t length;
} line;

static line line_at(const char *text, size_t bytes, int number)
{
    const char *start = text, *end = text + bytes;
    for (int i = 1; i < number && start != NULL; i++) {
        start = memchr(start, '\n', (size_t)(end - start));
        start = start != NULL ? start + 1 : NULL;
    }
    if (start == NULL || number < 1)
        return (line){0};
    const char *stop = memchr(start, '\n', (size_t)(end - start));
    if (stop == NULL)
        stop = end;
    line l = {.number = number};
    for (; start < stop && *start == ' '; start++)
        l.indent++;
    for (const char *c = start; c < stop; c++) {
        if (*c == '#' && (c == start || c[-1] == ' '))
            stop = c;
    }
    while (stop > start && (stop[-1] == ' ' || stop[-1] == '\r'))
        stop--;
    l.start = start;
    l.length = (size_t)(stop - start);
    return l;
}

/* The nearest line above that says something. */
static line line_before(const char *text, size_t bytes, int number)
{
    line l;
    do
        l = line_at(text, bytes, --number);
    while (l.number > 0 && l.length == 0);
    return l;
}

static size_t word_length(const line *l)
{
    size_t i = 0;
    while (i < l->length && l->start[i] != ' ' && l->start[i] != ':')
        i++;
    return i;
}

static bool has_key(const line *l)
{
    const char *end = l->start + l->length;
    for (const char *c = l->start; c < end; c++) {
        if (*c == ':' && (c + 1 == end || c[1] == ' '))
            return true;
    }
    return false;
}

static bool complain_about_colon(const line *l, job_complaints *complaints)
{
    char word[WORD_MAX + 1];
    const size_t length = word_length(l);
    if (length == 0 || length > WORD_MAX)
        return false;
    memcpy(word, l->start, length);
    word[length] = '\0';
    const job_place at = {l->number, l->indent + (int)length + 1};
    text_nearest nearest = text_nearest_to(word);
    job_keys_offer(&nearest);
    if (word[0] == '-')
        job_complain(complaints, (job_place){l->number, l->indent + 2},
                     "a space is missing after '-'");
    else if (length < l->length && l->start[length] == ':')
        job_complain(complaints, (job_place){at.line, at.column + 1},
                     "a space is missing after '%s:'", word);
    else if (nearest.best != NULL && strcmp(nearest.best, word) != 0)
        job_complain(complaints, at, "a colon is missing after '%s'; did you mean '%s:'?", word,
                     nearest.best);
    else
        job_complain(complaints, at, "a colon is missing after '%s'", word);
    return true;
}

static bool says(const char *problem, const char *phrase)
{
    return problem != NULL && strstr(problem, phrase) != NULL;
}

/* A line that should have been "key: value" and made the parser stop here or further down. */
static bool explain_colon(const yaml_parser_t *p, const char *text, size_t bytes,
                          job_complaints *complaints)
{
    line l;
    if (says(p->problem, "could not find expected ':'"))
        l = line_at(text, bytes, (int)p->context_mark.line + 1);
    else if (says(p->problem, "mapping values are not allowed"))
        l = line_before(text, bytes, (int)p->problem_mark.line + 1);
    else
        return false;
    return l.number > 0 && !has_key(&l) && complain_about_colon(&l, complaints);
}

static bool explain_indent(const yaml_parser_t *p, const char *text, size_t bytes,
                           job_complaints *complaints)
{
    const int number = (int)p->problem_mark.line + 1;
    const line l = line_at(text, bytes, number), above = line_before(text, bytes, number);
    if (l.number == 0)
        return false;
    const job_place at = {number, l.indent + 1};
    if (l.length > 0 && l.start[0] == '\t')
        job_complain(complaints, at, "a tab; YAML is indented with spaces");
    else if (says(p->problem, "mapping values are not allowed") && above.number > 0 &&
             l.indent > above.indent)
        job_complain(complaints, at, "indented deeper than line %d, which has its value already",
                     above.number);
    else if (says(p->problem, "did not find expected key") && above.number > 0 &&
             l.indent != above.indent)
        job_complain(complaints, at, "indented like no block above");
    else
        return false;
    return true;
}

/* Bytes that are no text have no mark, only an offset. */
static void explain_bytes(const yaml_parser_t *p, const char *text, size_t bytes,
                          job_complaints *complaints)
{
    job_place at = {1, 1};
    const size_t offset = p->problem_offset < bytes ? p->problem_offset : bytes;
    for (size_t i = 0; i < offset; i++) {
        at.column++;
        if (text[i] == '\n')
            at = (job_place){at.line + 1, 1};
    }
    job_complain(complaints, at, "no text: %s (byte %d)", p->problem, p->problem_value);
}

void job_syntax_explain(const yaml_parser_t *p, const char *text, size_t bytes,
                        job_complaints *complaints)
{
    if (p->error == YAML_READER_ERROR) {
        explain_bytes(p, text, bytes, complaints);
        return;
    }
    if (p->problem == NULL) {
        job_complain(complaints, (job_place){0}, "no memory to read it");
        return;
    }
    if (explain_colon(p, text, bytes, complaints) || explain_indent(p, text, bytes, complaints))
        return;
    const job_place at = {(int)p->problem_mark.line + 1, (int)p->problem_mark.column + 1};
    if (p->context != NULL)
        job_complain(complaints, at, "bad YAML: %s, %s at %d:%d", p->problem, p->context,
                     (int)p->context_mark.line + 1, (int)p->context_mark.column + 1);
    else
        job_complain(complaints, at, "bad YAML: %s", p->problem);
}
