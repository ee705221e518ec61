/* adasum_values.c: the definition of Adasum, element by element. */
#include "adasum_values.h"
#include "harness.h"

#include <math.h>
#include <stdlib.h>

const char *adasum_pattern_name(adasum_pattern pattern)
{
    static const char *const names[] = {
#define ADASUM_PATTERN_NAME(name) #name,
        ADASUM_PATTERN_LIST(ADASUM_PATTERN_NAME)};
    return names[pattern];
}

/* Within ±1, with a fraction that needs rounding. */
static double random_value(uint64_t seed, int rank, size_t element)
{
    dice d = {seed * 1000003 + (uint64_t)rank};
    d.state = roll(&d) + element;
    return (double)(roll(&d) >> 11) * 0x1p-52 - 1.0;
}

static double smallest(rueda_dtype dtype)
{
    return dtype == RUEDA_F16   ? 0x1p-24
           : dtype == RUEDA_F64 ? 0x1p-1074
           : dtype == RUEDA_F32 ? 0x1p-149
                                : 0x1p-133;
}

static double raw_input(const adasum_case *c, int index, int size, size_t element)
{
    const double value = random_value(c->seed, index, element);
    switch (c->pattern) {
    case PATTERN_ZERO:
        return 0;
    case PATTERN_SUBNORMAL:
        return nearbyint(value * 7) * smallest(c->dtype);
    case PATTERN_EQUAL:
        return random_value(c->seed, 0, element);
    case PATTERN_PARALLEL:
        return random_value(c->seed, 0, element) * (const int[]){1, 2, 4, 0, 3}[index % 5];
    case PATTERN_OPPOSED:
        return random_value(c->seed, index / 2, element) * (index % 2 ? -1 : 1);
    case PATTERN_ORTHOGONAL:
        return (int)(element % (size_t)size) == index ? value : 0;
    case PATTERN_SOME_ZERO:
        return index % 3 == 0 ? value : 0;
    case PATTERN_SCALES:
        return ldexp(value, index);
    case PATTERN_NOT_A_NUMBER:
        return index == size - 1 && element == c->count / 2 ? NAN : value;
    case PATTERN_INFINITE:
        return index == 0 && element == c->count - 1 ? INFINITY : value;
    default:
        return value;
    }
}

double adasum_input(const adasum_case *c, int index, int size, size_t element)
{
    return round_to(c->dtype, raw_input(c, index, size, element));
}

/* Summed wider than it is told: the reference has no rounding of its own to excuse. */
static double dot(const double *a, const double *b, size_t count)
{
    long double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += a[i] * b[i];
    return (double)sum;
}

/* `share`: how many of the leaves below the join are below this vector. */
static double coefficient(double product, double norm, double share)
{
    return norm == 0 ? 1.0 : 1.0 - share * product / norm;
}

/* Types shorter than double are combined in float; among subnormal numbers that shows. */
static double in_float(rueda_dtype dtype, double value)
{
    return dtype == RUEDA_F64 ? value : (double)(float)value;
}

/* a ← Adasum(a, b); a comes from the lower block, and `lower` of all leaves are below it. Returns the
 * squared norm before rounding. */
static double join(rueda_dtype dtype, double *a, const double *b, size_t count, int lower,
                   int upper)
{
    const double ab = dot(a, b, count), all = fmax(lower + upper, 1);
    const double ca = coefficient(ab, dot(a, a, count), lower / all);
    const double cb = coefficient(ab, dot(b, b, count), upper / all);
    double norm = 0;
    for (size_t i = 0; i < count; i++) {
        const double sum = ca * a[i] + cb * b[i];
        norm += sum * sum;
        a[i] = round_to(dtype, in_float(dtype, in_float(dtype, ca) * a[i]) +
                                   in_float(dtype, in_float(dtype, cb) * b[i]));
    }
    return norm;
}

/* Joins all into the first. below[r]: how many leaves with a norm that is not 0 are below vector r. */
static double join_all(const adasum_case *c, double *all, int *below, int size)
{
    double combined = 0;
    for (int step = 1; step < size; step *= 2) {
        for (int r = 0; r + step < size; r += 2 * step) {
            const double norm =
                join(c->dtype, all + (size_t)r * c->count, all + (size_t)(r + step) * c->count,
                     c->count, below[r], below[r + step]);
            below[r] += below[r + step];
            combined = r == 0 ? norm : combined;
        }
    }
    return combined;
}

adasum_result adasum_expected(const adasum_case *c, int size)
{
    adasum_result result = {0};
    int below[ADASUM_MOST_RANKS];
    double *all = malloc((size_t)size * c->count * sizeof *all + 1);
    for (int r = 0; r < size; r++) {
        double *v = all + (size_t)r * c->count;
        for (size_t i = 0; i < c->count; i++) {
            v[i] = adasum_input(c, r, size, i);
            result.largest = fmax(result.largest, fabs(v[i]));
        }
        const double norm = dot(v, v, c->count);
        below[r] = norm != 0;
        result.leaves += norm;
    }
    result.combined = size == 1 ? result.leaves : join_all(c, all, below, size);
    result.counted = below[0];
    result.values = all;
    return result;
}

/* Each level rounds two products and a sum; a level more than log2(size) for odd counts. */
void adasum_check(const adasum_case *c, const adasum_result *expected, int size, const void *data)
{
    const double unit = ldexp(expected->largest, -fraction_bits(c->dtype));
    const double slack = fmax(unit, smallest(c->dtype)) * 4 * (1 + log2(size));
    for (size_t i = 0; i < c->count; i++) {
        const double got = value_load(c->dtype, data, i).real, wanted = expected->values[i];
        const bool right = isnan(wanted)   ? isnan(got)
                           : isinf(wanted) ? got == wanted
                           : size == 1     ? got == wanted
                                           : fabs(got - wanted) <= slack;
        if (!right)
            rank_fail(__FILE__, __LINE__,
                      "adasum of %s %s, element %zu of %zu: got %g, expected %g",
                      rueda_dtype_name(c->dtype), adasum_pattern_name(c->pattern), i, c->count, got,
                      wanted);
    }
}

/* Norms are sums in double, in any order; the vectors of a level may differ by roundings. */
void adasum_check_orthogonality(rueda_dtype dtype, double got, double combined, double leaves)
{
    const double wanted = combined / leaves;
    const double slack = 1e-11 + ldexp(8, -fraction_bits(dtype));
    if (leaves == 0)
        return;
    if (isnan(wanted) ? !isnan(got) : !(fabs(got - wanted) <= slack))
        rank_fail(__FILE__, __LINE__, "orthogonality of %s is %.9g, expected %.9g",
                  rueda_dtype_name(dtype), got, wanted);
}
