/* sheet_shell.c: templates of the shell, line by line. See sheet.h. */
#include "cli/launch/ssh.h"
#include "cli/submit/hole.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define AGAIN "..." /* after the bracket of words that are written once for each value */

/* A part of a line: words in brackets, or what stands before, between and after them. */
typedef struct part {
    const char *text, *next; /* next: where the rest of the line begins */
    size_t length;
    bool bracketed, again;
} part;

/* Brackets without a field in them are the shell's own. */
static const char *find_bracket(const char *line, const char *end, const sheet_field *fields,
                                const char **closing)
{
    for (; line < end && (line = memchr(line, '[', (size_t)(end - line))) != NULL; line++) {
        *closing = memchr(line, ']', (size_t)(end - line));
        if (*closing == NULL)
            return NULL;
        if (hole_find(line, (size_t)(*closing - line), fields).at != NULL)
            return line;
    }
    return NULL;
}

/* The first part of what is left of a line. */
static part next_part(const char *line, const char *end, const sheet_field *fields)
{
    const char *closing, *bracket = find_bracket(line, end, fields, &closing);
    if (bracket == NULL)
        return (part){.text = line, .length = (size_t)(end - line), .next = end};
    if (bracket > line)
        return (part){.text = line, .length = (size_t)(bracket - line), .next = bracket};
    const bool again = strncmp(closing + 1, AGAIN, strlen(AGAIN)) == 0;
    return (part){.text = bracket + 1,
                  .length = (size_t)(closing - bracket - 1),
                  .next = closing + 1 + (again ? strlen(AGAIN) : 0),
                  .bracketed = true,
                  .again = again};
}

static void write_text(FILE *to, const char *text, size_t length, const sheet_field *fields,
                       size_t row)
{
    const char *const end = text + length;
    for (hole h; (h = hole_find(text, (size_t)(end - text), fields)).at != NULL;) {
        const char *value = hole_value(&h, row);
        char *word = h.as_is ? NULL : ssh_quote(value);
        fwrite(text, 1, (size_t)(h.at - text), to);
        fputs(h.as_is ? value : word, to);
        free(word);
        text = h.at + h.length;
    }
    fwrite(text, 1, (size_t)(end - text), to);
}

/* Returns where the rest of the line begins: without the space behind words that were left out. */
static const char *write_bracketed(FILE *to, const part *p, const sheet_field *fields, size_t row)
{
    const size_t rows = p->again ? hole_rows(p->text, p->length, fields) : HOLE_NO_ROWS;
    const size_t first = rows == HOLE_NO_ROWS ? row : 0;
    const size_t last = rows == HOLE_NO_ROWS ? row + 1 : rows;
    bool written = false;
    for (size_t i = first; i < last; i++) {
        if (!hole_all_filled(p->text, p->length, fields, i))
            continue;
        if (written)
            fputc(' ', to);
        write_text(to, p->text, p->length, fields, i);
        written = true;
    }
    return p->next + (!written && *p->next == ' ');
}

static void write_line(FILE *to, const char *line, const char *end, const sheet_field *fields,
                       size_t row)
{
    while (line < end) {
        const part p = next_part(line, end, fields);
        line = p.next;
        if (p.bracketed)
            line = write_bracketed(to, &p, fields, row);
        else
            write_text(to, p.text, p.length, fields, row);
    }
}

/* How often a line is written, by what stands outside of its brackets. */
static size_t rows_of(const char *line, const char *end, const sheet_field *fields)
{
    size_t rows = HOLE_NO_ROWS;
    while (line < end) {
        const part p = next_part(line, end, fields);
        const size_t here = p.bracketed ? HOLE_NO_ROWS : hole_rows(p.text, p.length, fields);
        rows = here < rows ? here : rows;
        line = p.next;
    }
    return rows == HOLE_NO_ROWS ? 1 : rows;
}

static bool is_left_out(const char *line, const char *end, const sheet_field *fields, size_t row)
{
    while (line < end) {
        const part p = next_part(line, end, fields);
        if (!p.bracketed && !hole_all_filled(p.text, p.length, fields, row))
            return true;
        line = p.next;
    }
    return false;
}

bool sheet_write_shell(FILE *to, const char *template, const sheet_field *fields)
{
    if (!hole_all_known(template, fields))
        return false;
    while (*template != '\0') {
        const char *end = template + strcspn(template, "\n");
        end += *end == '\n';
        const size_t rows = rows_of(template, end, fields);
        for (size_t row = 0; row < rows; row++) {
            if (!is_left_out(template, end, fields, row))
                write_line(to, template, end, fields, row);
        }
        template = end;
    }
    return true;
}
