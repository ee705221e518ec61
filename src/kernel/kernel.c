/* kernel.c: the choice of a table, neutral values, and the halves one by one. */
#include "kernel/kernel.h"

#include "kernel/kernel_scalar.h"
#include "kernel/kernel_tables.h"

#if defined(KERNEL_X86)
#include <cpuid.h>

/* Asked of the processor itself: not every compiler knows this feature by name. */
static bool has_f16c(void)
{
    unsigned eax, ebx, ecx, edx;
    return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}

static bool has_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
}

static bool has_avx512(void)
{
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}
#endif

const kernel_table *kernel_table_best(void)
{
#if defined(KERNEL_X86)
    if (has_avx512())
        return &kernel_table_avx512;
    if (has_avx2())
        return &kernel_table_avx2;
#endif
    return &kernel_table_plain;
}

const kernel_table *kernel_table_named(const char *name)
{
#if defined(KERNEL_X86)
    if (strcmp(name, kernel_table_avx512.name) == 0)
        return has_avx512() ? &kernel_table_avx512 : NULL;
    if (strcmp(name, kernel_table_avx2.name) == 0)
        return has_avx2() ? &kernel_table_avx2 : NULL;
#endif
    return strcmp(name, kernel_table_plain.name) == 0 ? &kernel_table_plain : NULL;
}

/* ---- Neutral values -------------------------------------------------------------------------- */

/* The bits of a type's 0, 1, smallest and largest value, in the order of kernel_op: the largest is
 * neutral for the minimum. Fit to the element by dropping the high bits. */
static const uint64_t neutral_bits[RUEDA_DTYPE_COUNT][KERNEL_OP_COUNT] = {
    [RUEDA_BOOL] = {0, 1, 0, 1},
    [RUEDA_U8] = {0, UINT8_MAX, 0, 1},
    [RUEDA_I8] = {0, INT8_MAX, (uint64_t)INT8_MIN, 1},
    [RUEDA_U16] = {0, UINT16_MAX, 0, 1},
    [RUEDA_I16] = {0, INT16_MAX, (uint64_t)INT16_MIN, 1},
    [RUEDA_I32] = {0, INT32_MAX, (uint64_t)INT32_MIN, 1},
    [RUEDA_I64] = {0, INT64_MAX, (uint64_t)INT64_MIN, 1},
    [RUEDA_F16] = {0, 0x7C00, 0xFC00, 0x3C00},
    [RUEDA_BF16] = {0, 0x7F80, 0xFF80, 0x3F80},
    [RUEDA_F32] = {0, 0x7F800000, 0xFF800000, 0x3F800000},
    [RUEDA_F64] = {0, 0x7FF0000000000000, 0xFFF0000000000000, 0x3FF0000000000000},
};

static void fill_u16(uint16_t *dst, uint16_t value, size_t count)
{
    for (size_t i = 0; i < count; i++)
        dst[i] = value;
}

static void fill_u32(uint32_t *dst, uint32_t value, size_t count)
{
    for (size_t i = 0; i < count; i++)
        dst[i] = value;
}

static void fill_u64(uint64_t *dst, uint64_t value, size_t count)
{
    for (size_t i = 0; i < count; i++)
        dst[i] = value;
}

void kernel_fill_neutral(void *dst, rueda_dtype dtype, kernel_op op, size_t count)
{
    uint64_t bits = neutral_bits[dtype][op];
    size_t bytes = rueda_dtype_bytes(dtype);
    if (count == 0)
        return;
    if (bits == 0)
        memset(dst, 0, count * bytes);
    else if (bytes == 1)
        memset(dst, (int)(bits & 0xFF), count);
    else if (bytes == 2)
        fill_u16(dst, (uint16_t)bits, count);
    else if (bytes == 4)
        fill_u32(dst, (uint32_t)bits, count);
    else
        fill_u64(dst, bits, count);
}

/* ---- Questions and single values ------------------------------------------------------------- */

static bool is_floating(rueda_dtype dtype)
{
    return dtype == RUEDA_F16 || dtype == RUEDA_BF16 || dtype == RUEDA_F32 || dtype == RUEDA_F64;
}

bool kernel_supports(rueda_op op, rueda_dtype dtype)
{
    if ((unsigned)op >= RUEDA_OP_COUNT || (unsigned)dtype >= RUEDA_DTYPE_COUNT)
        return false;
    if (op == RUEDA_AVERAGE)
        return dtype != RUEDA_BOOL;
    return op != RUEDA_ADASUM || is_floating(dtype);
}

float kernel_f16_to_float(uint16_t half)
{
    return f16_to_float(half);
}

uint16_t kernel_f16_from_float(float value)
{
    return f16_from_float(value);
}

float kernel_bf16_to_float(uint16_t half)
{
    return bf16_to_float(half);
}

uint16_t kernel_bf16_from_float(float value)
{
    return bf16_from_float(value);
}
