/* json.c: see json.h. */
#include "cli/json.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define REPLACEMENT "\xEF\xBF\xBD"

size_t json_character(const unsigned char *c, size_t count)
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

void json_write_bytes(FILE *to, const char *data, size_t count)
{
    fputc('"', to);
    for (size_t i = 0; i < count;) {
        const unsigned char *c = (const unsigned char *)data + i;
        const size_t length = json_character(c, count - i);
        if (length == 0)
            fputs(REPLACEMENT, to);
        else if (*c == '"' || *c == '\\')
            fprintf(to, "\\%c", *c);
        else if (*c < ' ')
            fprintf(to, "\\u%04x", *c);
        else
            fwrite(c, 1, length, to);
        i += length > 0 ? length : 1;
    }
    fputc('"', to);
}

void json_print_string(const char *text)
{
    if (text == NULL)
        fputs("null", stdout);
    else
        json_write_bytes(stdout, text, strlen(text));
}
