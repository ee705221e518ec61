/* bench_report.h: what was measured, and how it is told. */
#ifndef RUEDA_CLI_BENCH_REPORT_H
#define RUEDA_CLI_BENCH_REPORT_H

#include "cli/bench.h"

/* Samples of one kind; grows. */
typedef struct samples {
    float *us;
    size_t count, room;
} samples;

void samples_add(samples *s, const float *us, size_t count);
void samples_clear(samples *s);
/* Of the sorted samples, 0 ≤ share ≤ 1; NaN if there are none. Sorts. */
double samples_quantile(samples *s, double share);

/* One side of a comparison, at one size. */
typedef struct bench_side {
    samples all, near, far; /* of slices with the cores near each other, or far */
    samples trips;          /* µs, one a slice */
    uint64_t wrong;
    double messages; /* an operation, in the last slice; ours only */
} bench_side;

void report_head(const bench_options *o);
/* One size. `peer` is NULL without one. */
void report_row(const bench_options *o, uint64_t bytes, bench_side *ours, bench_side *peer);
void report_foot(const bench_options *o);

#endif
