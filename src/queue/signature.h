/* signature.h: what a rank says about a tensor, and what must agree between ranks. */
#ifndef RUEDA_QUEUE_SIGNATURE_H
#define RUEDA_QUEUE_SIGNATURE_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

#define SIGNATURE_KIND_LIST(X)                                                                     \
    X(ALLREDUCE, "ALLREDUCE")                                                                      \
    X(ALLGATHER, "ALLGATHER")                                                                      \
    X(BROADCAST, "BROADCAST")                                                                      \
    X(ALLTOALL, "ALLTOALL")                                                                        \
    X(REDUCESCATTER, "REDUCESCATTER")                                                              \
    X(REDUCE, "REDUCE")                                                                            \
    X(GATHER, "GATHER")                                                                            \
    X(SCATTER, "SCATTER")                                                                          \
    X(BARRIER, "BARRIER")                                                                          \
    X(ADD_SET, "ADD_PROCESS_SET")                                                                  \
    X(REMOVE_SET, "REMOVE_PROCESS_SET")                                                            \
    X(JOIN, "JOIN")

/* The first ones in the order of plan_collective. */
typedef enum signature_kind {
#define SIGNATURE_KIND_ENUM(name, text) SIGNATURE_##name,
    SIGNATURE_KIND_LIST(SIGNATURE_KIND_ENUM) SIGNATURE_KIND_COUNT
} signature_kind;

/* What must agree is compared by signature_conflict; the rest is each rank's own. */
typedef struct signature {
    uint8_t kind, dtype, op, ndim;
    bool mapped; /* own: input and output can be reached by peers */
    uint8_t zero[3];
    int32_t root;        /* of those that have one: global rank; REMOVE_SET: the set */
    int32_t priority;    /* the first speaker's counts */
    uint32_t group_size; /* tensors of the group, 0: none */
    uint32_t list_count; /* alltoall: splits, own; scatter: the root's; ADD_SET: ranks */
    uint64_t group;      /* hash of the group's name */
    double prescale, postscale;
    int64_t shape[RUEDA_MAX_DIMS]; /* shape[0] is own where signature_rows_differ */
    int64_t *list;                 /* list_count numbers, owned */
} signature;

/* A scalar of this type, alone, unscaled. Extents beyond `ndim` are never read nor written. */
void signature_init(signature *s, signature_kind kind, rueda_dtype dtype);

/* Elements of a tensor, and of one row of it (all dimensions but the first). */
uint64_t signature_elements(const signature *s);
uint64_t signature_bytes(const signature *s); /* of all elements */
uint64_t signature_row_elements(const signature *s);

/* Copies with its list. ERR_MEMORY: without it, so that the copy repeats nothing that has one. */
rueda_status signature_copy(signature *to, const signature *from);
void signature_fini(signature *s);

/* Whether a rank may speak of `now` by the bit that stands for `before`: everything alike, its own
 * part included. Priority does not count. */
bool signature_repeats(const signature *before, const signature *now);

/* RUEDA_OK, or ERR_MISMATCH with a sentence that names the tensor, both ranks and both values. */
rueda_status signature_conflict(const char *name, const signature *a, int a_rank,
                                const signature *b, int b_rank);

/* Bytes of the encoded signature with its name. */
size_t signature_encoded_bytes(const signature *s, size_t name_length);
void signature_encode(const signature *s, const char *name, size_t name_length, uint8_t *to);
/* Reads one that begins at `from`. *taken: its bytes. The name points into `from` and is not terminated;
 * list is allocated. ERR_INTERNAL: they are not a signature; ERR_MEMORY. */
rueda_status signature_decode(signature *s, const char **name, size_t *name_length,
                              const uint8_t *from, size_t bytes, size_t *taken);

const char *signature_kind_name(uint8_t kind);

/* What kinds have in common: a reduction, one root, first dimensions that need not agree. */
bool signature_reduces(uint8_t kind);
bool signature_has_root(uint8_t kind);
bool signature_rows_differ(uint8_t kind);

#endif
