/* json_line.c: see json_line.h. */
#include "cli/json_line.h"

#include "cli/launch/bytes.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REPLACEMENT "\xEF\xBF\xBD"

char *json_line_text(json_t *object, int digits)
{
    char *text = object == NULL ? NULL : json_dumps(object, JSON_REAL_PRECISION(digits));
    if (text == NULL)
        bytes_end_without_memory();
    json_decref(object);
    return text;
}

void json_line_print(json_t *object)
{
    char *text = json_line_text(object, JSON_LINE_DIGITS);
    puts(text);
    free(text);
}

/* Bytes of the UTF-8 character at the front, 0 if it is none (a stray, cut or overlong one, a surrogate, or
 * beyond U+10FFFF). */
static size_t character(const unsigned char *c, size_t count)
{
    const size_t length = c[0] < 0x80 ? 1 : c[0] < 0xC2 ? 0 : c[0] < 0xE0 ? 2 : c[0] < 0xF0 ? 3 : 4;
    if (length == 0 || length > count || c[0] > 0xF4)
        return 0;
    for (size_t i = 1; i < length; i++) {
        if ((c[i] & 0xC0) != 0x80)
            return 0;
    }
    const bool bad = (c[0] == 0xE0 && c[1] < 0xA0) || (c[0] == 0xED && c[1] > 0x9F) ||
                     (c[0] == 0xF0 && c[1] < 0x90) || (c[0] == 0xF4 && c[1] > 0x8F);
    return bad ? 0 : length;
}

static json_t *repair(const char *data, size_t count)
{
    bytes good = {0};
    for (size_t i = 0; i < count;) {
        const size_t length = character((const unsigned char *)data + i, count - i);
        if (length == 0)
            bytes_add_text(&good, REPLACEMENT);
        else
            bytes_add(&good, data + i, length);
        i += length > 0 ? length : 1;
    }
    json_t *text = json_stringn(bytes_first(&good), bytes_used(&good));
    bytes_free(&good);
    return text;
}

json_t *json_line_bytes(const char *data, size_t count)
{
    json_t *text = data == NULL ? json_null() : json_stringn(data, count);
    if (text == NULL)
        text = repair(data, count);
    if (text == NULL)
        bytes_end_without_memory();
    return text;
}

json_t *json_line_string(const char *text)
{
    return json_line_bytes(text, text == NULL ? 0 : strlen(text));
}

json_t *json_line_number(double value, int decimals)
{
    const double scale = pow(10, decimals);
    const double rounded = round(value * scale) / scale;
    return isfinite(rounded) ? json_real(rounded) : json_null();
}
