/* worker.c: a rank for the tests on several hosts: combines tensors of several sizes by sum and by
 * Adasum, checks them against a plain calculation, and says what it is and that all was right.
 *
 * Usage: cluster-worker [SECONDS]: with a time it goes on until then, and says "going" when it has begun.
 */
#include "rueda.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define LARGEST 300001

static double value_of(int rank, int i)
{
    return (double)((i * 7 + rank * 13) % 31) - 15;
}

static int fail(const char *what)
{
    fprintf(stderr, "rank %d: %s: %s\n", rueda_rank(), what, rueda_error());
    return 1;
}

/* Adasum by its definition: blocks join pairwise, each with the weight of its ranks; a block without a
 * partner passes. No vector here is zero. */
static void expect_adasum(double **vectors, int count, int size)
{
    for (int step = 1; step < size; step *= 2) {
        for (int r = 0; r + step < size; r += 2 * step) {
            double *a = vectors[r], *b = vectors[r + step], ab = 0, aa = 0, bb = 0;
            for (int i = 0; i < count; i++) {
                ab += a[i] * b[i];
                aa += a[i] * a[i];
                bb += b[i] * b[i];
            }
            const int upper = size - r - step < step ? size - r - step : step;
            const double all = step + upper;
            const double ca = 1 - step / all * ab / aa, cb = 1 - upper / all * ab / bb;
            for (int i = 0; i < count; i++)
                a[i] = ca * a[i] + cb * b[i];
        }
    }
}

/* The expected result in vectors[0]. */
static void expect(double **vectors, int count, int size, rueda_op op)
{
    for (int r = 0; r < size; r++) {
        for (int i = 0; i < count; i++)
            vectors[r][i] = value_of(r, i);
    }
    if (op == RUEDA_ADASUM) {
        expect_adasum(vectors, count, size);
        return;
    }
    for (int r = 1; r < size; r++) {
        for (int i = 0; i < count; i++)
            vectors[0][i] += vectors[r][i];
    }
}

static int combine(double *data, double **vectors, int count, rueda_op op)
{
    char name[64];
    const int64_t shape[] = {count};
    for (int i = 0; i < count; i++)
        data[i] = value_of(rueda_rank(), i);
    snprintf(name, sizeof name, "%s.%d", rueda_op_name(op), count);
    const rueda_tensor tensor = RUEDA_TENSOR(name, data, RUEDA_F64, 1, shape);
    if (rueda_allreduce(&tensor, &RUEDA_OPTIONS(op), NULL) != RUEDA_OK)
        return fail(name);
    expect(vectors, count, rueda_size(), op);
    for (int i = 0; i < count; i++) {
        if (fabs(data[i] - vectors[0][i]) > 1e-9 * (1 + fabs(vectors[0][i])))
            return fprintf(stderr, "rank %d: %s: element %d is %g, not %g\n", rueda_rank(), name, i,
                           data[i], vectors[0][i]),
                   1;
    }
    return 0;
}

static int combine_all(double *data, double **vectors)
{
    static const int counts[] = {1, 3, 1000, LARGEST};
    int failed = 0;
    for (size_t i = 0; i < sizeof counts / sizeof counts[0] && !failed; i++)
        failed = combine(data, vectors, counts[i], RUEDA_SUM) ||
                 combine(data, vectors, counts[i], RUEDA_ADASUM);
    return failed;
}

int main(int argc, char **argv)
{
    if (rueda_init(NULL) != RUEDA_OK)
        return fail("rueda_init");
    const time_t end = argc > 1 ? time(NULL) + atoi(argv[1]) : 0;
    double *data = malloc(LARGEST * sizeof *data);
    double **vectors = calloc((size_t)rueda_size(), sizeof(double *));
    for (int r = 0; r < rueda_size(); r++)
        vectors[r] = malloc(LARGEST * sizeof **vectors);
    int failed = combine_all(data, vectors);
    if (argc > 1 && !failed)
        puts("going"), fflush(stdout);
    /* all ranks go equally far: the one that looks at the clock tells the others */
    for (int64_t more = 1; !failed && end > 0;) {
        const int64_t shape[] = {1};
        more = rueda_rank() == 0 && time(NULL) < end;
        const rueda_tensor tensor = RUEDA_TENSOR("more", &more, RUEDA_I64, 1, shape);
        if (rueda_broadcast(&tensor, NULL, NULL) != RUEDA_OK)
            failed = fail("more");
        if (failed || more == 0)
            break;
        failed = combine_all(data, vectors);
    }
    for (int r = 0; r < rueda_size(); r++)
        free(vectors[r]);
    free(vectors);
    free(data);
    if (failed)
        return failed;
    printf("rank %d of %d, local %d of %d, cross %d of %d: right\n", rueda_rank(), rueda_size(),
           rueda_local_rank(), rueda_local_size(), rueda_cross_rank(), rueda_cross_size());
    return rueda_shutdown() == RUEDA_OK ? 0 : fail("rueda_shutdown");
}
