/* structs.h: structures of callers that were built with another version of rueda.h.
 *
 * They begin with their size. A smaller one is from an older header: what it lacks has its default. A larger
 * one is from a newer header: it is understood as long as what this library does not know is 0.
 */
#ifndef RUEDA_API_STRUCTS_H
#define RUEDA_API_STRUCTS_H

#include "base/status.h"

#define STRUCT_MOST 4096 /* bytes; a larger struct_size was never set */

typedef struct struct_kind {
    const char *name;     /* "rueda_tensor" */
    size_t least;         /* bytes that every caller must give */
    size_t bytes;         /* as this library knows it */
    const void *defaults; /* a whole one; NULL where it is only written */
} struct_kind;

/* Bytes of a caller's structure, by its own word. ERR_ARGUMENT: NULL, or no size that a caller can have set. */
rueda_status struct_read_size(const char *call, const struct_kind *kind, const void *given,
                              size_t *bytes);

/* Copies a caller's structure to `own`, which has kind->bytes and is whole afterwards.
 * ERR_ARGUMENT: NULL, no size, or a newer structure with something set that is not known here. */
rueda_status struct_read(const char *call, const struct_kind *kind, const void *given, void *own);

/* Copies what is known here to a caller's structure, but for its size, which stays: fields that it does
 * not have are left out, fields that are not known here become 0. ERR_ARGUMENT: NULL or no size. */
rueda_status struct_write(const char *call, const struct_kind *kind, const void *own, void *given);

#endif
