/* trace.c: the ring, and its records for people. */
#include "observe/trace.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOW_BITS(value, bits) ((value) & ((UINT64_C(1) << (bits)) - 1))

rueda_status trace_init(trace *t, uint64_t records, uint64_t generation)
{
    *t = (trace){.generation = (uint32_t)LOW_BITS(generation, TRACE_GENERATION_BITS)};
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
    *r = (trace_record){.time_ns = w[0],
                        .number = w[1] >> (64 - TRACE_NUMBER_BITS),
                        .set = (uint32_t)LOW_BITS(w[1] >> 16, TRACE_SET_BITS),
                        .event = (uint8_t)LOW_BITS(w[1] >> 12, TRACE_NAME_BITS),
                        .kind = (uint8_t)LOW_BITS(w[1] >> 8, TRACE_NAME_BITS),
                        .collective = (uint8_t)LOW_BITS(w[1] >> 4, TRACE_NAME_BITS),
                        .algorithm = (uint8_t)LOW_BITS(w[1], TRACE_NAME_BITS),
                        .tick = (uint32_t)(w[2] >> 32),
                        .phase = (uint32_t)LOW_BITS(w[2] >> TRACE_PEER_BITS, TRACE_PHASE_BITS),
                        .peer = (uint16_t)w[2],
                        .first_step = (uint32_t)(w[3] >> 40),
                        .last_step =
                            (uint32_t)LOW_BITS(w[3] >> TRACE_GENERATION_BITS, TRACE_STEP_BITS),
                        .generation = (uint32_t)LOW_BITS(w[3], TRACE_GENERATION_BITS)};
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
    return count - lost;
}

/* ---- For people ------------------------------------------------------------------------------ */

const char *trace_format(const trace_record *r, const trace_names *names, char text[TRACE_LINE_MAX])
{
    const size_t used = (size_t)snprintf(
        text, TRACE_LINE_MAX,
        "%llu.%09llu generation %u set %u operation %llu, %s by %s: phase %u tick %u ",
        (unsigned long long)(r->time_ns / 1000000000u),
        (unsigned long long)(r->time_ns % 1000000000u), r->generation, r->set,
        (unsigned long long)r->number, names->collective(r->collective),
        names->algorithm(r->algorithm), r->phase, r->tick);
    const char *kind = names->kind(r->kind);
    char *to = text + used;
    const size_t room = TRACE_LINE_MAX - used;
    if (r->event == TRACE_RAN || r->event == TRACE_ENDS)
        snprintf(to, room, "steps %u to %u done, %s%s", r->first_step, r->last_step, kind,
                 r->event == TRACE_ENDS ? "; the operation ends" : "");
    else if (r->event == TRACE_WAITS && r->peer != TRACE_NOBODY)
        snprintf(to, room, "waits at step %u, %s, for rank %u of the set", r->first_step, kind,
                 r->peer);
    else
        snprintf(to, room, "%s at step %u, %s", r->event == TRACE_WAITS ? "waits" : "fails",
                 r->first_step, kind);
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
