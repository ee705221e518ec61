/* values.h: inputs of the ranks and what must come out, computed without the library's kernels.
 *
 * An input is a function of (seed, rank, index), so that every rank knows all inputs. Sums and
 * products of the floating inputs are exact in every type and in every order of up to
 * HARNESS_MAX_RANKS ranks: a result is wrong if one bit is. Integers use their whole range.
 */
#ifndef RUEDA_TESTS_VALUES_H
#define RUEDA_TESTS_VALUES_H

#include "rueda.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Inputs repeat after so many elements, to be quick; a prime, so that no chunk is a multiple of it. */
#define VALUES_PERIOD 8191

/* An element: `real` for floating types, `whole` (two's complement) for the others. */
typedef struct number {
    double real;
    int64_t whole;
} number;

bool is_floating(rueda_dtype dtype);
/* Bits of the fraction of a floating type. */
int fraction_bits(rueda_dtype dtype);
/* Rounded to nearest even, as the type does. */
double round_to(rueda_dtype dtype, double value);

number value_load(rueda_dtype dtype, const void *data, size_t index);
/* Rounds or wraps to the type. */
void value_store(rueda_dtype dtype, void *data, size_t index, number value);

/* How a tensor is combined, and of what it is made. */
typedef struct recipe {
    rueda_dtype dtype;
    rueda_op op;
    double prescale, postscale;
    uint64_t seed;
} recipe;
#define RECIPE(dtype_, op_, seed_) ((recipe){(dtype_), (op_), 1.0, 1.0, (seed_)})

/* Whether the public header gives the combination a meaning. Adasum is left out: it has its own
 * definition and test. */
bool recipe_has_meaning(const recipe *r);

number recipe_input(const recipe *r, int rank, size_t index);
/* Fills data with rank's inputs index, index + 1, …. */
void recipe_fill(const recipe *r, int rank, size_t index, void *data, size_t count);

/* Element `index` combined over `ranks` (the list, or 0 … count−1 if NULL). A plain loop. */
number recipe_expected(const recipe *r, const int32_t *ranks, int count, size_t index);
/* Whether `got` is right; exact unless a scale had to be rounded. */
bool recipe_is_right(const recipe *r, number got, number expected);
/* Checks data[0 …] against elements index, index + 1, …; fails the rank at the first difference. */
void recipe_check(const recipe *r, const int32_t *ranks, int count, size_t index, const void *data,
                  size_t elements);

/* Copies of elements, for operations that only move data. */
void recipe_check_copy(const recipe *r, int rank, size_t index, const void *data, size_t elements);

#endif
