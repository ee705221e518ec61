/* timeline_text.c: see timeline_text.h. */
#include "observe/timeline_text.h"

#include "base/hash.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BUCKETS 8192
#define TEXT_START (64 << 10) /* bytes; doubled as needed */
#define ESCAPED_MAX 6         /* bytes of one character of a name: \u001f */
#define LINE_MAX_BYTES 1024   /* of an event, without the name of the tensor */
#define LINES_MAX 10          /* of a note, beside those of ranks that were ready */
#define PID_BITS 31

struct timeline_row {
    timeline_row *chain;
    uint32_t pid;
    int32_t set;
    uint64_t last_ns; /* of its latest event */
    bool open;        /* its NEGOTIATE has begun in the text and not ended */
    uint32_t length;
    char name[];
};

static void free_rows(timeline_text *t, bool open_too)
{
    for (size_t i = 0; t->rows != NULL && i < BUCKETS; i++) {
        for (timeline_row **link = &t->rows[i], *row; (row = *link) != NULL;) {
            if (row->open && !open_too) {
                link = &row->chain;
                continue;
            }
            *link = row->chain;
            free(row);
            t->row_count--;
        }
    }
}

void timeline_text_fini(timeline_text *t)
{
    free_rows(t, true);
    free(t->rows);
    byte_queue_free(&t->text);
    *t = (timeline_text){0};
}

void timeline_text_clear(timeline_text *t)
{
    byte_queue_clear(&t->text);
    t->notes = 0;
}

/* ---- Characters ------------------------------------------------------------------------------ */

static bool make_room(timeline_text *t, size_t bytes)
{
    return byte_queue_room(&t->text, bytes) != NULL;
}

/* The caller has made room. */
static void put_bytes(timeline_text *t, const void *bytes, size_t count)
{
    memcpy(t->text.bytes + t->text.end, bytes, count);
    t->text.end += count;
}

static void put(timeline_text *t, const char *text)
{
    put_bytes(t, text, strlen(text));
}

static void put_number(timeline_text *t, uint64_t number)
{
    char digits[20];
    size_t used = sizeof digits;
    do
        digits[--used] = (char)('0' + number % 10);
    while ((number /= 10) > 0);
    put_bytes(t, digits + used, sizeof digits - used);
}

static void put_signed(timeline_text *t, int64_t number)
{
    if (number < 0)
        put(t, "-");
    put_number(t, number < 0 ? 0 - (uint64_t)number : (uint64_t)number);
}

/* Microseconds with three decimals. */
static void put_time(timeline_text *t, uint64_t ns)
{
    const uint64_t rest = ns % 1000;
    put_number(t, ns / 1000);
    const char decimals[] = {'.', (char)('0' + rest / 100), (char)('0' + rest / 10 % 10),
                             (char)('0' + rest % 10), '\0'};
    put(t, decimals);
}

/* What is no UTF-8 is shown as U+FFFD: bytes of a cut or foreign name must not spoil the file. */
static size_t utf8_length(const unsigned char *c, size_t left)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const size_t length = c[0] < 0x80             ? 1
                          : (c[0] & 0xe0) == 0xc0 ? 2
                          : (c[0] & 0xf0) == 0xe0 ? 3
                          : (c[0] & 0xf8) == 0xf0 ? 4
                                                  : 0;
    if (length <= 1 || length > left)
        return length == 1;
    uint32_t code = c[0] & (0xffu >> (length + 1));
    for (size_t i = 1; i < length; i++) {
        if ((c[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | (c[i] & 0x3fu);
    }
    const bool surrogate = code >= 0xd800 && code < 0xe000;
    return code < least[length] || code > 0x10ffff || surrogate ? 0 : length;
}

static void put_escaped(timeline_text *t, const char *text, size_t length)
{
    const unsigned char *c = (const unsigned char *)text;
    for (size_t taken; length > 0; c += taken, length -= taken) {
        taken = utf8_length(c, length);
        if (taken == 0) {
            put(t, "\xef\xbf\xbd");
            taken = 1;
        } else if (*c < ' ') {
            t->text.end += (size_t)sprintf((char *)t->text.bytes + t->text.end, "\\u%04x", *c);
        } else {
            if (*c == '"' || *c == '\\')
                put(t, "\\");
            put_bytes(t, c, taken);
        }
    }
}

static void put_upper(timeline_text *t, const char *text)
{
    for (const char *c = text; *c != '\0'; c++)
        t->text.bytes[t->text.end++] = (uint8_t)(*c >= 'a' && *c <= 'z' ? *c - 'a' + 'A' : *c);
}

/* ---- Events ---------------------------------------------------------------------------------- */

static void begin_line(timeline_text *t, uint32_t pid, const char *phase)
{
    if (byte_queue_used(&t->text) > 0)
        put(t, ",\n");
    put(t, "{\"pid\": ");
    put_number(t, pid);
    put(t, ", \"tid\": ");
    put_number(t, (uint64_t)t->rank);
    put(t, ", \"ph\": \"");
    put(t, phase);
    put(t, "\"");
}

static void begin_event(timeline_text *t, uint32_t pid, const char *phase, uint64_t ns)
{
    begin_line(t, pid, phase);
    put(t, ", \"ts\": ");
    put_time(t, ns + (uint64_t)t->offset_ns);
}

/* No event of a row is before the one that was written last. */
static uint64_t not_before(const timeline_row *row, uint64_t ns)
{
    return ns > row->last_ns ? ns : row->last_ns;
}

static void begin_row_event(timeline_text *t, timeline_row *row, const char *phase, uint64_t ns)
{
    row->last_ns = not_before(row, ns);
    begin_event(t, row->pid, phase, row->last_ns);
}

/* PREFIX_NAME, or NAME if the prefix is NULL. */
static void put_begin(timeline_text *t, timeline_row *row, uint64_t ns, const char *prefix,
                      const char *name)
{
    begin_row_event(t, row, "B", ns);
    put(t, ", \"name\": \"");
    if (prefix != NULL) {
        put_upper(t, prefix);
        put(t, "_");
    }
    put(t, name);
    put(t, "\"");
}

static void put_end(timeline_text *t, timeline_row *row, uint64_t ns)
{
    begin_row_event(t, row, "E", ns);
}

static void put_metadata(timeline_text *t, uint32_t pid, const char *what)
{
    begin_line(t, pid, "M");
    put(t, ", \"name\": \"");
    put(t, what);
    put(t, "\", \"args\": {\"");
}

static void name_thread(timeline_text *t, uint32_t pid)
{
    put_metadata(t, pid, "thread_name");
    put(t, "name\": \"rank ");
    put_number(t, (uint64_t)t->rank);
    put(t, "\"}}");
}

static void introduce(timeline_text *t, const timeline_row *row)
{
    put_metadata(t, row->pid, "process_name");
    put(t, "name\": \"");
    put_escaped(t, row->name, row->length);
    if (row->set != RUEDA_GLOBAL_SET) {
        put(t, " (set ");
        put_signed(t, row->set);
        put(t, ")");
    }
    put(t, "\"}}");
    put_metadata(t, row->pid, "process_sort_index");
    put(t, "sort_index\": ");
    put_number(t, ++t->next_order);
    put(t, "}}");
    name_thread(t, row->pid);
}

rueda_status timeline_text_init(timeline_text *t, int rank, uint64_t start_ns)
{
    *t = (timeline_text){.rank = rank, .start_ns = start_ns};
    t->rows = calloc(BUCKETS, sizeof(timeline_row *));
    if (!make_room(t, TEXT_START) || t->rows == NULL) {
        timeline_text_fini(t);
        return status_fail(RUEDA_ERR_MEMORY, "out of memory for a timeline");
    }
    name_thread(t, TIMELINE_OWN_PID);
    return RUEDA_OK;
}

const char *timeline_text_first(void)
{
    return "{\"pid\": 0, \"ph\": \"M\", \"name\": \"process_name\", \"args\": {\"name\": \"rueda\"}}";
}

/* ---- Rows ------------------------------------------------------------------------------------ */

/* What viewers take for the number of a process. */
static uint32_t pid_of(const char *name, size_t length, int32_t set)
{
    const uint64_t hash = hash_bytes((uint32_t)set, name, length);
    const uint32_t pid = (uint32_t)hash & ((UINT32_C(1) << PID_BITS) - 1);
    return pid == TIMELINE_OWN_PID ? 1 : pid;
}

static timeline_row *new_row(timeline_text *t, const timeline_note *note, const char *name,
                             uint32_t pid)
{
    if (t->row_count >= TIMELINE_NAMES_MAX)
        free_rows(t, false);
    timeline_row *row = malloc(sizeof *row + note->name_length);
    if (row == NULL)
        return NULL;
    *row = (timeline_row){.chain = t->rows[pid % BUCKETS],
                          .pid = pid,
                          .set = note->set,
                          .last_ns = t->start_ns,
                          .length = note->name_length};
    memcpy(row->name, name, note->name_length);
    t->rows[pid % BUCKETS] = row;
    t->row_count++;
    introduce(t, row);
    return row;
}

/* The row of the note's tensor. Two names that fall on one number get different ones here. */
static timeline_row *row_of(timeline_text *t, const timeline_note *note, const char *name)
{
    for (uint32_t pid = pid_of(name, note->name_length, note->set);; pid++) {
        timeline_row *row = t->rows[pid % BUCKETS];
        while (row != NULL && row->pid != pid)
            row = row->chain;
        if (row == NULL)
            return new_row(t, note, name, pid);
        if (row->set == note->set && row->length == note->name_length &&
            memcmp(row->name, name, row->length) == 0)
            return row;
    }
}

/* ---- Notes ----------------------------------------------------------------------------------- */

static void open_negotiation(timeline_text *t, timeline_row *row, const timeline_note *note,
                             uint64_t ns)
{
    if (row->open)
        return;
    put_begin(t, row, ns, "NEGOTIATE", note->op);
    put(t, "}");
    row->open = true;
}

static void close_negotiation(timeline_text *t, timeline_row *row, const timeline_note *note)
{
    if (!row->open)
        return;
    put_end(t, row, note->decided_ns);
    if (note->status != RUEDA_OK) {
        put(t, ", \"args\": {\"status\": \"");
        put(t, rueda_status_name((rueda_status)note->status));
        put(t, "\"}");
    }
    put(t, "}");
    row->open = false;
}

/* It begins when the first rank is ready, as far as is known here. */
static void add_negotiated(timeline_text *t, timeline_row *row, const timeline_note *note,
                           const timeline_ready *ready)
{
    uint64_t first_ns = note->submitted_ns;
    for (uint32_t i = 0; i < note->ready_count; i++)
        first_ns = ready[i].ns < first_ns ? ready[i].ns : first_ns;
    open_negotiation(t, row, note, first_ns);
    for (uint32_t i = 0; i < note->ready_count; i++) {
        const uint64_t ns = ready[i].ns < note->decided_ns ? ready[i].ns : note->decided_ns;
        begin_event(t, row->pid, "X", not_before(row, ns));
        put(t, ", \"dur\": 0, \"name\": \"");
        put_number(t, ready[i].rank);
        put(t, "\"}");
    }
    close_negotiation(t, row, note);
}

static void put_description(timeline_text *t, const timeline_note *note, const int64_t *shape)
{
    put(t, ", \"args\": {\"dtype\": \"");
    put(t, rueda_dtype_name((rueda_dtype)note->dtype));
    put(t, "\", \"shape\": \"[");
    for (int i = 0; i < note->ndim; i++) {
        if (i > 0)
            put(t, ", ");
        put_signed(t, shape[i]);
    }
    put(t, "]\"");
    if (note->status != RUEDA_OK) {
        put(t, ", \"status\": \"");
        put(t, rueda_status_name((rueda_status)note->status));
        put(t, "\"");
    }
    put(t, "}}");
}

static void add_work(timeline_text *t, timeline_row *row, const timeline_note *note)
{
    put_begin(t, row, note->began_ns, note->engine, note->op);
    put(t, ", \"args\": {\"algorithm\": \"");
    put(t, note->algorithm);
    put(t, "\", \"operation\": ");
    put_number(t, note->number);
    put(t, ", \"tensors\": ");
    put_number(t, note->tensors);
    put(t, "}}");
    put_end(t, row, note->ended_ns);
    put(t, "}");
}

static void add_done(timeline_text *t, timeline_row *row, const timeline_note *note,
                     const int64_t *shape)
{
    close_negotiation(t, row, note);
    put_begin(t, row, note->decided_ns, NULL, note->op);
    put(t, "}");
    put_begin(t, row, note->decided_ns, NULL, "QUEUE");
    put(t, "}");
    put_end(t, row, note->began_ns > 0 ? note->began_ns : note->ended_ns);
    put(t, "}");
    if (note->began_ns > 0)
        add_work(t, row, note);
    put_end(t, row, note->ended_ns);
    put_description(t, note, shape);
}

static void add_round(timeline_text *t, const timeline_note *note)
{
    begin_event(t, TIMELINE_OWN_PID, "i", note->decided_ns);
    put(t, ", \"s\": \"g\", \"name\": \"CYCLE_START\", \"args\": {\"set\": ");
    put_signed(t, note->set);
    put(t, ", \"round\": ");
    put_number(t, note->number);
    put(t, "}}");
}

bool timeline_text_add(timeline_text *t, const timeline_note *note)
{
    const timeline_ready *ready = (const timeline_ready *)(note + 1);
    const int64_t *shape = (const int64_t *)(ready + note->ready_count);
    const char *name = (const char *)(shape + note->ndim);
    if (note->decided_ns < t->start_ns)
        return true; /* of a time before this timeline */
    const size_t lines = LINES_MAX + (size_t)note->ready_count;
    if (!make_room(t, lines * LINE_MAX_BYTES + (size_t)note->name_length * ESCAPED_MAX))
        return false;
    timeline_row *row = NULL;
    if (note->kind != TIMELINE_NOTE_ROUND && (row = row_of(t, note, name)) == NULL)
        return false;
    switch ((timeline_note_kind)note->kind) {
    case TIMELINE_NOTE_WAITING:
        open_negotiation(t, row, note, note->submitted_ns);
        break;
    case TIMELINE_NOTE_NEGOTIATED:
        add_negotiated(t, row, note, ready);
        break;
    case TIMELINE_NOTE_DONE:
        add_done(t, row, note, shape);
        break;
    case TIMELINE_NOTE_ROUND:
        add_round(t, note);
        break;
    }
    t->notes++;
    return true;
}

void timeline_text_add_dropped(timeline_text *t, uint64_t count, uint64_t now_ns)
{
    if (!make_room(t, LINE_MAX_BYTES))
        return;
    begin_event(t, TIMELINE_OWN_PID, "i", now_ns);
    put(t, ", \"s\": \"g\", \"name\": \"DROPPED\", \"args\": {\"notes\": ");
    put_number(t, count);
    put(t, "}}");
}

void timeline_text_close(timeline_text *t, uint64_t now_ns)
{
    for (size_t i = 0; i < BUCKETS; i++) {
        for (timeline_row *row = t->rows[i]; row != NULL; row = row->chain) {
            if (!row->open || !make_room(t, LINE_MAX_BYTES))
                continue;
            put_end(t, row, now_ns);
            put(t, ", \"args\": {\"status\": \"");
            put(t, rueda_status_name(RUEDA_PENDING));
            put(t, "\"}}");
            row->open = false;
        }
    }
}
