/* bench_report.c: see bench_report.h. */
#include "cli/bench_report.h"

#include "cli/bench_data.h"
#include "cli/json_line.h"
#include "cli/launch/bytes.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SAMPLES_FIRST 4096
#define US_PER_MS 1e3

/* ---- Samples --------------------------------------------------------------------------------- */

void samples_add(samples *s, const float *us, size_t count)
{
    while (s->count + count > s->room) {
        const size_t room = s->room > 0 ? 2 * s->room : SAMPLES_FIRST;
        float *grown = realloc(s->us, room * sizeof *grown);
        if (grown == NULL)
            return; /* what we have is enough for a median */
        s->us = grown;
        s->room = room;
    }
    memcpy(s->us + s->count, us, count * sizeof *us);
    s->count += count;
}

void samples_clear(samples *s)
{
    free(s->us);
    *s = (samples){0};
}

static int compare(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

double samples_quantile(samples *s, double share)
{
    if (s->count == 0)
        return NAN;
    qsort(s->us, s->count, sizeof s->us[0], compare);
    return s->us[(size_t)(share * (double)(s->count - 1) + 0.5)];
}

/* ---- One row --------------------------------------------------------------------------------- */

typedef struct row {
    uint64_t bytes, count, wrong;
    double min, median, p99, algbw, busbw, trip, messages;
    double peer_min, peer_median, ratio, near_ratio, far_ratio; /* NaN where none */
} row;

static double ratio_of(samples *peer, samples *ours)
{
    return samples_quantile(peer, 0.5) / samples_quantile(ours, 0.5);
}

static row make_row(const bench_options *o, uint64_t bytes, bench_side *ours, bench_side *peer)
{
    row r = {.bytes = bytes, .count = bytes / rueda_dtype_bytes(o->dtype), .wrong = ours->wrong};
    r.min = samples_quantile(&ours->all, 0);
    r.median = samples_quantile(&ours->all, 0.5);
    r.p99 = samples_quantile(&ours->all, 0.99);
    r.algbw = (double)bytes / r.median / US_PER_MS;
    r.busbw = r.algbw * bench_data_bus_factor(o->collective, (int)o->ranks);
    r.trip = samples_quantile(&ours->trips, 0.5);
    r.messages = ours->messages;
    if (peer == NULL)
        return r;
    r.peer_min = samples_quantile(&peer->all, 0);
    r.peer_median = samples_quantile(&peer->all, 0.5);
    r.ratio = r.peer_median / r.median;
    r.near_ratio = ratio_of(&peer->near, &ours->near);
    r.far_ratio = ratio_of(&peer->far, &ours->far);
    return r;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void json_row(const bench_options *o, const row *r, bool peer)
{
    json_t *object = json_pack(
        "{s:s, s:s, s:s, s:o, s:s, s:i, s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:I, s:o, s:o, s:o}",
        "collective", plan_collective_name(o->collective), "op", rueda_op_name(o->op), "dtype",
        rueda_dtype_name(o->dtype), "transport", json_line_string(o->transport), "memory",
        o->shared ? "shared" : "private", "ranks", (int)o->ranks, "bytes", (json_int_t)r->bytes,
        "count", (json_int_t)r->count, "min_us", json_line_number(r->min, 3), "median_us",
        json_line_number(r->median, 3), "p99_us", json_line_number(r->p99, 3), "algbw_gbps",
        json_line_number(r->algbw, 4), "busbw_gbps", json_line_number(r->busbw, 4), "wrong",
        (json_int_t)r->wrong, "line_trip_us", json_line_number(r->trip, 3), "algorithm",
        json_line_string(o->algorithm), "messages_per_op", json_line_number(r->messages, 2));
    if (peer && object != NULL) {
        json_t *more = json_pack(
            "{s:s, s:o, s:o, s:o, s:o, s:o}", "peer", bench_peer_name(o->against), "peer_min_us",
            json_line_number(r->peer_min, 3), "peer_median_us", json_line_number(r->peer_median, 3),
            "ratio", json_line_number(r->ratio, 3), "near_ratio",
            json_line_number(r->near_ratio, 3), "far_ratio", json_line_number(r->far_ratio, 3));
        if (more == NULL || json_object_update(object, more) != 0)
            bytes_end_without_memory();
        json_decref(more);
    }
    json_line_print(object);
}

/* ---- Text ------------------------------------------------------------------------------------ */

static const char *size_text(uint64_t bytes, char *text, size_t room)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB"};
    int unit = 0;
    while (unit < 3 && bytes >= 1024 && bytes % 1024 == 0) {
        bytes /= 1024;
        unit++;
    }
    snprintf(text, room, "%llu %s", (unsigned long long)bytes, units[unit]);
    return text;
}

/* A time in a few digits; a dash where there is none. */
static void text_time(double us)
{
    if (!isfinite(us))
        printf(" %9s", "-");
    else
        printf(" %9.*f", us < 10 ? 2 : us < 1000 ? 1 : 0, us);
}

static void text_ratio(double ratio)
{
    if (!isfinite(ratio))
        printf(" %7s", "-");
    else
        printf(" %6.2fx", ratio);
}

/* Adasum does more than a sum: there the question is what it costs, not how much faster it is. */
static double shown(const bench_options *o, double ratio)
{
    return o->against == PEER_SUM ? 1 / ratio : ratio;
}

static void text_row(const bench_options *o, const row *r, bool peer)
{
    char size[32];
    printf("%8s %10llu %8s %7s", size_text(r->bytes, size, sizeof size),
           (unsigned long long)r->count, rueda_dtype_name(o->dtype), rueda_op_name(o->op));
    text_time(r->min);
    text_time(r->median);
    text_time(r->p99);
    printf(" %7.2f %7.2f %5llu %5.2f", r->algbw, r->busbw, (unsigned long long)r->wrong,
           r->messages);
    text_time(r->trip);
    if (peer) {
        text_time(r->peer_median);
        text_ratio(shown(o, r->ratio));
        text_ratio(shown(o, r->near_ratio));
        text_ratio(shown(o, r->far_ratio));
    }
    putchar('\n');
}

void report_head(const bench_options *o)
{
    const char *peer = bench_peer_name(o->against);
    const bool foreign_sum = o->against > PEER_SUM && o->op == RUEDA_ADASUM;
    if (o->json)
        return;
    printf("%s of %d ranks, %s memory, transport %s, algorithm %s%s%s%s%s\n\n",
           plan_collective_name(o->collective), (int)o->ranks, o->shared ? "shared" : "private",
           o->transport, o->algorithm, o->bind ? ", each bound to a core" : "",
           o->against == PEER_NONE ? "" : ", against ", o->against == PEER_NONE ? "" : peer,
           foreign_sum ? "'s sum" : "");
    printf("%8s %10s %8s %7s %9s %9s %9s %7s %7s %5s %5s %9s", "size", "count", "type", "op",
           "min us", "median us", "p99 us", "algGB/s", "busGB/s", "wrong", "msgs", "trip us");
    if (o->against != PEER_NONE)
        printf(" %9s %7s %7s %7s", peer, o->against == PEER_SUM ? "cost" : "faster", "near", "far");
    putchar('\n');
    fflush(stdout);
}

void report_row(const bench_options *o, uint64_t bytes, bench_side *ours, bench_side *peer)
{
    const row r = make_row(o, bytes, ours, peer);
    if (o->json)
        json_row(o, &r, peer != NULL);
    else
        text_row(o, &r, peer != NULL);
    fflush(stdout);
}

void report_foot(const bench_options *o)
{
    const bool cost = o->against == PEER_SUM;
    if (o->json)
        return;
    fputs(
        "\nTimes are rank 0's, from the call to the result. wrong: elements that are not as expected,\n"
        "on all ranks. algGB/s: size by median time; busGB/s: what that asks of each link. msgs: control\n"
        "messages an operation. trip: a cache line's way to the other rank and back.\n",
        stdout);
    if (o->against != PEER_NONE)
        printf("%s: its median us, in slices between ours. %s, over all slices\n"
               "and over those with the cores near each other (trip below 0.25 us) or far.\n",
               bench_peer_name(o->against),
               cost ? "cost: our time by the time of sum" : "faster: its time by ours");
    fflush(stdout);
}
