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

/* a ← Adasum(a, b): each gives up half of what it shares with the other. Orthogonal vectors add,
 * equal ones average. Returns ‖a‖² + ‖b‖². */
static double adasum(size_t count, float *a, const float *b)
{
    const products p = multiply(count, a, b);
    const float keep_a = p.aa == 0 ? 1 : (float)(1 - p.ab / (2 * p.aa));
    const float keep_b = p.bb == 0 ? 1 : (float)(1 - p.ab / (2 * p.bb));
    for (size_t i = 0; i < count; i++)
        a[i] = keep_a * a[i] + keep_b * b[i];
    return p.aa + p.bb;
}

static double add(size_t count, float *a, const float *b)
{
    for (size_t i = 0; i < count; i++)
        a[i] += b[i];
    return 0;
}

void combine_workers(rueda_op op, const subject *about, float *const *updates, int workers,
                     double *norms)
{
    for (int span = 1; span < workers; span *= 2) {
        for (int i = 0; i < workers; i += 2 * span) {
            for (int t = 0; t < about->tensors; t++) { /* each has directions of its own */
                const tensor_place *place = &about->places[t];
                float *a = updates[i] + place->offset, *b = updates[i + span] + place->offset;
                const double both = (op == RUEDA_ADASUM ? adasum : add)(place->count, a, b);
                norms[t] += span == 1 ? both : 0; /* of the workers, not of what was combined */
            }
        }
    }
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
