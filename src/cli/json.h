/* json.h: strings of a JSON line. */
#ifndef RUEDA_CLI_JSON_H
#define RUEDA_CLI_JSON_H

#include <stddef.h>
#include <stdio.h>

/* Prints a quoted, escaped string to stdout; null for NULL. */
void json_print_string(const char *text);
/* Any bytes: what is no UTF-8 becomes U+FFFD. */
void json_write_bytes(FILE *to, const char *data, size_t count);

/* Bytes of the UTF-8 character at the front, 0 if it is none (a stray, cut or overlong one, a
 * surrogate, or beyond U+10FFFF). */
size_t json_character(const unsigned char *c, size_t count);

#endif
