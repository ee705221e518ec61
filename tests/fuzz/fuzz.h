/* fuzz.h: what fuzzers share. A fuzzer takes its input apart from the front: choices first, then the
 * bytes for the parser. */
#ifndef RUEDA_FUZZ_H
#define RUEDA_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* What must hold for every input. */
#define must(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

typedef struct fuzz_input {
    const uint8_t *data;
    size_t bytes;
} fuzz_input;

/* The next byte, or 0. */
static inline uint8_t fuzz_byte(fuzz_input *in)
{
    if (in->bytes == 0)
        return 0;
    in->bytes--;
    return *in->data++;
}

/* A piece of `rest`: of the size the next byte says, or all when the input has come to its end. */
static inline size_t fuzz_piece(fuzz_input *in, size_t rest)
{
    const size_t piece = fuzz_byte(in) * 8u;
    return piece == 0 || piece > rest ? rest : piece;
}

/* The next bytes, filled up with zeros. */
static inline void fuzz_bytes(fuzz_input *in, void *to, size_t bytes)
{
    const size_t taken = bytes < in->bytes ? bytes : in->bytes;
    memset(to, 0, bytes);
    memcpy(to, in->data, taken);
    in->data += taken;
    in->bytes -= taken;
}

#endif
