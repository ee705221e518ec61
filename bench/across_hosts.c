/* across_hosts.c: how long an allreduce between hosts takes by several ways, and how many bytes of it
 * leave this host. The ways take turns, each time as a new generation of the job; results are compared
 * with a plain calculation.
 *
 * Usage: rueda run -H HOST:2,HOST:2 rueda-across-hosts BYTES ROUNDS
 * Rank 0 prints one line for each way. bench/across_hosts.sh makes hosts and starts it there.
 */
#include "rueda.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define RUNS 5          /* operations in a turn, after one that is not counted */
#define HEADER_BYTES 66 /* of Ethernet, IPv4 and TCP with time stamps, in each packet */
#define TOLERANCE 1e-5

typedef struct way {
    const char *label, *algorithm;
    rueda_op op;
    float *expected;
    double *ms; /* RUNS for each round */
    double bytes, packets;
} way;

typedef struct bench {
    size_t count;
    int rounds;
    float *data;
} bench;

static int fail(const char *what)
{
    fprintf(stderr, "rank %d: %s: %s\n", rueda_rank(), what, rueda_error());
    return 1;
}

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

/* What all interfaces of this host but its own loop have sent. */
static void count_sent(double *bytes, double *packets)
{
    char line[512], name[64];
    FILE *file = fopen("/proc/self/net/dev", "r");
    *bytes = *packets = 0;
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        unsigned long long b, p;
        if (sscanf(line, " %63[^:]: %*u %*u %*u %*u %*u %*u %*u %*u %llu %llu", name, &b, &p) !=
                3 ||
            strcmp(name, "lo") == 0)
            continue;
        *bytes += (double)b;
        *packets += (double)p;
    }
    if (file != NULL)
        fclose(file);
}

/* ---- What must come out ---------------------------------------------------------------------- */

static float value_of(int rank, size_t i)
{
    return (float)((i * 7 + (size_t)rank * 13) % 31) - 15;
}

/* a ← a and b joined by Adasum's rule. */
static void join(double *a, const double *b, size_t count)
{
    double ab = 0, aa = 0, bb = 0;
    for (size_t i = 0; i < count; i++) {
        ab += a[i] * b[i];
        aa += a[i] * a[i];
        bb += b[i] * b[i];
    }
    const double ca = aa == 0 ? 1 : 1 - ab / (2 * aa), cb = bb == 0 ? 1 : 1 - ab / (2 * bb);
    for (size_t i = 0; i < count; i++)
        a[i] = ca * a[i] + cb * b[i];
}

static void add(double *a, const double *b, size_t count)
{
    for (size_t i = 0; i < count; i++)
        a[i] += b[i];
}

/* Combines the ranks [first, first + width), by the binary tree, into memory that the caller frees. */
static double *combine_ranks(int first, int width, int size, size_t count, rueda_op op)
{
    if (width == 1) {
        double *leaf = malloc(count * sizeof *leaf);
        for (size_t i = 0; leaf != NULL && i < count; i++)
            leaf[i] = value_of(first, i);
        return leaf;
    }
    double *lower = combine_ranks(first, width / 2, size, count, op);
    if (first + width / 2 >= size || lower == NULL)
        return lower;
    double *upper = combine_ranks(first + width / 2, width / 2, size, count, op);
    if (upper != NULL)
        (op == RUEDA_ADASUM ? join : add)(lower, upper, count);
    free(upper);
    return lower;
}

static int expect(way *w, size_t count, int size)
{
    int width = 1;
    while (width < size)
        width *= 2;
    double *whole = combine_ranks(0, width, size, count, w->op);
    w->expected = malloc(count * sizeof *w->expected);
    if (whole == NULL || w->expected == NULL)
        return fail("no memory for what is expected");
    for (size_t i = 0; i < count; i++)
        w->expected[i] = (float)whole[i];
    free(whole);
    return 0;
}

static int check(const way *w, const bench *b)
{
    for (size_t i = 0; i < b->count; i++) {
        if (fabs(b->data[i] - w->expected[i]) > TOLERANCE * (1 + fabs(w->expected[i])))
            return fprintf(stderr, "rank %d: %s: element %zu is %g, not %g\n", rueda_rank(),
                           w->label, i, b->data[i], w->expected[i]),
                   1;
    }
    return 0;
}

/* ---- Turns ----------------------------------------------------------------------------------- */

static int run_once(const way *w, const bench *b, double *ms)
{
    const int64_t shape[] = {(int64_t)b->count};
    const rueda_tensor tensor = RUEDA_TENSOR("across", b->data, RUEDA_F32, 1, shape);
    for (size_t i = 0; i < b->count; i++)
        b->data[i] = value_of(rueda_rank(), i);
    if (rueda_barrier(RUEDA_GLOBAL_SET, NULL) != RUEDA_OK)
        return fail("barrier");
    const double start = now_ms();
    if (rueda_allreduce(&tensor, &RUEDA_OPTIONS(w->op), NULL) != RUEDA_OK)
        return fail(w->label);
    *ms = now_ms() - start;
    /* hosts that share this machine's cores would take them from those that are not yet done */
    return rueda_barrier(RUEDA_GLOBAL_SET, NULL) == RUEDA_OK ? 0 : fail("barrier");
}

static int take_turn(way *w, const bench *b, int round)
{
    double bytes, packets, warm, end_bytes, end_packets;
    setenv("RUEDA_ALGORITHM", w->algorithm, 1);
    if (rueda_init(NULL) != RUEDA_OK)
        return fail("rueda_init");
    if (w->expected == NULL && expect(w, b->count, rueda_size()) != 0)
        return 1;
    int failed = run_once(w, b, &warm);
    if (!failed && rueda_barrier(RUEDA_GLOBAL_SET, NULL) != RUEDA_OK)
        failed = fail("barrier");
    count_sent(&bytes, &packets);
    for (int i = 0; i < RUNS && !failed; i++)
        failed = run_once(w, b, &w->ms[round * RUNS + i]);
    failed = failed || check(w, b);
    if (!failed && rueda_barrier(RUEDA_GLOBAL_SET, NULL) != RUEDA_OK)
        failed = fail("barrier");
    count_sent(&end_bytes, &end_packets);
    w->bytes += end_bytes - bytes;
    w->packets += end_packets - packets;
    return failed;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* What a host must send at least: by hosts for plans that know them, by ranks for the flat ring. */
static double theory(const way *w, const bench *b)
{
    const double parts = strcmp(w->algorithm, "ring") == 0 ? rueda_size() : rueda_cross_size();
    return 2 * (parts - 1) / parts * (double)b->count * sizeof *b->data;
}

static void report(way *w, const bench *b)
{
    const int runs = b->rounds * RUNS;
    const double payload = (w->bytes - HEADER_BYTES * w->packets) / runs;
    qsort(w->ms, (size_t)runs, sizeof *w->ms, compare);
    printf("%-18s %8.1f %8.1f %14.0f %14.0f %7.3f %9.0f\n", w->label, w->ms[0], w->ms[runs / 2],
           payload, theory(w, b), payload / theory(w, b), w->packets / runs);
}

int main(int argc, char **argv)
{
    if (argc != 3 || atol(argv[1]) < 4 || atoi(argv[2]) < 1) {
        fprintf(stderr, "usage: rueda-across-hosts BYTES ROUNDS\n");
        return 2;
    }
    way ways[] = {{.label = "sum, as chosen", .algorithm = "auto", .op = RUEDA_SUM},
                  {.label = "sum, hierarchical", .algorithm = "hierarchical", .op = RUEDA_SUM},
                  {.label = "sum, flat ring", .algorithm = "ring", .op = RUEDA_SUM},
                  {.label = "adasum", .algorithm = "auto", .op = RUEDA_ADASUM}};
    const size_t way_count = sizeof ways / sizeof ways[0];
    bench b = {.count = (size_t)atol(argv[1]) / sizeof(float), .rounds = atoi(argv[2])};
    b.data = malloc(b.count * sizeof *b.data);
    int failed = b.data == NULL;
    for (size_t i = 0; i < way_count; i++) {
        ways[i].ms = calloc((size_t)(b.rounds * RUNS), sizeof *ways[i].ms);
        failed = failed || ways[i].ms == NULL;
    }
    for (int turn = 0; turn < b.rounds * (int)way_count && !failed; turn++) {
        failed = take_turn(&ways[turn % (int)way_count], &b, turn / (int)way_count);
        if (!failed && turn == b.rounds * (int)way_count - 1 && rueda_rank() == 0) {
            printf("%-18s %8s %8s %14s %14s %7s %9s\n", "", "min ms", "median", "bytes sent",
                   "theory", "ratio", "packets");
            for (size_t i = 0; i < way_count; i++)
                report(&ways[i], &b);
        }
        failed = failed || rueda_shutdown() != RUEDA_OK;
    }
    for (size_t i = 0; i < way_count; i++) {
        free(ways[i].expected);
        free(ways[i].ms);
    }
    free(b.data);
    return failed;
}
