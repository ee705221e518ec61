/* combine.c: see combine.h. The arithmetic is the library's: coefficients from dot products in double,
 * applied in float; dot products in LANES interleaved parts, block after block. */
#include "common/combine.h"

#define LANES 16
#define BLOCK (8192 / sizeof(float))

typedef struct products {
    double ab, aa, bb;
} products;

static double add_lanes(double lanes[LANES])
{
    for (size_t width = LANES / 2; width > 0; width /= 2) {
        for (size_t i = 0; i < width; i++)
            lanes[i] += lanes[i + width];
    }
    return lanes[0];
}

typedef struct lane_products {
    double ab[LANES], aa[LANES], bb[LANES];
} lane_products;

static inline void multiply_lanes(size_t lanes, const float *a, const float *b, lane_products *p)
{
    for (size_t i = 0; i < lanes; i++) {
        const double x = (double)a[i], y = (double)b[i];
        p->ab[i] += x * y;
        p->aa[i] += x * x;
        p->bb[i] += y * y;
    }
}

static void multiply_block(size_t count, const float *a, const float *b, products *p)
{
    lane_products lanes = {{0}, {0}, {0}};
    size_t first = 0;
    for (; first + LANES <= count; first += LANES)
        multiply_lanes(LANES, a + first, b + first, &lanes);
    multiply_lanes(count - first, a + first, b + first, &lanes);
    p->ab += add_lanes(lanes.ab);
    p->aa += add_lanes(lanes.aa);
    p->bb += add_lanes(lanes.bb);
}

static products multiply(size_t count, const float *a, const float *b)
{
    products p = {0};
    for (size_t first = 0; first < count; first += BLOCK)
        multiply_block(count - first < BLOCK ? count - first : BLOCK, a + first, b + first, &p);
    return p;
}

/* What a block of workers has become: its vector, and how many of its workers' vectors were not zero. */
typedef struct block {
    float *vector;
    int leaves;
} block;

/* How much of a vector with the squared norm `norm` is kept: the more of the workers stand behind it,
 * the more of what it shares with the other one it gives up, since they said that part together. */
static float kept(double product, double norm, int leaves, int all)
{
    return norm == 0 || leaves == 0 ? 1 : (float)(1 - product / ((double)all / leaves * norm));
}

/* a ← Adasum(a, b). Orthogonal vectors add, parallel ones average over all workers behind them. A block
 * that is `single` is a worker's own vector: its squared norm goes to *norms, and tells whether it counts. */
static void adasum(size_t count, block *a, block *b, bool single_a, bool single_b, double *norms)
{
    const products p = multiply(count, a->vector, b->vector);
    a->leaves = single_a ? p.aa != 0 : a->leaves;
    b->leaves = single_b ? p.bb != 0 : b->leaves;
    *norms += (single_a ? p.aa : 0) + (single_b ? p.bb : 0);
    const int all = a->leaves + b->leaves;
    const float keep_a = kept(p.ab, p.aa, a->leaves, all);
    const float keep_b = kept(p.ab, p.bb, b->leaves, all);
    for (size_t i = 0; i < count; i++)
        a->vector[i] = keep_a * a->vector[i] + keep_b * b->vector[i];
    a->leaves = all;
}

static void add(size_t count, float *a, const float *b)
{
    for (size_t i = 0; i < count; i++)
        a[i] += b[i];
}

/* One tensor of the workers [first, end), into the first one's. The lower block is the largest power of
 * two that leaves something for the upper one. */
static block join(rueda_op op, const tensor_place *place, float *const *updates, int first, int end,
                  double *norms)
{
    if (end - first == 1)
        return (block){.vector = updates[first] + place->offset};
    int half = 1;
    while (2 * half < end - first)
        half *= 2;
    block a = join(op, place, updates, first, first + half, norms);
    block b = join(op, place, updates, first + half, end, norms);
    if (op == RUEDA_ADASUM)
        adasum(place->count, &a, &b, half == 1, end - first - half == 1, norms);
    else
        add(place->count, a.vector, b.vector);
    return a;
}

void combine_workers(rueda_op op, const subject *about, float *const *updates, int workers,
                     double *norms)
{
    for (int t = 0; t < about->tensors; t++) /* each has directions of its own */
        join(op, &about->places[t], updates, 0, workers, &norms[t]);
}

/* ---- Orthogonality --------------------------------------------------------------------------- */

static void add_norms(const subject *about, const float *update, double *norms)
{
    for (int t = 0; t < about->tensors; t++) {
        const tensor_place *place = &about->places[t];
        const float *tensor = update + place->offset;
        norms[t] += multiply(place->count, tensor, tensor).aa;
    }
}

/* Vectors that are all zero are as orthogonal as any. */
static double ratio(double combined, double leaves)
{
    return leaves == 0 ? 1 : combined / leaves;
}

void measure_orthogonality(const subject *about, const float *combined, const double *norms,
                           step_record *r)
{
    double length[MAX_TENSORS] = {0}, all = 0, leaves = 0;
    add_norms(about, combined, length);
    for (int t = 0; t < about->tensors; t++) {
        r->tensor[t] = ratio(length[t], norms[t]);
        all += length[t];
        leaves += norms[t];
    }
    r->orthogonality = ratio(all, leaves);
}

void ask_orthogonality(const subject *about, step_record *r)
{
    rueda_orthogonality(NULL, &r->orthogonality);
    for (int t = 0; t < about->tensors; t++)
        rueda_orthogonality(about->places[t].name, &r->tensor[t]);
}

void no_orthogonality(const subject *about, step_record *r)
{
    r->orthogonality = NAN;
    for (int t = 0; t < about->tensors; t++)
        r->tensor[t] = NAN;
}
