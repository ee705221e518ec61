/* bench_data.c: see bench_data.h. */
#include "cli/bench_data.h"

#include "kernel/kernel_scalar.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define TILE 4093 /* elements; a prime, so that no piece is a multiple of it */
#define PATTERN_MAX 4
#define BURST_MAX 1000
#define ELEMENT_MAX 8

/* Types without room for multiples (bool) and products that would explode get masks of 0 and 1. */
enum { MASK_ZERO, MASK_PATTERN, MASK_ONE };

static bool is_reduction(plan_collective collective)
{
    return collective == PLAN_ALLREDUCE || collective == PLAN_REDUCESCATTER ||
           collective == PLAN_REDUCE_TO_ROOT;
}

static bool is_mask(const bench_data *d)
{
    return d->dtype == RUEDA_BOOL || (is_reduction(d->collective) && d->op == RUEDA_PRODUCT);
}

static bool is_float(rueda_dtype dtype)
{
    return dtype == RUEDA_F16 || dtype == RUEDA_BF16 || dtype == RUEDA_F32 || dtype == RUEDA_F64;
}

/* ---- Shapes ---------------------------------------------------------------------------------- */

bool bench_data_in_place(plan_collective collective)
{
    return collective == PLAN_ALLREDUCE || collective == PLAN_BROADCAST;
}

static bool has_shares(plan_collective collective)
{
    return collective == PLAN_ALLGATHER || collective == PLAN_ALLTOALL ||
           collective == PLAN_REDUCESCATTER || collective == PLAN_GATHER ||
           collective == PLAN_SCATTER;
}

uint64_t bench_data_round(plan_collective collective, uint64_t count, int size)
{
    const uint64_t unit = has_shares(collective) ? (uint64_t)size : 1;
    return collective == PLAN_BARRIER ? 0 : (count + unit - 1) / unit * unit;
}

void bench_data_shape(bench_data *d, uint64_t count)
{
    const uint64_t share = count / (uint64_t)d->size;
    const bool gathers = d->collective == PLAN_ALLGATHER || d->collective == PLAN_GATHER;
    const bool scatters = d->collective == PLAN_REDUCESCATTER || d->collective == PLAN_SCATTER;
    const bool to_root = d->collective == PLAN_GATHER || d->collective == PLAN_REDUCE_TO_ROOT;
    snprintf(d->name, sizeof d->name, "bench.%d.%d", (int)d->collective, (int)d->op);
    d->in_count = gathers ? share : count;
    d->out_count = scatters ? share : count;
    if (d->rank != 0 && d->collective == PLAN_SCATTER)
        d->in_count = 0;
    if (d->rank != 0 && to_root)
        d->out_count = 0;
}

double bench_data_bus_factor(plan_collective collective, int size)
{
    const double others = (double)(size - 1) / size;
    if (collective == PLAN_ALLREDUCE)
        return 2 * others;
    return has_shares(collective) ? others : 1;
}

/* ---- Values ---------------------------------------------------------------------------------- */

/* What a number becomes in memory; integers wrap as sums of them do. */
static void store(rueda_dtype dtype, double value, unsigned char *to)
{
    const int64_t whole = is_float(dtype) ? 0 : (int64_t)value;
    const float single = (float)value;
    uint16_t half;
    switch (dtype) {
    case RUEDA_F16:
        half = f16_from_float(single);
        memcpy(to, &half, sizeof half);
        break;
    case RUEDA_BF16:
        half = bf16_from_float(single);
        memcpy(to, &half, sizeof half);
        break;
    case RUEDA_F32:
        memcpy(to, &single, sizeof single);
        break;
    case RUEDA_F64:
        memcpy(to, &value, sizeof value);
        break;
    default: /* the low bytes come first on every machine this runs on */
        memcpy(to, &whole, rueda_dtype_bytes(dtype));
    }
}

static double load_float(rueda_dtype dtype, const unsigned char *from)
{
    uint16_t half;
    float single;
    double value;
    memcpy(&half, from, sizeof half);
    if (dtype == RUEDA_F16)
        return f16_to_float(half);
    if (dtype == RUEDA_BF16)
        return bf16_to_float(half);
    if (dtype == RUEDA_F32)
        return memcpy(&single, from, sizeof single), single;
    return memcpy(&value, from, sizeof value), value;
}

/* The largest value that a sum may reach. */
static double type_limit(rueda_dtype dtype)
{
    switch (dtype) {
    case RUEDA_F16:
        return 60000;
    case RUEDA_F64:
        return DBL_MAX / 16;
    case RUEDA_I64: /* what we expect is computed in double */
        return 0x1p53;
    case RUEDA_F32:
    case RUEDA_BF16:
        return FLT_MAX / 16;
    default:
        return ldexp(1, 8 * (int)rueda_dtype_bytes(dtype) - 1) - 1;
    }
}

static double type_epsilon(rueda_dtype dtype)
{
    return dtype == RUEDA_F64   ? DBL_EPSILON
           : dtype == RUEDA_F32 ? FLT_EPSILON
           : dtype == RUEDA_F16 ? 0x1p-10
                                : 0x1p-7;
}

static double sum_of_factors(const bench_data *d)
{
    return (double)d->size * (d->size + 1) / 2;
}

int bench_data_burst(const bench_data *d)
{
    if (d->collective != PLAN_ALLREDUCE || d->op != RUEDA_SUM || is_mask(d) || d->size == 1)
        return BURST_MAX;
    int burst = 0;
    for (double value = PATTERN_MAX * sum_of_factors(d) * d->size; value < type_limit(d->dtype);
         value *= d->size)
        burst++;
    return burst < 1 ? 1 : burst < BURST_MAX ? burst : BURST_MAX;
}

/* ---- Factors of the pattern, by collective --------------------------------------------------- */

/* Parallel vectors average, whatever their lengths, if the tree is a full one. */
static bool adasum_averages(int size)
{
    return (size & (size - 1)) == 0;
}

static double reduction_input(const bench_data *d, int segment)
{
    if (is_mask(d)) {
        const bool is_or = d->dtype == RUEDA_BOOL && (d->op == RUEDA_SUM || d->op == RUEDA_MAX);
        return d->rank == 0 ? MASK_PATTERN : is_or ? MASK_ZERO : MASK_ONE;
    }
    if (d->op == RUEDA_ADASUM && !adasum_averages(d->size))
        return 1;
    return (d->rank + 1) * (1 + segment % 2);
}

static double reduction_output(const bench_data *d, int segment, int runs)
{
    const int repeated = d->collective == PLAN_ALLREDUCE ? runs - 1 : 0;
    const double part = 1 + segment % 2, sum = part * sum_of_factors(d);
    if (is_mask(d))
        return MASK_PATTERN;
    switch (d->op) {
    case RUEDA_SUM:
        return sum * pow(d->size, repeated);
    case RUEDA_AVERAGE:
        return sum / d->size;
    case RUEDA_ADASUM:
        return adasum_averages(d->size) ? sum / d->size : 1;
    case RUEDA_MAX:
        return part * d->size;
    default:
        return part;
    }
}

/* What rank `from` has for rank `to`. */
static double letter(const bench_data *d, int from, int to)
{
    return is_mask(d) ? (from + to) % 2 : (from + 3 * to) % 5 + 1;
}

static double input_factor(const bench_data *d, int segment)
{
    if (is_reduction(d->collective))
        return reduction_input(d, segment);
    if (d->collective == PLAN_BROADCAST)
        return letter(d, d->rank == 0, 0);
    const bool by_taker = d->collective == PLAN_ALLTOALL || d->collective == PLAN_SCATTER;
    return letter(d, d->rank, by_taker ? segment : 0);
}

static double output_factor(const bench_data *d, int segment, int runs)
{
    if (d->collective == PLAN_REDUCESCATTER)
        return reduction_output(d, d->rank, runs);
    if (is_reduction(d->collective))
        return reduction_output(d, 0, runs);
    if (d->collective == PLAN_SCATTER)
        return letter(d, 0, d->rank);
    if (d->collective == PLAN_BROADCAST)
        return letter(d, 1, 0);
    return letter(d, segment, d->collective == PLAN_ALLTOALL ? d->rank : 0);
}

/* ---- Tiles ----------------------------------------------------------------------------------- */

typedef struct tile {
    uint64_t count;
    unsigned char bytes[TILE * ELEMENT_MAX];
} tile;

static void tile_make(const bench_data *d, double factor, uint64_t count, tile *t)
{
    const size_t width = rueda_dtype_bytes(d->dtype);
    unsigned char values[PATTERN_MAX][ELEMENT_MAX];
    for (int p = 0; p < PATTERN_MAX; p++) {
        const double mask = factor == MASK_PATTERN ? p % 2 : factor;
        store(d->dtype, is_mask(d) ? mask > 0 : factor * (p + 1), values[p]);
    }
    t->count = count < TILE ? count : TILE;
    for (uint64_t i = 0; i < t->count; i++) /* a pattern that does not repeat within the tile */
        memcpy(t->bytes + i * width, values[(i * i + i / 7) % PATTERN_MAX], width);
}

static int segments_of(uint64_t count, const bench_data *d, bool is_input)
{
    const bool gathers = d->collective == PLAN_ALLGATHER || d->collective == PLAN_GATHER;
    const bool scatters = d->collective == PLAN_REDUCESCATTER || d->collective == PLAN_SCATTER;
    if (d->collective == PLAN_ALLTOALL || (gathers && !is_input) || (scatters && is_input))
        return count == 0 ? 0 : d->size;
    return count == 0 ? 0 : 1;
}

static void fill_segment(const tile *t, unsigned char *to, uint64_t count, size_t width)
{
    for (uint64_t i = 0; i < count; i += t->count) {
        const uint64_t part = count - i < t->count ? count - i : t->count;
        memcpy(to + i * width, t->bytes, part * width);
    }
}

void bench_data_fill(const bench_data *d)
{
    tile t;
    const size_t width = rueda_dtype_bytes(d->dtype);
    const int segments = segments_of(d->in_count, d, true);
    const uint64_t each = segments > 0 ? d->in_count / (uint64_t)segments : 0;
    for (int s = 0; s < segments; s++) {
        tile_make(d, input_factor(d, s), each, &t);
        fill_segment(&t, (unsigned char *)d->input + (uint64_t)s * each * width, each, width);
    }
    if (d->output != d->input && d->out_count > 0)
        memset(d->output, 0x5A, d->out_count * width);
}

static uint64_t count_wrong(const bench_data *d, const unsigned char *got,
                            const unsigned char *expected, uint64_t count, int runs)
{
    const size_t width = rueda_dtype_bytes(d->dtype);
    const double tolerance = 4 * (runs + d->size) * type_epsilon(d->dtype);
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < count; i++, got += width, expected += width) {
        if (memcmp(got, expected, width) == 0)
            continue;
        if (is_float(d->dtype)) {
            const double e = load_float(d->dtype, expected);
            if (fabs(load_float(d->dtype, got) - e) <= tolerance * fabs(e))
                continue;
        }
        wrong++;
    }
    return wrong;
}

uint64_t bench_data_check(const bench_data *d, int runs)
{
    tile t;
    uint64_t wrong = 0;
    const size_t width = rueda_dtype_bytes(d->dtype);
    const int segments = segments_of(d->out_count, d, false);
    const uint64_t each = segments > 0 ? d->out_count / (uint64_t)segments : 0;
    for (int s = 0; s < segments; s++) {
        const unsigned char *got = (unsigned char *)d->output + (uint64_t)s * each * width;
        tile_make(d, output_factor(d, s, runs), each, &t);
        for (uint64_t i = 0; i < each; i += t.count) {
            const uint64_t part = each - i < t.count ? each - i : t.count;
            if (memcmp(got + i * width, t.bytes, part * width) != 0)
                wrong += count_wrong(d, got + i * width, t.bytes, part, runs);
        }
    }
    return wrong;
}
