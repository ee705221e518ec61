/* combine.c: see combine.h. */
#include "combine.h"

#define LANES 8 /* independent partial sums, so that the compiler can use vector instructions */

typedef struct products {
    double ab, aa, bb;
} products;

/* In double, as the library does: the products decide about every element. */
static products multiply(size_t count, const float *a, const float *b)
{
    double ab[LANES] = {0}, aa[LANES] = {0}, bb[LANES] = {0};
    products p = {0};
    for (size_t i = 0; i + LANES <= count; i += LANES) {
        for (size_t lane = 0; lane < LANES; lane++) {
            const double x = a[i + lane], y = b[i + lane];
            ab[lane] += x * y;
            aa[lane] += x * x;
            bb[lane] += y * y;
        }
    }
    for (size_t i = count / LANES * LANES; i < count; i++) {
        p.ab += (double)a[i] * (double)b[i];
        p.aa += (double)a[i] * (double)a[i];
        p.bb += (double)b[i] * (double)b[i];
    }
    for (size_t lane = 0; lane < LANES; lane++) {
        p.ab += ab[lane];
        p.aa += aa[lane];
        p.bb += bb[lane];
    }
    return p;
}

/* a ← Adasum(a, b): each gives up half of what it shares with the other. Orthogonal vectors add,
 * equal ones average. */
static void adasum(size_t count, float *a, const float *b)
{
    const products p = multiply(count, a, b);
    const double keep_a = p.aa == 0 ? 1 : 1 - p.ab / (2 * p.aa);
    const double keep_b = p.bb == 0 ? 1 : 1 - p.ab / (2 * p.bb);
    for (size_t i = 0; i < count; i++)
        a[i] = (float)(keep_a * (double)a[i] + keep_b * (double)b[i]);
}

static void combine_two(rueda_op op, float *a, const float *b)
{
    if (op != RUEDA_ADASUM) {
        for (size_t i = 0; i < NETWORK_PARAMETERS; i++)
            a[i] += b[i];
        return;
    }
    for (int t = 0; t < TENSORS; t++) { /* layer by layer: each has directions of its own */
        const tensor_place *place = &network_tensors[t];
        adasum(place->count, a + place->offset, b + place->offset);
    }
}

void combine_workers(rueda_op op, float *const *updates, int workers)
{
    for (int span = 1; span < workers; span *= 2) {
        for (int i = 0; i < workers; i += 2 * span)
            combine_two(op, updates[i], updates[i + span]);
    }
}

void add_norms(const float *update, double norms[TENSORS])
{
    for (int t = 0; t < TENSORS; t++) {
        const tensor_place *place = &network_tensors[t];
        norms[t] += multiply(place->count, update + place->offset, update + place->offset).aa;
    }
}
