/* kernel_avx2.c: vectors of 32 bytes, for processors with AVX2, FMA and F16C. */
#include "kernel/kernel_scalar.h"
#include "kernel/kernel_tables.h"

#if defined(KERNEL_X86)
#include <immintrin.h>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")
#endif

#define VECTOR_BYTES 32

typedef __m256 f32v;
typedef __m256d f64v;
typedef uint32_t u32v __attribute__((vector_size(VECTOR_BYTES)));
typedef struct f32_pair {
    f32v first, second;
} f32_pair;

static inline f32v unordered_f32v(f32v a, f32v b)
{
    return _mm256_cmp_ps(a, b, _CMP_UNORD_Q);
}

static inline f64v unordered_f64v(f64v a, f64v b)
{
    return _mm256_cmp_pd(a, b, _CMP_UNORD_Q);
}

static inline f32v unify_nan_f32v(f32v v)
{
    return _mm256_or_ps(v, unordered_f32v(v, v));
}

static inline f64v unify_nan_f64v(f64v v)
{
    return _mm256_or_pd(v, unordered_f64v(v, v));
}

static inline u32v ones_where_nan(u32v bits, f32v v)
{
    return bits | (u32v)unordered_f32v(v, v);
}

/* The instructions give their second operand for equal operands and for NaN. */
static inline f32v min_f32v(f32v a, f32v b)
{
    return _mm256_or_ps(_mm256_min_ps(b, a), unordered_f32v(a, b));
}

static inline f32v max_f32v(f32v a, f32v b)
{
    return _mm256_or_ps(_mm256_max_ps(b, a), unordered_f32v(a, b));
}

static inline f64v min_f64v(f64v a, f64v b)
{
    return _mm256_or_pd(_mm256_min_pd(b, a), unordered_f64v(a, b));
}

static inline f64v max_f64v(f64v a, f64v b)
{
    return _mm256_or_pd(_mm256_max_pd(b, a), unordered_f64v(a, b));
}

static inline f32_pair load_f16(const void *from)
{
    const __m128i *halves = from;
    return (f32_pair){_mm256_cvtph_ps(_mm_loadu_si128(halves)),
                      _mm256_cvtph_ps(_mm_loadu_si128(halves + 1))};
}

static inline void store_f16(void *to, f32_pair pair)
{
    __m128i *halves = to;
    _mm_storeu_si128(halves,
                     _mm256_cvtps_ph(unify_nan_f32v(pair.first), _MM_FROUND_TO_NEAREST_INT));
    _mm_storeu_si128(halves + 1,
                     _mm256_cvtps_ph(unify_nan_f32v(pair.second), _MM_FROUND_TO_NEAREST_INT));
}

static inline f64v widen_f32(const float *from)
{
    return _mm256_cvtps_pd(_mm_loadu_ps(from));
}

static inline f64v widen_f16(const uint16_t *from)
{
    return _mm256_cvtps_pd(_mm_cvtph_ps(_mm_loadl_epi64((const __m128i *)from)));
}

static inline f64v widen_bf16(const uint16_t *from)
{
    __m128i wide = _mm_cvtepu16_epi32(_mm_loadl_epi64((const __m128i *)from));
    return _mm256_cvtps_pd(_mm_castsi128_ps(_mm_slli_epi32(wide, 16)));
}

static inline f64v fused_f64v(f64v a, f64v b, f64v c)
{
    return _mm256_fmadd_pd(a, b, c);
}

static inline void stream_vector(void *to, const void *from)
{
    _mm256_stream_si256(to, _mm256_loadu_si256(from));
}

static inline void stream_end(void)
{
    _mm_sfence();
}

#include "kernel/kernel_vector.inc.h"

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

const kernel_table kernel_table_avx2 = KERNEL_TABLE_OF_FILE("avx2");

#endif
