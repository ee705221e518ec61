/* complaints.c: see complaints.h. */
#include "cli/job_file/complaints.h"

#include <stdarg.h>
#include <string.h>

static bool is_before(job_place a, job_place b)
{
    return a.line != b.line ? a.line < b.line : a.column < b.column;
}

/* What a file says must not steer the terminal, and a cut must not split a character. */
static void clean(char *text, bool was_cut)
{
    size_t length = strlen(text);
    for (size_t i = 0; i < length; i++) {
        if ((unsigned char)text[i] < ' ' || text[i] == '\x7f')
            text[i] = '?';
    }
    while (was_cut && length > 0 && ((unsigned char)text[length - 1] & 0x80) != 0)
        text[--length] = '\0';
}

void job_complain(job_complaints *all, job_place at, const char *format, ...)
{
    if (all->count == JOB_COMPLAINTS_MAX) {
        all->dropped++;
        return;
    }
    int i = all->count++;
    for (; i > 0 && is_before(at, all->list[i - 1].at); i--)
        all->list[i] = all->list[i - 1];
    job_complaint *c = &all->list[i];
    va_list args;
    va_start(args, format);
    const int length = vsnprintf(c->text, sizeof c->text, format, args);
    va_end(args);
    c->at = at;
    clean(c->text, length >= (int)sizeof c->text);
}

void job_complaints_print(const job_complaints *all, const char *file, FILE *to)
{
    for (int i = 0; i < all->count; i++) {
        const job_complaint *c = &all->list[i];
        if (c->at.line > 0)
            fprintf(to, "%s:%d:%d: %s\n", file, c->at.line, c->at.column, c->text);
        else
            fprintf(to, "%s: %s\n", file, c->text);
    }
    if (all->dropped > 0)
        fprintf(to, "%s: and %d more\n", file, all->dropped);
}
