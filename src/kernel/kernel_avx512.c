/* kernel_avx512.c: vectors of 64 bytes, for processors with AVX-512 F, BW, DQ and VL. */
#include "kernel/kernel_scalar.h"
#include "kernel/kernel_tables.h"

#if defined(KERNEL_X86)
#include <immintrin.h>

#if defined(__clang__)
#pragma clang attribute push(                                                                      \
    __attribute__((target("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl"))),                   \
    apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl")
#endif

#define VECTOR_BYTES 64

typedef __m512 f32v;
typedef __m512d f64v;
typedef uint32_t u32v __attribute__((vector_size(VECTOR_BYTES)));
typedef struct f32_pair {
    f32v first, second;
} f32_pair;

/* One instruction that looks up each element's class, four bits per class from the lowest: quiet
 * and signalling NaN take the first operand (0), the other classes keep the second (1). */
#define KEEP_ALL_BUT_NAN 0x11111100

/* Hidden from the compiler, so that it copies the register: the instruction that makes ones waits
 * for the register's old value, which ties each element of a loop to the one before. */
static inline __m512i hidden_ones(void)
{
    __m512i ones = _mm512_set1_epi32(-1);
    __asm__("" : "+v"(ones));
    return ones;
}

static inline f32v unify_nan_f32v(f32v v)
{
    f32v ones = _mm512_castsi512_ps(hidden_ones());
    return _mm512_fixupimm_ps(ones, v, _mm512_set1_epi32(KEEP_ALL_BUT_NAN), 0);
}

static inline f64v unify_nan_f64v(f64v v)
{
    f64v ones = _mm512_castsi512_pd(hidden_ones());
    return _mm512_fixupimm_pd(ones, v, _mm512_set1_epi64(KEEP_ALL_BUT_NAN), 0);
}

static inline u32v ones_where_nan(u32v bits, f32v v)
{
    __mmask16 nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
    return (u32v)_mm512_mask_mov_epi32((__m512i)bits, nan, _mm512_set1_epi32(-1));
}

/* The instructions give their second operand for equal operands and for NaN; that is right unless
 * only b is NaN. */
static inline f32v min_f32v(f32v a, f32v b)
{
    return _mm512_mask_mov_ps(_mm512_min_ps(b, a), _mm512_cmp_ps_mask(b, b, _CMP_UNORD_Q), b);
}

static inline f32v max_f32v(f32v a, f32v b)
{
    return _mm512_mask_mov_ps(_mm512_max_ps(b, a), _mm512_cmp_ps_mask(b, b, _CMP_UNORD_Q), b);
}

static inline f64v min_f64v(f64v a, f64v b)
{
    return _mm512_mask_mov_pd(_mm512_min_pd(b, a), _mm512_cmp_pd_mask(b, b, _CMP_UNORD_Q), b);
}

static inline f64v max_f64v(f64v a, f64v b)
{
    return _mm512_mask_mov_pd(_mm512_max_pd(b, a), _mm512_cmp_pd_mask(b, b, _CMP_UNORD_Q), b);
}

static inline f32_pair load_f16(const void *from)
{
    const __m256i *halves = from;
    return (f32_pair){_mm512_cvtph_ps(_mm256_loadu_si256(halves)),
                      _mm512_cvtph_ps(_mm256_loadu_si256(halves + 1))};
}

static inline void store_f16(void *to, f32_pair pair)
{
    __m256i *halves = to;
    _mm256_storeu_si256(halves,
                        _mm512_cvtps_ph(unify_nan_f32v(pair.first), _MM_FROUND_TO_NEAREST_INT));
    _mm256_storeu_si256(halves + 1,
                        _mm512_cvtps_ph(unify_nan_f32v(pair.second), _MM_FROUND_TO_NEAREST_INT));
}

static inline f64v widen_f32(const float *from)
{
    return _mm512_cvtps_pd(_mm256_loadu_ps(from));
}

static inline f64v widen_f16(const uint16_t *from)
{
    return _mm512_cvtps_pd(_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)from)));
}

static inline f64v widen_bf16(const uint16_t *from)
{
    __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)from));
    return _mm512_cvtps_pd(_mm256_castsi256_ps(_mm256_slli_epi32(wide, 16)));
}

static inline f64v fused_f64v(f64v a, f64v b, f64v c)
{
    return _mm512_fmadd_pd(a, b, c);
}

static inline void stream_vector(void *to, const void *from)
{
    _mm512_stream_si512(to, _mm512_loadu_si512(from));
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

const kernel_table kernel_table_avx512 = KERNEL_TABLE_OF_FILE("avx512");

#endif
