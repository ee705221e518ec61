/* sheet.c: see sheet.h. */
#include "cli/submit/sheet.h"

#include "cli/json.h"
#include "cli/launch/ssh.h"

#include <assert.h>
#include <ctype.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define BLOCK_INDENT 2

/* ---- YAML -------------------------------------------------------------------------------------- */

/* What YAML 1.1 reads as something else than a text. Numbers start with no letter. */
static bool is_reserved(const char *word)
{
    static const char *const words[] = {"true", "false", "yes", "no", "on",
                                        "off",  "null",  "y",   "n"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strcasecmp(words[i], word) == 0)
            return true;
    }
    return false;
}

static bool needs_no_quotes(const char *value)
{
    if (!isalpha((unsigned char)value[0]) && value[0] != '/')
        return false;
    for (const char *c = value; *c != '\0'; c++) {
        if (!isalnum((unsigned char)*c) && strchr("_-./", *c) == NULL)
            return false;
    }
    return !is_reserved(value);
}

static uint32_t code_point(const unsigned char *c, size_t length)
{
    uint32_t code = length == 1 ? c[0] : c[0] & (0x7Fu >> length);
    for (size_t i = 1; i < length; i++)
        code = code << 6 | (c[i] & 0x3Fu);
    return code;
}

/* Characters that stand for themselves on one line of a YAML file. */
static bool is_printable(uint32_t code)
{
    if (code < 0x7F)
        return code >= 0x20;
    return code >= 0xA0 && code != 0x2028 && code != 0x2029 && code != 0xFEFF && code != 0xFFFE &&
           code != 0xFFFF;
}

/* A block shows lines as they are: only where nothing in them needs an escape, and where its end and
 * its indentation leave no doubt. */
static bool fits_block(const char *value)
{
    const size_t bytes = strlen(value);
    const char *end = strchr(value, '\n');
    if (end == NULL || end == value || *value == ' ' || value[bytes - 1] == '\n')
        return false;
    for (size_t i = 0; i < bytes;) {
        const unsigned char *c = (const unsigned char *)value + i;
        const size_t length = json_character(c, bytes - i);
        if (length == 0 || (!is_printable(code_point(c, length)) && *c != '\n'))
            return false;
        i += length;
    }
    return true;
}

static void write_block(FILE *to, const char *value, int indent)
{
    fputs("|-", to);
    while (*value != '\0') {
        const int length = (int)strcspn(value, "\n");
        fprintf(to, "\n%*s%.*s", length > 0 ? indent : 0, "", length, value);
        value += length + (value[length] == '\n');
    }
}

static void write_quoted(FILE *to, const char *value)
{
    const size_t bytes = strlen(value);
    fputc('"', to);
    for (size_t i = 0; i < bytes;) {
        const unsigned char *c = (const unsigned char *)value + i;
        const size_t length = json_character(c, bytes - i);
        const uint32_t code = length == 0 ? 0xFFFD : code_point(c, length);
        if (code == '"' || code == '\\')
            fprintf(to, "\\%c", (int)code);
        else if (code == '\n')
            fputs("\\n", to);
        else if (length == 0 || !is_printable(code))
            fprintf(to, "\\u%04X", (unsigned)code);
        else
            fwrite(c, 1, length, to);
        i += length > 0 ? length : 1;
    }
    fputc('"', to);
}

void sheet_quote_yaml(FILE *to, const char *value, int indent)
{
    if (needs_no_quotes(value))
        fputs(value, to);
    else if (fits_block(value))
        write_block(to, value, indent);
    else
        write_quoted(to, value);
}

/* ---- The shell --------------------------------------------------------------------------------- */

void sheet_quote_shell(FILE *to, const char *value)
{
    char *word = ssh_quote(value);
    fputs(word, to);
    free(word);
}

/* ---- Templates --------------------------------------------------------------------------------- */

/* A field in a template: "{name}" or "{=name}". */
typedef struct mark {
    const char *at; /* its brace; NULL: there is none */
    size_t length;  /* with both braces */
    bool as_is;
    const char *value;
} mark;

static const char *value_of(const sheet_field *fields, const char *name, size_t length)
{
    for (; fields->name != NULL; fields++) {
        if (strlen(fields->name) == length && strncmp(fields->name, name, length) == 0)
            return fields->value;
    }
    assert(!"the template has a field that nobody fills");
    return NULL;
}

/* The first in a line of `length` bytes. A brace before anything but a name is no field. */
static mark find_mark(const char *line, size_t length, const sheet_field *fields)
{
    for (const char *c = line; c < line + length; c++) {
        if (*c != '{')
            continue;
        const bool as_is = c[1] == '=';
        const char *name = c + 1 + as_is;
        const size_t bytes = strspn(name, "abcdefghijklmnopqrstuvwxyz_");
        if (bytes > 0 && name[bytes] == '}')
            return (mark){c, (size_t)(name - c) + bytes + 1, as_is, value_of(fields, name, bytes)};
    }
    return (mark){.at = NULL};
}

static bool is_left_out(const char *line, size_t length, const sheet_field *fields)
{
    for (mark m; (m = find_mark(line, length, fields)).at != NULL;) {
        if (m.value == NULL)
            return true;
        length -= (size_t)(m.at - line) + m.length;
        line = m.at + m.length;
    }
    return false;
}

static void write_value(FILE *to, sheet_language language, const mark *m, int indent)
{
    if (m->as_is)
        fputs(m->value, to);
    else if (language == SHEET_SHELL)
        sheet_quote_shell(to, m->value);
    else
        sheet_quote_yaml(to, m->value, indent);
}

static void write_line(FILE *to, sheet_language language, const char *line, size_t length,
                       const sheet_field *fields)
{
    const int indent = (int)strspn(line, " -") + BLOCK_INDENT;
    for (mark m; (m = find_mark(line, length, fields)).at != NULL;) {
        fwrite(line, 1, (size_t)(m.at - line), to);
        write_value(to, language, &m, indent);
        length -= (size_t)(m.at - line) + m.length;
        line = m.at + m.length;
    }
    fwrite(line, 1, length, to);
}

void sheet_write(FILE *to, sheet_language language, const char *template, const sheet_field *fields)
{
    while (*template != '\0') {
        const size_t length = strcspn(template, "\n") + (strchr(template, '\n') != NULL);
        if (!is_left_out(template, length, fields))
            write_line(to, language, template, length, fields);
        template += length;
    }
}
