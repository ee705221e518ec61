/* gemm_cblas.c: by any library with the C interface of BLAS. */
#include "gemm.h"

#include <cblas.h>

void gemm_setup(void)
{
#ifdef MNIST_HAVE_OPENBLAS
    openblas_set_num_threads(1); /* every rank with a thread for every core would fight for them */
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
