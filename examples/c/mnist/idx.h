/* idx.h: the files of MNIST. An idx file is a magic number (two zero bytes, the type of an element,
 * the number of dimensions), the extents as big-endian 32-bit numbers, and the elements. */
#ifndef MNIST_IDX_H
#define MNIST_IDX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define IMAGE_SIDE 28
#define IMAGE_PIXELS (IMAGE_SIDE * IMAGE_SIDE)
#define CLASSES 10
#define IDX_MAX_DIMS 3
#define IDX_ERROR_BYTES 512

typedef struct idx_array {
    int ndim;
    uint32_t extent[IDX_MAX_DIMS];
    uint8_t *data;
} idx_array;

typedef struct dataset {
    int count;
    uint8_t *images; /* count × 28 × 28 */
    uint8_t *labels; /* count */
} dataset;

/* Reads an array of bytes from a file, gzip-compressed or not. On failure `error` says which file and
 * what is wrong with it, and nothing is left to free. */
bool idx_read(const char *path, int ndim, idx_array *array, char error[IDX_ERROR_BYTES]);

/* Reads FOLDER/KIND-images-idx3-ubyte.gz and its labels ("train" or "t10k") and checks that they
 * belong together. `limit` keeps the first images only; 0 keeps all. */
bool dataset_load(const char *folder, const char *kind, int limit, dataset *set,
                  char error[IDX_ERROR_BYTES]);
void dataset_free(dataset *set);

#endif
