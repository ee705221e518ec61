/* kernel_vector.inc.h: all kernels, in vectors. Included once by the file of each instruction set,
 * which defines before it
 *
 *     VECTOR_BYTES                       the width of a vector
 *     f32v, f64v, u32v, f32_pair         vectors of float, double and uint32_t; two of float
 *     unify_nan_f32v(v), …f64v(v)        NaN becomes all ones
 *     ones_where_nan(bits, v)            `bits` with all ones where v is NaN
 *     min_f32v(a, b), max_…, …f64v       as kernel.h says, any NaN for NaN
 *     load_f16(p), store_f16(p, pair)    VECTOR_BYTES / 2 halves as floats (NaN becomes all ones)
 *     widen_f16(p), …bf16, …f32          DOUBLES elements as double
 *     fused_f64v(a, b, c)                a · b + c with one rounding
 *     stream_vector(p, q), stream_end()  one vector past the caches; the fence after them
 *
 * The rest is written with the vector types of the compiler, so there is one text for all widths.
 * Every operation on one vector is a step_function, and each_step makes the loop around it: both
 * are inlined, since the address of the step is a constant there.
 */

#define DOUBLES (VECTOR_BYTES / sizeof(double)) /* in a vector */

#if defined(__clang__)
#define UNROLL_LOOP _Pragma("clang loop unroll_count(4)")
#else
#define UNROLL_LOOP _Pragma("GCC unroll 4")
#endif

#define ALWAYS_INLINE static inline __attribute__((always_inline))

#define VECTOR_OF(element, count) __attribute__((vector_size(sizeof(element) * (count)))) element
typedef VECTOR_OF(uint8_t, VECTOR_BYTES) u8v;
typedef VECTOR_OF(int8_t, VECTOR_BYTES) i8v;
typedef VECTOR_OF(uint16_t, VECTOR_BYTES / 2) u16v;
typedef VECTOR_OF(int16_t, VECTOR_BYTES / 2) i16v;
typedef VECTOR_OF(int32_t, VECTOR_BYTES / 4) i32v;
typedef VECTOR_OF(uint64_t, VECTOR_BYTES / 8) u64v;
typedef VECTOR_OF(int64_t, VECTOR_BYTES / 8) i64v;

/* As many integers as a vector has doubles. */
typedef VECTOR_OF(uint8_t, DOUBLES) u8_few;
typedef VECTOR_OF(int8_t, DOUBLES) i8_few;
typedef VECTOR_OF(uint16_t, DOUBLES) u16_few;
typedef VECTOR_OF(int16_t, DOUBLES) i16_few;
typedef VECTOR_OF(int32_t, DOUBLES) i32_few;

/* ---- Loops ----------------------------------------------------------------------------------- */

typedef void step_function(void *dst, const void *a, const void *b, double ca, double cb);

/* The last incomplete vector goes through buffers padded with zeros. */
static inline void last_step(step_function *step, void *dst, const void *a, const void *b,
                             size_t bytes, double ca, double cb)
{
    unsigned char left[VECTOR_BYTES] = {0}, right[VECTOR_BYTES] = {0}, result[VECTOR_BYTES];
    memcpy(left, a, bytes);
    memcpy(right, b, bytes);
    step(result, left, right, ca, cb);
    memcpy(dst, result, bytes);
}

ALWAYS_INLINE void each_step(step_function *step, size_t step_bytes, void *dst, const void *a,
                             const void *b, size_t bytes, double ca, double cb)
{
    char *out = dst;
    const char *left = a, *right = b;
    size_t whole = bytes - bytes % step_bytes;
    UNROLL_LOOP
    for (size_t at = 0; at < whole; at += step_bytes)
        step(out + at, left + at, right + at, ca, cb);
    if (whole < bytes)
        last_step(step, out + whole, left + whole, right + whole, bytes - whole, ca, cb);
}

/* ---- Memory ---------------------------------------------------------------------------------- */

#define LOAD_AND_STORE(vector)                                                                     \
    static inline vector load_##vector(const void *from)                                           \
    {                                                                                              \
        vector value;                                                                              \
        memcpy(&value, from, sizeof value);                                                        \
        return value;                                                                              \
    }                                                                                              \
    static inline void store_##vector(void *to, vector value)                                      \
    {                                                                                              \
        memcpy(to, &value, sizeof value);                                                          \
    }
LOAD_AND_STORE(u8v)
LOAD_AND_STORE(i8v)
LOAD_AND_STORE(u16v)
LOAD_AND_STORE(i16v)
LOAD_AND_STORE(u32v)
LOAD_AND_STORE(i32v)
LOAD_AND_STORE(u64v)
LOAD_AND_STORE(i64v)
LOAD_AND_STORE(u8_few)
LOAD_AND_STORE(i8_few)
LOAD_AND_STORE(u16_few)
LOAD_AND_STORE(i16_few)
LOAD_AND_STORE(i32_few)
LOAD_AND_STORE(f32v)
LOAD_AND_STORE(f64v)

static inline f32v load_f32(const void *from)
{
    return load_f32v(from);
}

static inline f64v load_f64(const void *from)
{
    return load_f64v(from);
}

static inline void store_f32(void *to, f32v value)
{
    store_f32v(to, unify_nan_f32v(value));
}

static inline void store_f64(void *to, f64v value)
{
    store_f64v(to, unify_nan_f64v(value));
}

/* Halves are taken apart into the even and the odd ones: that needs no shuffle. */
static inline f32_pair load_bf16(const void *from)
{
    u32v both = load_u32v(from);
    return (f32_pair){(f32v)(both << 16), (f32v)(both & 0xFFFF0000)};
}

/* The rounded value in the high half of each element; the low half is arbitrary. */
static inline u32v round_to_bf16(f32v value)
{
    u32v bits = (u32v)value;
    return ones_where_nan(bits + 0x7FFF + ((bits >> 16) & 1), value);
}

static inline void store_bf16(void *to, f32_pair pair)
{
    u32v even = round_to_bf16(pair.first) >> 16;
    u32v odd = round_to_bf16(pair.second) & 0xFFFF0000;
    store_u32v(to, even | odd);
}

/* ---- Reduce ---------------------------------------------------------------------------------- */

/* Most steps have no use for some of the operands. */
#define UNUSED __attribute__((unused))
#define STEP(name)                                                                                 \
    static inline void name(void *dst, const void *a, const void *b UNUSED, double ca UNUSED,      \
                            double cb UNUSED)

#define INTEGER_STEPS(type, unsigned_vector, vector)                                               \
    STEP(type##_sum)                                                                               \
    {                                                                                              \
        store_##unsigned_vector(dst, load_##unsigned_vector(a) + load_##unsigned_vector(b));       \
    }                                                                                              \
    STEP(type##_product)                                                                           \
    {                                                                                              \
        store_##unsigned_vector(dst, load_##unsigned_vector(a) * load_##unsigned_vector(b));       \
    }                                                                                              \
    STEP(type##_min)                                                                               \
    {                                                                                              \
        vector x = load_##vector(a), y = load_##vector(b), second = (vector)(y < x);               \
        store_##vector(dst, (y & second) | (x & ~second));                                         \
    }                                                                                              \
    STEP(type##_max)                                                                               \
    {                                                                                              \
        vector x = load_##vector(a), y = load_##vector(b), second = (vector)(y > x);               \
        store_##vector(dst, (y & second) | (x & ~second));                                         \
    }
INTEGER_STEPS(u8, u8v, u8v)
INTEGER_STEPS(i8, u8v, i8v)
INTEGER_STEPS(u16, u16v, u16v)
INTEGER_STEPS(i16, u16v, i16v)
INTEGER_STEPS(i32, u32v, i32v)
INTEGER_STEPS(i64, u64v, i64v)

STEP(b8_sum)
{
    store_u8v(dst, (u8v)((load_u8v(a) | load_u8v(b)) != 0) & 1);
}

STEP(b8_product)
{
    store_u8v(dst, (u8v)(load_u8v(a) != 0) & (u8v)(load_u8v(b) != 0) & 1);
}

#define b8_max b8_sum
#define b8_min b8_product

static inline f32v sum_f32v(f32v a, f32v b)
{
    return a + b;
}

static inline f32v product_f32v(f32v a, f32v b)
{
    return a * b;
}

static inline f64v sum_f64v(f64v a, f64v b)
{
    return a + b;
}

static inline f64v product_f64v(f64v a, f64v b)
{
    return a * b;
}

#define FLOATING_STEP(type, op)                                                                    \
    STEP(type##_##op)                                                                              \
    {                                                                                              \
        store_##type(dst, op##_##type##v(load_##type(a), load_##type(b)));                         \
    }
#define PAIR_STEP(type, op)                                                                        \
    STEP(type##_##op)                                                                              \
    {                                                                                              \
        f32_pair x = load_##type(a), y = load_##type(b);                                           \
        store_##type(dst, (f32_pair){op##_f32v(x.first, y.first), op##_f32v(x.second, y.second)}); \
    }
#define FOUR_STEPS(kind, type) kind(type, sum) kind(type, min) kind(type, max) kind(type, product)
FOUR_STEPS(FLOATING_STEP, f32)
FOUR_STEPS(FLOATING_STEP, f64)
FOUR_STEPS(PAIR_STEP, f16)
FOUR_STEPS(PAIR_STEP, bf16)

#define REDUCE(type, element, op)                                                                  \
    static void reduce_##type##_##op(void *dst, const void *a, const void *b, size_t count)        \
    {                                                                                              \
        each_step(type##_##op, VECTOR_BYTES, dst, a, b, count * sizeof(element), 0, 0);            \
    }
#define REDUCE_ALL(type, element, NAME)                                                            \
    REDUCE(type, element, sum)                                                                     \
    REDUCE(type, element, min)                                                                     \
    REDUCE(type, element, max)                                                                     \
    REDUCE(type, element, product)
REDUCE_ALL(b8, uint8_t, BOOL)
KERNEL_INTEGER_LIST(REDUCE_ALL)
KERNEL_FLOATING_LIST(REDUCE_ALL)

/* ---- Scale and combine ----------------------------------------------------------------------- */

static inline f64v all_f64v(double value)
{
    return (f64v){0} + value;
}

static inline f64v clear_nan(f64v value)
{
    return (f64v)((i64v)value & (i64v)(value == value));
}

/* Narrow integers go through int32, which the instruction sets convert from and to double. */
#define NARROW_INTEGER(type, few, NAME)                                                            \
    static inline f64v load_doubles_##type(const void *from)                                       \
    {                                                                                              \
        return __builtin_convertvector(__builtin_convertvector(load_##few(from), i32_few), f64v);  \
    }                                                                                              \
    static inline void store_doubles_##type(void *to, f64v value)                                  \
    {                                                                                              \
        f64v bounded = min_f64v(clear_nan(value), all_f64v(NAME##_LARGEST));                       \
        bounded = max_f64v(bounded, all_f64v(NAME##_SMALLEST));                                    \
        i32_few whole = __builtin_convertvector(bounded, i32_few);                                 \
        store_##few(to, __builtin_convertvector(whole, few));                                      \
    }
NARROW_INTEGER(u8, u8_few, U8)
NARROW_INTEGER(i8, i8_few, I8)
NARROW_INTEGER(u16, u16_few, U16)
NARROW_INTEGER(i16, i16_few, I16)
NARROW_INTEGER(i32, i32_few, I32)

static inline f64v load_doubles_i64(const void *from)
{
    return __builtin_convertvector(load_i64v(from), f64v);
}

/* INT64_MAX is no double: the values from 2^63 on are bounded below it and replaced afterwards. */
static inline void store_doubles_i64(void *to, f64v value)
{
    f64v bounded = min_f64v(clear_nan(value), all_f64v(0x1.fffffffffffffp62));
    bounded = max_f64v(bounded, all_f64v(-0x1p63));
    i64v above = (i64v)(value >= 0x1p63);
    i64v whole = __builtin_convertvector(bounded, i64v);
    store_i64v(to, (whole & ~above) | (above & INT64_MAX));
}

#define SCALE_INTEGER(type, element, NAME)                                                         \
    STEP(type##_scale)                                                                             \
    {                                                                                              \
        store_doubles_##type(dst, load_doubles_##type(a) * ca);                                    \
    }                                                                                              \
    STEP(type##_divide)                                                                            \
    {                                                                                              \
        store_doubles_##type(dst, load_doubles_##type(a) / ca);                                    \
    }                                                                                              \
    static void scale_##type(void *dst, const void *src, size_t count, double factor)              \
    {                                                                                              \
        each_step(type##_scale, DOUBLES * sizeof(element), dst, src, src, count * sizeof(element), \
                  factor, 0);                                                                      \
    }                                                                                              \
    static void divide_##type(void *dst, const void *src, size_t count, double divisor)            \
    {                                                                                              \
        each_step(type##_divide, DOUBLES * sizeof(element), dst, src, src,                         \
                  count * sizeof(element), divisor, 0);                                            \
    }
KERNEL_INTEGER_LIST(SCALE_INTEGER)

#define FLOATING_SCALE_STEPS(type, element)                                                        \
    STEP(type##_scale)                                                                             \
    {                                                                                              \
        store_##type(dst, load_##type(a) * (element)ca);                                           \
    }                                                                                              \
    STEP(type##_combine)                                                                           \
    {                                                                                              \
        store_##type(dst, load_##type(a) * (element)ca + load_##type(b) * (element)cb);            \
    }
FLOATING_SCALE_STEPS(f32, float)
FLOATING_SCALE_STEPS(f64, double)

#define PAIR_SCALE_STEPS(type)                                                                     \
    STEP(type##_scale)                                                                             \
    {                                                                                              \
        f32_pair x = load_##type(a);                                                               \
        store_##type(dst, (f32_pair){x.first * (float)ca, x.second * (float)ca});                  \
    }                                                                                              \
    STEP(type##_combine)                                                                           \
    {                                                                                              \
        f32_pair x = load_##type(a), y = load_##type(b);                                           \
        f32v first = x.first * (float)ca + y.first * (float)cb;                                    \
        f32v second = x.second * (float)ca + y.second * (float)cb;                                 \
        store_##type(dst, (f32_pair){first, second});                                              \
    }
PAIR_SCALE_STEPS(f16)
PAIR_SCALE_STEPS(bf16)

#define SCALE_AND_COMBINE(type, element, NAME)                                                     \
    static void scale_##type(void *dst, const void *src, size_t count, double factor)              \
    {                                                                                              \
        each_step(type##_scale, VECTOR_BYTES, dst, src, src, count * sizeof(element), factor, 0);  \
    }                                                                                              \
    static void combine_##type(void *dst, const void *a, const void *b, size_t count, double ca,   \
                               double cb)                                                          \
    {                                                                                              \
        each_step(type##_combine, VECTOR_BYTES, dst, a, b, count * sizeof(element), ca, cb);       \
    }
KERNEL_FLOATING_LIST(SCALE_AND_COMBINE)

/* ---- Copy ------------------------------------------------------------------------------------ */

/* Whole cache lines only: a line written in parts past the caches costs a transfer per part. */
static void copy_stream(void *dst, const void *src, size_t bytes)
{
    enum { CACHE_LINE = 64 };
    char *to = dst;
    const char *from = src;
    size_t head = -(uintptr_t)to % CACHE_LINE;
    if (bytes < head + CACHE_LINE)
        head = bytes;
    size_t whole = (bytes - head) / CACHE_LINE * CACHE_LINE;
    if (head > 0)
        memcpy(to, from, head);
    for (size_t at = head; at < head + whole; at += CACHE_LINE)
        for (size_t part = 0; part < CACHE_LINE; part += VECTOR_BYTES)
            stream_vector(to + at + part, from + at + part);
    if (head + whole < bytes)
        memcpy(to + head + whole, from + head + whole, bytes - head - whole);
    stream_end();
}

#include "kernel/kernel_vector_dot.inc.h"
