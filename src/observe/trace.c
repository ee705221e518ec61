/* trace.c: the ring, and its records for people. */
#include "observe/trace.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOW_BITS(value, bits) ((value) & ((UINT64_C(1) << (bits)) - 1))

rueda_status trace_init(trace *t, uint64_t records, uint64_t generation)
{
    *t = (trace){.generation = (uint32_t)generation};
    if (records == 0)
        return RUEDA_OK;
    uint64_t size = 1;
    while (size < records)
        size *= 2;
    t->words = calloc(size, TRACE_WORDS * sizeof *t->words);
    if (t->words == NULL)
        return status_fail(RUEDA_ERR_MEMORY,
                           "no memory for a trace of %llu records: lower RUEDA_TRACE",
                           (unsigned long long)size);
    t->mask = size - 1;
    t->origin_ticks = os_ticks();
    t->origin_ns = os_now_ns();
    return RUEDA_OK;
}

void trace_fini(trace *t)
{
    free(t->words);
    t->words = NULL;
}

/* ---- Reading --------------------------------------------------------------------------------- */

static void load_record(const trace *t, uint64_t index, trace_record *r)
{
    uint64_t w[TRACE_WORDS];
    const _Atomic uint64_t *from = &t->words[(index & t->mask) * TRACE_WORDS];
    for (int i = 0; i < TRACE_WORDS; i++)
        w[i] = atomic_load_explicit(&from[i], memory_order_relaxed);
    *r = (trace_record){.time = w[0],
                        .number = w[1] >> 16,
                        .set = (uint32_t)LOW_BITS(w[1] >> 8, 8),
                        .event = (uint8_t)w[1],
                        .tick = (uint32_t)(w[2] >> 40),
                        .phase = (uint32_t)LOW_BITS(w[2] >> 24, 16),
                        .peer = (uint16_t)(w[2] >> 8),
                        .kind = (uint8_t)w[2],
                        .first_step = (uint32_t)(w[3] >> 40),
                        .last_step = (uint32_t)LOW_BITS(w[3] >> 16, TRACE_STEP_BITS),
                        .generation = (uint32_t)LOW_BITS(w[3], TRACE_GENERATION_BITS)};
}

/* By two readings of both: at the start and now. */
static void to_nanoseconds(const trace *t, trace_record *records, size_t count)
{
    const uint64_t ticks = os_ticks() - t->origin_ticks, ns = os_now_ns() - t->origin_ns;
    const double rate = ticks > 0 ? (double)ns / (double)ticks : 1.0;
    for (size_t i = 0; i < count; i++) {
        const double since = (double)(int64_t)(records[i].time - t->origin_ticks);
        records[i].time = t->origin_ns + (uint64_t)(int64_t)(since * rate);
    }
}

size_t trace_read(const trace *t, trace_record *to, size_t capacity)
{
    if (t->words == NULL)
        return 0;
    const uint64_t head = atomic_load_explicit(&t->head, memory_order_acquire);
    const uint64_t size = t->mask + 1, kept = head < size ? head : size;
    const uint64_t count = kept < capacity ? kept : capacity;
    for (uint64_t i = 0; i < count; i++)
        load_record(t, head - count + i, &to[i]);
    /* The writer may have gone on, and may be writing record `now` over an old one. */
    atomic_thread_fence(memory_order_acquire);
    const uint64_t now = atomic_load_explicit(&t->head, memory_order_relaxed);
    const uint64_t oldest = head - count, first_whole = now + 1 > size ? now + 1 - size : 0;
    uint64_t lost = first_whole > oldest ? first_whole - oldest : 0;
    lost = lost < count ? lost : count;
    memmove(to, to + lost, (count - lost) * sizeof *to);
    to_nanoseconds(t, to, count - lost);
    return count - lost;
}

/* ---- For people ------------------------------------------------------------------------------ */

static void format_event(const trace_record *r, const trace_names *names, char *to, size_t room)
{
    const char *kind = names->kind(r->kind);
    switch ((trace_event)r->event) {
    case TRACE_BEGINS:
        snprintf(to, room, "begins: %s by %s, %u tensor%s", names->collective(r->kind),
                 names->algorithm((uint8_t)r->peer), r->last_step, r->last_step == 1 ? "" : "s");
        break;
    case TRACE_RAN:
    case TRACE_ENDS:
        snprintf(to, room, "phase %u tick %u: steps %u to %u done, %s%s", r->phase, r->tick,
                 r->first_step, r->last_step, kind,
                 r->event == TRACE_ENDS ? "; the operation ends" : "");
        break;
    case TRACE_WAITS:
        if (r->peer == TRACE_NOBODY)
            snprintf(to, room, "phase %u tick %u: waits at step %u, %s", r->phase, r->tick,
                     r->first_step, kind);
        else
            snprintf(to, room, "phase %u tick %u: waits at step %u, %s, for rank %u of the set",
                     r->phase, r->tick, r->first_step, kind, r->peer);
        break;
    case TRACE_FAILS:
        snprintf(to, room, "phase %u tick %u: fails at step %u, %s", r->phase, r->tick,
                 r->first_step, kind);
        break;
    default:
        snprintf(to, room, "?");
    }
}

const char *trace_format(const trace_record *r, const trace_names *names, char text[TRACE_LINE_MAX])
{
    const int used = snprintf(
        text, TRACE_LINE_MAX, "%llu.%09llu generation %u set %u operation %llu ",
        (unsigned long long)(r->time / 1000000000u), (unsigned long long)(r->time % 1000000000u),
        r->generation, r->set, (unsigned long long)r->number);
    format_event(r, names, text + used, TRACE_LINE_MAX - (size_t)used);
    return text;
}

static void dump_to_log(const trace_record *records, size_t count, const trace_names *names,
                        const logger *log)
{
    char line[TRACE_LINE_MAX];
    log_line(log, LOG_WARN,
             "the last %zu records of the trace (RUEDA_TRACE_FILE gets all):", count);
    for (size_t i = 0; i < count; i++)
        log_line(log, LOG_WARN, "trace %s", trace_format(&records[i], names, line));
}

static void dump_to_file(const trace_record *records, size_t count, const trace_names *names,
                         const char *path, bool append, const logger *log)
{
    char line[TRACE_LINE_MAX];
    FILE *to = fopen(path, append ? "ae" : "we");
    bool good = to != NULL;
    for (size_t i = 0; good && i < count; i++)
        good = fprintf(to, "%s\n", trace_format(&records[i], names, line)) > 0;
    if (to != NULL)
        good = fclose(to) == 0 && good;
    if (good)
        log_line(log, LOG_WARN, "the last %zu records of the trace are in %s", count, path);
    else
        log_line(log, LOG_ERROR, "the trace cannot be written to %s: %s", path, strerror(errno));
}

void trace_dump(const trace *t, const trace_names *names, const char *path, const logger *log)
{
    if (t->words == NULL)
        return;
    const size_t most = path[0] != '\0' ? t->mask + 1 : TRACE_LOG_RECORDS;
    trace_record *records = malloc(most * sizeof *records);
    if (records == NULL) {
        log_line(log, LOG_ERROR, "no memory to write the trace");
        return;
    }
    const size_t count = trace_read(t, records, most);
    if (path[0] == '\0') {
        dump_to_log(records, count, names, log);
    } else {
        char file[STATUS_TEXT_MAX];
        snprintf(file, sizeof file, "%s.%d", path, log->rank);
        dump_to_file(records, count, names, file, t->generation > 1, log);
    }
    free(records);
}
