/* gemm_plain.c: for systems without BLAS. The innermost loop runs over neighbours in memory, so that
 * the compiler can use vector instructions; no more is done for speed. */
#include "gemm.h"

#include <string.h>

#define LANES 16 /* partial sums of a dot product */

void gemm_setup(char **argv)
{
    (void)argv;
}

const char *gemm_name(void)
{
    return "the plain loops (install OpenBLAS for speed)";
}

static void add_scaled(int n, float factor, const float *restrict x, float *restrict y)
{
    for (int i = 0; i < n; i++)
        y[i] += factor * x[i];
}

static float dot(int n, const float *x, const float *y)
{
    float lanes[LANES] = {0}, sum = 0;
    int i = 0;
    for (; i + LANES <= n; i += LANES) {
        for (int lane = 0; lane < LANES; lane++)
            lanes[lane] += x[i + lane] * y[i + lane];
    }
    for (; i < n; i++)
        sum += x[i] * y[i];
    for (int lane = 0; lane < LANES; lane++)
        sum += lanes[lane];
    return sum;
}

void gemm(gemm_form form, int m, int n, int k, const float *a, const float *b, float beta, float *c)
{
    if (beta == 0)
        memset(c, 0, sizeof *c * (size_t)m * (size_t)n);
    if (form == GEMM_NN) {
        for (int i = 0; i < m; i++) {
            for (int p = 0; p < k; p++)
                add_scaled(n, a[i * k + p], b + p * n, c + i * n);
        }
    } else if (form == GEMM_TN) {
        for (int p = 0; p < k; p++) {
            for (int i = 0; i < m; i++)
                add_scaled(n, a[p * m + i], b + p * n, c + i * n);
        }
    } else {
        for (int i = 0; i < m; i++) {
            for (int j = 0; j < n; j++)
                c[i * n + j] += dot(k, a + i * k, b + j * k);
        }
    }
}
