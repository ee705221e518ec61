/* hole.h: the places in a template that a field fills: "<name>" or "<=name>". */
#ifndef RUEDA_CLI_SUBMIT_HOLE_H
#define RUEDA_CLI_SUBMIT_HOLE_H

#include "cli/submit/sheet.h"

#include <stddef.h>

#define HOLE_NO_ROWS SIZE_MAX /* nothing of several values is there */

typedef struct hole {
    const char *at; /* its "<"; NULL: there is none */
    size_t length;  /* with both brackets */
    bool as_is;     /* "<=name>" */
    const sheet_field *field;
} hole;

/* The first hole in `length` bytes. */
hole hole_find(const char *text, size_t length, const sheet_field *fields);
/* What fills it: of several values, that of the row. NULL: nothing. */
const char *hole_value(const hole *h, size_t row);

/* How often a text is written: as many times as its fields have values. HOLE_NO_ROWS: once. */
size_t hole_rows(const char *text, size_t length, const sheet_field *fields);
/* Whether each hole in a text has a value. */
bool hole_all_filled(const char *text, size_t length, const sheet_field *fields, size_t row);

/* Whether somebody fills every hole of a template; complains otherwise. */
bool hole_all_known(const char *template, const sheet_field *fields);

#endif
