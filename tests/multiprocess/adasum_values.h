/* adasum_values.h: Adasum by its definition, in double, with every level rounded to the type. */
#ifndef RUEDA_TESTS_ADASUM_VALUES_H
#define RUEDA_TESTS_ADASUM_VALUES_H

#include "values.h"

#define ADASUM_MOST_RANKS 16

#define ADASUM_PATTERN_LIST(X)                                                                     \
    X(RANDOM)                                                                                      \
    X(ZERO)                                                                                        \
    X(SUBNORMAL)                                                                                   \
    X(EQUAL)                                                                                       \
    X(PARALLEL)   /* 1, 2, 4, 0 and 3 times one vector, in turn */                                 \
    X(OPPOSED)    /* odd ranks have the negative of the rank before */                             \
    X(ORTHOGONAL) /* no two ranks are nonzero in the same element */                               \
    X(SOME_ZERO)  /* two of three ranks have nothing */                                            \
    X(SCALES)     /* rank r is 2^r times as long */                                                \
    X(NOT_A_NUMBER)                                                                                \
    X(INFINITE)

typedef enum adasum_pattern {
#define ADASUM_PATTERN_ENUM(name) PATTERN_##name,
    ADASUM_PATTERN_LIST(ADASUM_PATTERN_ENUM) PATTERN_COUNT
} adasum_pattern;

const char *adasum_pattern_name(adasum_pattern pattern);

/* One tensor, by the pattern its ranks follow. */
typedef struct adasum_case {
    rueda_dtype dtype;
    adasum_pattern pattern;
    size_t count;
    uint64_t seed;
} adasum_case;

double adasum_input(const adasum_case *c, int index, int size, size_t element);

typedef struct adasum_result {
    double *values;          /* malloc'ed */
    double combined, leaves; /* squared norms */
    int counted;             /* leaves whose norm is not 0 */
    double largest;          /* of all inputs, absolute */
} adasum_result;

adasum_result adasum_expected(const adasum_case *c, int size);

/* Fails the rank unless data is the expected result within a few roundings. */
void adasum_check(const adasum_case *c, const adasum_result *expected, int size, const void *data);
/* The same for the orthogonality that the library tells. */
void adasum_check_orthogonality(rueda_dtype dtype, double got, double combined, double leaves);

#endif
