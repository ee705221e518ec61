/* hole.c: see hole.h. */
#include "cli/submit/hole.h"

#include "cli/submit/submit.h"

#include <string.h>

#define NAME_LETTERS "abcdefghijklmnopqrstuvwxyz_"

/* Of a name that is not there: the row that ends the fields. */
static const sheet_field *field_of(const sheet_field *fields, const char *name, size_t length)
{
    while (fields->name != NULL &&
           (strlen(fields->name) != length || strncmp(fields->name, name, length) != 0))
        fields++;
    return fields;
}

hole hole_find(const char *text, size_t length, const sheet_field *fields)
{
    const char *const end = text + length;
    for (const char *c = text; c < end && (c = memchr(c, '<', (size_t)(end - c))) != NULL; c++) {
        const bool as_is = c[1] == '=';
        const char *name = c + 1 + as_is;
        const size_t bytes = strspn(name, NAME_LETTERS);
        if (bytes > 0 && name[bytes] == '>')
            return (hole){c, (size_t)(name - c) + bytes + 1, as_is, field_of(fields, name, bytes)};
    }
    return (hole){.at = NULL};
}

static size_t count(const char *const *values)
{
    size_t n = 0;
    while (values[n] != NULL)
        n++;
    return n;
}

const char *hole_value(const hole *h, size_t row)
{
    const char *const *values = h->field->values;
    if (values == NULL)
        return h->field->value;
    return row < count(values) ? values[row] : NULL;
}

size_t hole_rows(const char *text, size_t length, const sheet_field *fields)
{
    const char *const end = text + length;
    size_t rows = HOLE_NO_ROWS;
    for (hole h; (h = hole_find(text, (size_t)(end - text), fields)).at != NULL;) {
        const size_t here = h.field->values != NULL ? count(h.field->values) : HOLE_NO_ROWS;
        rows = here < rows ? here : rows;
        text = h.at + h.length;
    }
    return rows;
}

bool hole_all_filled(const char *text, size_t length, const sheet_field *fields, size_t row)
{
    const char *const end = text + length;
    for (hole h; (h = hole_find(text, (size_t)(end - text), fields)).at != NULL;) {
        if (hole_value(&h, row) == NULL)
            return false;
        text = h.at + h.length;
    }
    return true;
}

bool hole_all_known(const char *template, const sheet_field *fields)
{
    for (hole h; (h = hole_find(template, strlen(template), fields)).at != NULL;) {
        if (h.field->name == NULL)
            return submit_complain("a defect of ours: nobody fills in %.*s of a template",
                                   (int)h.length, h.at);
        template = h.at + h.length;
    }
    return true;
}
