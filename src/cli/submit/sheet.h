/* sheet.h: the one place where a job's words become YAML or shell.
 *
 * A template is a text with {name} for a value that is quoted as one word of the language, and {=name}
 * for one that is inserted as it is (a number, or what was quoted already). A line with a field whose
 * value is NULL is left out. In YAML a value of several lines that stands last becomes a block.
 */
#ifndef RUEDA_CLI_SUBMIT_SHEET_H
#define RUEDA_CLI_SUBMIT_SHEET_H

#include <stdio.h>

typedef enum sheet_language { SHEET_SHELL, SHEET_YAML } sheet_language;

typedef struct sheet_field {
    const char *name, *value;
} sheet_field;

/* The fields end with one without a name. A name that is not there is our own defect (assert). */
void sheet_write(FILE *to, sheet_language language, const char *template,
                 const sheet_field *fields);

/* One value, quoted where it must be. `indent`: spaces before the lines of a block. */
void sheet_quote_yaml(FILE *to, const char *value, int indent);
void sheet_quote_shell(FILE *to, const char *value);

#endif
