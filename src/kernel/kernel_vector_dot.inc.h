/* kernel_vector_dot.inc.h: the dot products of kernel_vector.inc.h, which includes it. */

#define DOT_PARTS (KERNEL_LANES / DOUBLES) /* vectors that hold the lanes of one sum */

typedef struct dot_lanes {
    f64v ab[DOT_PARTS], aa[DOT_PARTS], bb[DOT_PARTS];
} dot_lanes;

typedef void dot_function(dot_lanes *lanes, const void *a, const void *b);

/* A product of two floats is exact in double, so fusing it with the addition changes no bit. */
#define add_product_f16 fused_f64v
#define add_product_bf16 fused_f64v
#define add_product_f32 fused_f64v
static inline f64v add_product_f64(f64v a, f64v b, f64v sum)
{
    return a * b + sum;
}

static inline f64v widen_f64(const void *from)
{
    return load_f64v(from);
}

#define DOT_STEP(type, element, NAME)                                                              \
    static inline void dot_step_##type(dot_lanes *lanes, const void *a, const void *b)             \
    {                                                                                              \
        const element *left = a, *right = b;                                                       \
        UNROLL_LOOP                                                                                \
        for (size_t i = 0; i < DOT_PARTS; i++) {                                                   \
            f64v x = widen_##type(left + i * DOUBLES), y = widen_##type(right + i * DOUBLES);      \
            lanes->ab[i] = add_product_##type(x, y, lanes->ab[i]);                                 \
            lanes->aa[i] = add_product_##type(x, x, lanes->aa[i]);                                 \
            lanes->bb[i] = add_product_##type(y, y, lanes->bb[i]);                                 \
        }                                                                                          \
    }
KERNEL_FLOATING_LIST(DOT_STEP)

static inline void add_dot_part(double *sum, const f64v parts[DOT_PARTS])
{
    double lanes[KERNEL_LANES];
    memcpy(lanes, parts, sizeof lanes);
    add_lanes(sum, lanes);
}

/* The padding of the last step adds 0 · 0; no lane changes by that, since none is ever -0. */
static inline void last_dot_step(dot_function *step, dot_lanes *lanes, const void *a, const void *b,
                                 size_t bytes)
{
    double left[KERNEL_LANES] = {0}, right[KERNEL_LANES] = {0};
    memcpy(left, a, bytes);
    memcpy(right, b, bytes);
    step(lanes, left, right);
}

ALWAYS_INLINE void each_dot_step(dot_function *step, size_t step_bytes, const void *a,
                                 const void *b, size_t bytes, double sums[3])
{
    const char *left = a, *right = b;
    size_t whole = bytes - bytes % step_bytes;
    dot_lanes lanes = {0};
    for (size_t at = 0; at < whole; at += step_bytes)
        step(&lanes, left + at, right + at);
    if (whole < bytes)
        last_dot_step(step, &lanes, left + whole, right + whole, bytes - whole);
    add_dot_part(&sums[0], lanes.ab);
    add_dot_part(&sums[1], lanes.aa);
    add_dot_part(&sums[2], lanes.bb);
}

#define DOT(type, element, NAME)                                                                   \
    static void dot_##type(const void *a, const void *b, size_t count, double sums[3])             \
    {                                                                                              \
        each_dot_step(dot_step_##type, KERNEL_LANES * sizeof(element), a, b,                       \
                      count * sizeof(element), sums);                                              \
    }
KERNEL_FLOATING_LIST(DOT)
