/* idx.c: see idx.h. Nothing in a file is believed before it is checked. */
#include "idx.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#define TYPE_BYTE 8 /* the third byte of the magic number */

#define MAX_ELEMENTS ((size_t)1 << 30) /* a file that claims more is surely not MNIST */
#define READ_BYTES (1U << 20)

__attribute__((format(printf, 2, 3))) static bool fail(char error[IDX_ERROR_BYTES],
                                                       const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(error, IDX_ERROR_BYTES, format, args);
    va_end(args);
    return false;
}

/* Reads exactly `bytes`, or fewer at the end of the file; -1: the compressed data is damaged. */
static ptrdiff_t read_fully(gzFile file, uint8_t *to, size_t bytes)
{
    size_t done = 0;
    while (done < bytes) {
        const size_t left = bytes - done;
        const int count = gzread(file, to + done, left < READ_BYTES ? (unsigned)left : READ_BYTES);
        if (count < 0)
            return -1;
        if (count == 0)
            break;
        done += (size_t)count;
    }
    return (ptrdiff_t)done;
}

static uint32_t big_endian(const uint8_t b[4])
{
    return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

/* Magic number and extents; the number of elements goes to *total. */
static bool read_header(gzFile file, const char *path, idx_array *array, size_t *total, char *error)
{
    uint8_t bytes[4 + 4 * IDX_MAX_DIMS];
    const size_t header = 4 + 4 * (size_t)array->ndim;
    if (read_fully(file, bytes, header) != (ptrdiff_t)header)
        return fail(error, "%s: too short for the header of an idx file", path);
    const uint32_t magic = big_endian(bytes), expected = TYPE_BYTE << 8 | (uint32_t)array->ndim;
    if (magic != expected)
        return fail(error, "%s: not an idx file of bytes with %d dimensions (magic %08x, not %08x)",
                    path, array->ndim, (unsigned)magic, (unsigned)expected);
    *total = 1;
    for (int i = 0; i < array->ndim; i++) {
        array->extent[i] = big_endian(bytes + 4 + 4 * (size_t)i);
        if (array->extent[i] == 0 || *total > MAX_ELEMENTS / array->extent[i])
            return fail(error, "%s: dimension %d of extent %u makes no sense", path, i,
                        (unsigned)array->extent[i]);
        *total *= array->extent[i];
    }
    return true;
}

static bool read_elements(gzFile file, const char *path, uint8_t *data, size_t total, char *error)
{
    const ptrdiff_t count = read_fully(file, data, total);
    int code;
    if (count < 0)
        return fail(error, "%s: damaged: %s", path, gzerror(file, &code));
    if ((size_t)count < total)
        return fail(error, "%s: truncated: %zu bytes of data instead of %zu", path, (size_t)count,
                    total);
    uint8_t more;
    if (read_fully(file, &more, 1) != 0)
        return fail(error, "%s: more data than the %zu bytes its header tells, or damaged", path,
                    total);
    return true;
}

bool idx_read(const char *path, int ndim, idx_array *array, char error[IDX_ERROR_BYTES])
{
    *array = (idx_array){.ndim = ndim};
    errno = 0;
    gzFile file = gzopen(path, "rb");
    if (file == NULL)
        return fail(error, "%s: %s", path, errno != 0 ? strerror(errno) : "out of memory");
    gzbuffer(file, READ_BYTES);
    size_t total = 0;
    bool good = read_header(file, path, array, &total, error);
    if (good) {
        array->data = malloc(total);
        good = array->data != NULL ? read_elements(file, path, array->data, total, error)
                                   : fail(error, "%s: out of memory", path);
    }
    gzclose(file);
    if (!good) {
        free(array->data);
        array->data = NULL;
    }
    return good;
}

static bool check(const char *folder, const char *kind, const idx_array *images,
                  const idx_array *labels, char *error)
{
    if (images->extent[1] != IMAGE_SIDE || images->extent[2] != IMAGE_SIDE)
        return fail(error, "%s: the %s images are %u × %u, not %d × %d", folder, kind,
                    (unsigned)images->extent[1], (unsigned)images->extent[2], IMAGE_SIDE,
                    IMAGE_SIDE);
    if (images->extent[0] != labels->extent[0])
        return fail(error, "%s: %u %s images, but %u labels", folder, (unsigned)images->extent[0],
                    kind, (unsigned)labels->extent[0]);
    for (uint32_t i = 0; i < labels->extent[0]; i++) {
        if (labels->data[i] >= CLASSES)
            return fail(error, "%s: %s label %u is %d, which is no digit", folder, kind,
                        (unsigned)i, labels->data[i]);
    }
    return true;
}

bool dataset_load(const char *folder, const char *kind, int limit, dataset *set,
                  char error[IDX_ERROR_BYTES])
{
    char path[4096];
    idx_array images, labels = {0};
    snprintf(path, sizeof path, "%s/%s-images-idx3-ubyte.gz", folder, kind);
    if (!idx_read(path, 3, &images, error))
        return false;
    snprintf(path, sizeof path, "%s/%s-labels-idx1-ubyte.gz", folder, kind);
    if (!idx_read(path, 1, &labels, error) || !check(folder, kind, &images, &labels, error)) {
        free(images.data);
        free(labels.data);
        return false;
    }
    const int count = (int)images.extent[0];
    *set = (dataset){.count = limit > 0 && limit < count ? limit : count,
                     .images = images.data,
                     .labels = labels.data};
    return true;
}

void dataset_free(dataset *set)
{
    free(set->images);
    free(set->labels);
    *set = (dataset){0};
}
