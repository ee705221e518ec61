/* gemm.h: the one matrix product everything here is made of. Matrices are row-major and contiguous;
 * c is m × n and k is what is summed over. One thread: a rank has one core. */
#ifndef MNIST_GEMM_H
#define MNIST_GEMM_H

typedef enum gemm_form {
    GEMM_NN, /* a is m × k, b is k × n */
    GEMM_TN, /* a is k × m and read transposed */
    GEMM_NT  /* b is n × k and read transposed */
} gemm_form;

/* c ← a·b + beta·c; beta is 0 or 1, and with 0 the old c is never read. */
void gemm(gemm_form form, int m, int n, int k, const float *a, const float *b, float beta,
          float *c);

/* Call it first in main: it may start the program again, with a setting that must be there before the
 * library is loaded. */
void gemm_setup(char **argv);
const char *gemm_name(void); /* who multiplies, for the first line of the output */

#endif
