/* tensors.h: tensors that lie side by side in one array of parameters. Gradients and updates have the
 * same layout, so a tensor of an update is found by the same row. */
#ifndef EXAMPLES_TENSORS_H
#define EXAMPLES_TENSORS_H

#include <stddef.h>
#include <stdint.h>

#define MAX_TENSORS 8

typedef struct tensor_place {
    const char *name;
    size_t offset, count;
    int ndim;
    int64_t shape[4];
} tensor_place;

#endif
