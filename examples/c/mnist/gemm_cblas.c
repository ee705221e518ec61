/* gemm_cblas.c: by any library with the C interface of BLAS. */
#include "gemm.h"

#include <cblas.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef MNIST_HAVE_OPENBLAS
/* The best kernels this processor can run; NULL: none of those with a name here. */
static const char *best_kernels(void)
{
#if defined(__x86_64__) && defined(__GNUC__)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        return "SkylakeX";
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return "Haswell";
#endif
    return NULL;
}

/* OpenBLAS chooses its kernels when it is loaded, by the model number of the processor. One that came
 * out after the library gets those of 2004, which take eight times as long. */
static void choose_kernels(char **argv)
{
    const char *best = best_kernels();
    if (best == NULL || strcmp(openblas_get_corename(), "Prescott") != 0 ||
        getenv("OPENBLAS_CORETYPE") != NULL)
        return;
    char self[4096] = "";
    if (readlink("/proc/self/exe", self, sizeof self - 1) <= 0)
        return;
    setenv("OPENBLAS_CORETYPE", best, 1);
    execv(self, argv); /* if it fails we go on as we are */
}
#endif

void gemm_setup(char **argv)
{
#ifdef MNIST_HAVE_OPENBLAS
    choose_kernels(argv);
    openblas_set_num_threads(1); /* every rank with a thread for every core would fight for them */
#else
    (void)argv;
#endif
}

const char *gemm_name(void)
{
#ifdef MNIST_HAVE_OPENBLAS
    return "OpenBLAS";
#else
    return "CBLAS";
#endif
}

void gemm(gemm_form form, int m, int n, int k, const float *a, const float *b, float beta, float *c)
{
    cblas_sgemm(CblasRowMajor, form == GEMM_TN ? CblasTrans : CblasNoTrans,
                form == GEMM_NT ? CblasTrans : CblasNoTrans, m, n, k, 1.0F, a,
                form == GEMM_TN ? m : k, b, form == GEMM_NT ? k : n, beta, c, n);
}
