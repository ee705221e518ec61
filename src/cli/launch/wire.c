/* wire.c: see wire.h. */
#include "cli/launch/wire.h"

#include <string.h>

static void put_u32(unsigned char *to, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        to[i] = (unsigned char)(value >> (8 * i));
}

static uint32_t get_u32(const unsigned char *from)
{
    uint32_t value = 0;
    for (int i = 0; i < 4; i++)
        value |= (uint32_t)from[i] << (8 * i);
    return value;
}

void wire_put(bytes *to, wire_type type, int kind, uint32_t number, const void *body, size_t length)
{
    unsigned char header[WIRE_HEADER] = {(unsigned char)type, (unsigned char)kind};
    put_u32(header + 4, number);
    put_u32(header + 8, (uint32_t)length);
    bytes_add(to, header, sizeof header);
    bytes_add(to, body, length);
}

int wire_peek(const bytes *from, wire_frame *frame)
{
    if (bytes_used(from) < WIRE_HEADER)
        return 0;
    const unsigned char *header = (const unsigned char *)bytes_first(from);
    *frame = (wire_frame){.type = (wire_type)header[0],
                          .kind = header[1],
                          .number = get_u32(header + 4),
                          .length = get_u32(header + 8),
                          .body = bytes_first(from) + WIRE_HEADER};
    if (frame->type < WIRE_JOB || frame->type > WIRE_NOTE || frame->kind >= WIRE_KINDS ||
        frame->length > WIRE_BODY_MAX)
        return -1;
    return bytes_used(from) - WIRE_HEADER >= frame->length ? 1 : 0;
}

void wire_drop(bytes *from, const wire_frame *frame)
{
    bytes_drop(from, WIRE_HEADER + frame->length);
}

/* ---- Bodies ---------------------------------------------------------------------------------- */

void wire_add_number(bytes *to, int64_t number)
{
    unsigned char data[8];
    put_u32(data, (uint32_t)((uint64_t)number & UINT32_MAX));
    put_u32(data + 4, (uint32_t)((uint64_t)number >> 32));
    bytes_add(to, data, sizeof data);
}

void wire_add_text(bytes *to, const char *text)
{
    if (text == NULL)
        text = "";
    bytes_add(to, text, strlen(text) + 1);
}

void wire_add_list(bytes *to, char *const *list)
{
    int64_t count = 0;
    while (list != NULL && list[count] != NULL)
        count++;
    wire_add_number(to, count);
    for (int64_t i = 0; i < count; i++)
        wire_add_text(to, list[i]);
}

int64_t wire_number(wire_reader *r)
{
    if (r->bad || r->end - r->at < 8) {
        r->bad = true;
        return 0;
    }
    const unsigned char *data = (const unsigned char *)r->at;
    r->at += 8;
    return (int64_t)((uint64_t)get_u32(data) | (uint64_t)get_u32(data + 4) << 32);
}

int wire_int(wire_reader *r, int min, int max)
{
    const int64_t number = wire_number(r);
    if (number < min || number > max) {
        r->bad = true;
        return min;
    }
    return (int)number;
}

const char *wire_text(wire_reader *r)
{
    const char *text = r->at;
    const char *zero = r->bad ? NULL : memchr(text, '\0', (size_t)(r->end - text));
    if (zero == NULL) {
        r->bad = true;
        return "";
    }
    r->at = zero + 1;
    return text;
}

char **wire_list(wire_reader *r)
{
    int64_t count = wire_number(r);
    if (count < 0 || count > r->end - r->at) { /* each takes a byte at least */
        r->bad = true;
        count = 0;
    }
    char **list = bytes_new((size_t)count + 1, sizeof *list);
    for (int64_t i = 0; i < count; i++)
        list[i] = (char *)wire_text(r);
    return list;
}
