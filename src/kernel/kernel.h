/* kernel.h: arithmetic on host memory, without any notion of ranks.
 *
 * One table per instruction set, chosen once at run time. Invariant: every table gives the same
 * bits as the plain one, for every type, count and alignment (built with -ffp-contract=off). A NaN
 * that a kernel writes has all bits set, whichever NaN went in.
 */
#ifndef RUEDA_KERNEL_H
#define RUEDA_KERNEL_H

#include "rueda.h"

#include <stdbool.h>
#include <stddef.h>

typedef enum kernel_op {
    KERNEL_SUM,
    KERNEL_MIN,
    KERNEL_MAX,
    KERNEL_PRODUCT,
    KERNEL_OP_COUNT
} kernel_op;

/* Pointers need only the alignment of their element type. Counts are elements; 0 is allowed. dst
 * may be the same pointer as a source, never overlap it otherwise. Functions are NULL where said. */
typedef struct kernel_table {
    const char *name; /* "plain", "avx2", "avx512" */

    /* dst ← a ∘ b. Floating min and max: NaN if either is NaN, the first operand when equal.
     * f16 and bf16 compute in float and round to nearest even. Integers wrap. BOOL: any nonzero
     * byte is true, results are 0 or 1; sum and max are or, product and min are and. */
    void (*reduce[RUEDA_DTYPE_COUNT][KERNEL_OP_COUNT])(void *dst, const void *a, const void *b,
                                                       size_t count);

    /* dst ← src · factor. Integers in double, truncated toward zero, saturating (NaN gives 0);
     * f16, bf16 and f32 in float (the factor rounded to float first). NULL for BOOL. */
    void (*scale[RUEDA_DTYPE_COUNT])(void *dst, const void *src, size_t count, double factor);

    /* dst ← src / divisor, in double, truncated and saturating as in scale. For averages: 49 times
     * 1/49.0 truncates to 0. Only integer types, others NULL. */
    void (*divide[RUEDA_DTYPE_COUNT])(void *dst, const void *src, size_t count, double divisor);

    /* sums[0] += a·b, sums[1] += a·a, sums[2] += b·b, in double, in KERNEL_LANES interleaved
     * partial sums per call, joined pairwise in a fixed order. Only floating types, others NULL. */
    void (*dot[RUEDA_DTYPE_COUNT])(const void *a, const void *b, size_t count, double sums[3]);

    /* dst ← ca·a + cb·b. Computed in float (double for f64) with the factors rounded to it, each
     * product rounded, then the sum. Only floating types, others NULL. */
    void (*combine[RUEDA_DTYPE_COUNT])(void *dst, const void *a, const void *b, size_t count,
                                       double ca, double cb);

    /* dst ← src past the caches: for results that nobody reads soon. Sources and destinations do
     * not overlap. All stores are visible to other cores before it returns (sfence). */
    void (*copy_stream)(void *dst, const void *src, size_t bytes);
} kernel_table;

#define KERNEL_LANES 16 /* partial sums of a dot product: element i goes to lane i % 16 */

/* The best table for this processor; never NULL. RUEDA_KERNEL names another: the caller passes it
 * on to kernel_table_named, which gives NULL if it is unknown or not for this processor. */
const kernel_table *kernel_table_best(void);
const kernel_table *kernel_table_named(const char *name);

/* Fills dst with the value that changes nothing under op: 0, 1, or the largest or smallest value of
 * the type (±infinity for floating types). */
void kernel_fill_neutral(void *dst, rueda_dtype dtype, kernel_op op, size_t count);

/* Whether the public operation has a meaning for the type (see RUEDA_OP_LIST). */
bool kernel_supports(rueda_op op, rueda_dtype dtype);

/* Single values, for tests and tools. Round to nearest even; NaN stays NaN
 * (all bits set in a half). */
float kernel_f16_to_float(uint16_t half);
uint16_t kernel_f16_from_float(float value);
float kernel_bf16_to_float(uint16_t half);
uint16_t kernel_bf16_from_float(float value);

#endif
