/* sheet.h: fills in templates (templates/). This is the one place where a job's words become YAML or shell.
 *
 * <name> in a template stands for a field, of one value, of several, or of none.
 *
 * A template of YAML is YAML, read and written by libyaml; a value is never more than a word of it. In quotes
 * a field is a text, without quotes a number. An item of a list or a pair of a map that has a field without
 * a value is left out, and so is a list or a map of which nothing remains. With a field of several values an
 * item is written once for each, and a pair if the field is in its key.
 *
 * In a template of the shell a value is one word, quoted where it must be; <=name> is inserted as it is. A
 * line with a field without a value is left out; with one of several it is written once for each.
 * [words with a field] on a line are left out alone, and [words with a field]... are written once for each.
 */
#ifndef RUEDA_CLI_SUBMIT_SHEET_H
#define RUEDA_CLI_SUBMIT_SHEET_H

#include <stdbool.h>
#include <stdio.h>

typedef struct sheet_field {
    const char *name;
    const char *value;         /* NULL: none, or several */
    const char *const *values; /* several: ends with NULL */
} sheet_field;

/* The fields end with one without a name. False: complained; what was written until then is of no use. */
bool sheet_write_yaml(FILE *to, const char *template, const sheet_field *fields);
bool sheet_write_shell(FILE *to, const char *template, const sheet_field *fields);

#endif
