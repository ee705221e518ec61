/* json.h: strings of a JSON line. */
#ifndef RUEDA_CLI_JSON_H
#define RUEDA_CLI_JSON_H

#include <stddef.h>
#include <stdio.h>

/* Prints a quoted, escaped string to stdout; null for NULL. */
void json_print_string(const char *text);
/* Any bytes: what is no UTF-8 becomes U+FFFD. */
void json_write_bytes(FILE *to, const char *data, size_t count);

#endif
