/* json_line.h: what the program tells as JSON: objects of jansson, one a line.
 *
 * A process without memory for an object ends at once, as in launch/bytes.h, so nothing here can fail. What
 * json_pack takes as "s" must be text of our own; all else goes through json_line_string.
 */
#ifndef RUEDA_CLI_JSON_LINE_H
#define RUEDA_CLI_JSON_LINE_H

#include <jansson.h>
#include <stddef.h>

#define JSON_LINE_DIGITS 15      /* of a number: as many as come back as they were */
#define JSON_LINE_DIGITS_TIME 16 /* of seconds since 1970 with microseconds */

/* Prints an object and the end of the line to stdout; the object is gone then. */
void json_line_print(json_t *object);
/* Its text, without the end of the line, in memory of the caller; the object is gone then. */
char *json_line_text(json_t *object, int digits);

/* Any bytes: what is no UTF-8 becomes U+FFFD. Of NULL: null. */
json_t *json_line_bytes(const char *data, size_t count);
json_t *json_line_string(const char *text);
/* Rounded to that many decimals; null for what is not finite. */
json_t *json_line_number(double value, int decimals);

#endif
