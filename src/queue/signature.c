/* signature.c: comparing what ranks say about a tensor, and its wire form (little-endian). */
#include "queue/signature.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHAPE_TEXT_MAX 160

void signature_init(signature *s, signature_kind kind, rueda_dtype dtype)
{
    memset(s, 0, offsetof(signature, shape));
    s->kind = (uint8_t)kind;
    s->dtype = (uint8_t)dtype;
    s->prescale = s->postscale = 1.0;
    s->list = NULL;
}

uint64_t signature_bytes(const signature *s)
{
    return signature_elements(s) * rueda_dtype_bytes((rueda_dtype)s->dtype);
}

uint64_t signature_row_elements(const signature *s)
{
    uint64_t elements = 1;
    for (int i = 1; i < s->ndim; i++)
        elements *= (uint64_t)s->shape[i];
    return elements;
}

uint64_t signature_elements(const signature *s)
{
    return s->ndim == 0 ? 1 : (uint64_t)s->shape[0] * signature_row_elements(s);
}

rueda_status signature_copy(signature *to, const signature *from)
{
    memcpy(to, from, offsetof(signature, shape) + from->ndim * sizeof from->shape[0]);
    to->list = NULL;
    if (from->list_count == 0)
        return RUEDA_OK;
    to->list_count = 0;
    to->list = malloc(from->list_count * sizeof *to->list);
    if (to->list == NULL)
        return status_fail(RUEDA_ERR_MEMORY, "out of memory for the description of a tensor");
    to->list_count = from->list_count;
    memcpy(to->list, from->list, from->list_count * sizeof *to->list);
    return RUEDA_OK;
}

void signature_fini(signature *s)
{
    free(s->list);
    s->list = NULL;
    s->list_count = 0;
}

static bool same_list(const signature *a, const signature *b)
{
    return a->list_count == b->list_count &&
           (a->list_count == 0 || memcmp(a->list, b->list, a->list_count * sizeof *a->list) == 0);
}

bool signature_repeats(const signature *before, const signature *now)
{
    return before->kind == now->kind && before->dtype == now->dtype && before->op == now->op &&
           before->ndim == now->ndim && before->mapped == now->mapped &&
           before->root == now->root && before->group == now->group &&
           before->group_size == now->group_size && before->prescale == now->prescale &&
           before->postscale == now->postscale &&
           memcmp(before->shape, now->shape, now->ndim * sizeof now->shape[0]) == 0 &&
           same_list(before, now);
}

const char *signature_kind_name(uint8_t kind)
{
    static const char *const names[] = {
#define SIGNATURE_KIND_NAME(name, text) text,
        SIGNATURE_KIND_LIST(SIGNATURE_KIND_NAME)};
    return kind < SIGNATURE_KIND_COUNT ? names[kind] : "?";
}

bool signature_reduces(uint8_t kind)
{
    return kind == SIGNATURE_ALLREDUCE || kind == SIGNATURE_REDUCESCATTER ||
           kind == SIGNATURE_REDUCE;
}

bool signature_has_root(uint8_t kind)
{
    return kind == SIGNATURE_BROADCAST || kind == SIGNATURE_REDUCE || kind == SIGNATURE_GATHER ||
           kind == SIGNATURE_SCATTER;
}

bool signature_rows_differ(uint8_t kind)
{
    return kind == SIGNATURE_ALLGATHER || kind == SIGNATURE_ALLTOALL || kind == SIGNATURE_GATHER ||
           kind == SIGNATURE_SCATTER;
}

static void shape_text(const signature *s, char *text)
{
    size_t used = (size_t)snprintf(text, SHAPE_TEXT_MAX, "[");
    for (int i = 0; i < s->ndim && used < SHAPE_TEXT_MAX - 24; i++)
        used += (size_t)snprintf(text + used, SHAPE_TEXT_MAX - used, i == 0 ? "%lld" : ", %lld",
                                 (long long)s->shape[i]);
    snprintf(text + used, SHAPE_TEXT_MAX - used, "]");
}

/* "[0, 1, 5]"; a long list ends in "…". */
static void list_text(const signature *s, char *text)
{
    size_t used = (size_t)snprintf(text, SHAPE_TEXT_MAX, "[");
    for (uint32_t i = 0; i < s->list_count; i++) {
        if (used >= SHAPE_TEXT_MAX - 32) {
            used += (size_t)snprintf(text + used, SHAPE_TEXT_MAX - used, ", …");
            break;
        }
        used += (size_t)snprintf(text + used, SHAPE_TEXT_MAX - used, i == 0 ? "%lld" : ", %lld",
                                 (long long)s->list[i]);
    }
    snprintf(text + used, SHAPE_TEXT_MAX - used, "]");
}

static bool same_shape(const signature *a, const signature *b)
{
    if (a->ndim != b->ndim)
        return false;
    for (int i = signature_rows_differ(a->kind); i < a->ndim; i++) {
        if (a->shape[i] != b->shape[i])
            return false;
    }
    return true;
}

/* The first sentence is the one that users of Horovod know; the second names both sides. */
#define CONFLICT(what, said, a_value, b_value, remedy)                                             \
    status_fail(RUEDA_ERR_MISMATCH,                                                                \
                "tensor '%s': Mismatched " what ": One rank " said ", but another rank " said      \
                ". These are rank %d and rank %d; " remedy,                                        \
                name, a_value, b_value, a_rank, b_rank)

static rueda_status shape_conflict(const char *name, const signature *a, int a_rank,
                                   const signature *b, int b_rank)
{
    char a_text[SHAPE_TEXT_MAX], b_text[SHAPE_TEXT_MAX];
    shape_text(a, a_text);
    shape_text(b, b_text);
    return status_fail(
        RUEDA_ERR_MISMATCH,
        "tensor '%s': Mismatched %s tensor shapes: One rank sent a tensor of shape %s, but another "
        "rank sent a tensor of shape %s. These are rank %d and rank %d; %s",
        name, signature_kind_name(a->kind), a_text, b_text, a_rank, b_rank,
        signature_rows_differ(a->kind) ? "only the first dimension may differ"
                                       : "submit the same shape on all ranks");
}

static rueda_status reduction_conflict(const char *name, const signature *a, int a_rank,
                                       const signature *b, int b_rank)
{
    if (a->op != b->op)
        return CONFLICT("reduction operation", "specified %s", rueda_op_name((rueda_op)a->op),
                        rueda_op_name((rueda_op)b->op), "use one operation on all ranks");
    if (a->prescale != b->prescale || a->postscale != b->postscale)
        return status_fail(
            RUEDA_ERR_MISMATCH,
            "tensor '%s': Mismatched prescale and/or postscale factors: One rank sent factors of "
            "%g / %g, but another rank sent factors of %g / %g. These are rank %d and rank %d; use "
            "the same on all ranks",
            name, a->prescale, a->postscale, b->prescale, b->postscale, a_rank, b_rank);
    return RUEDA_OK;
}

static rueda_status set_conflict(const char *name, const signature *a, int a_rank,
                                 const signature *b, int b_rank)
{
    if (a->kind == SIGNATURE_REMOVE_SET && a->root != b->root)
        return CONFLICT("process sets to remove", "named set %d", a->root, b->root,
                        "remove the same set");
    if (a->kind != SIGNATURE_ADD_SET || same_list(a, b))
        return RUEDA_OK;
    char a_text[SHAPE_TEXT_MAX], b_text[SHAPE_TEXT_MAX];
    list_text(a, a_text);
    list_text(b, b_text);
    return CONFLICT("process sets to add", "named the ranks %s", a_text, b_text,
                    "all ranks of the job must add the same sets in the same order");
}

rueda_status signature_conflict(const char *name, const signature *a, int a_rank,
                                const signature *b, int b_rank)
{
    if (a->kind != b->kind)
        return CONFLICT("operations", "did an %s", signature_kind_name(a->kind),
                        signature_kind_name(b->kind), "give different operations different names");
    if (a->dtype != b->dtype)
        return CONFLICT("data types", "had type %s", rueda_dtype_name((rueda_dtype)a->dtype),
                        rueda_dtype_name((rueda_dtype)b->dtype),
                        "submit the same type on all ranks");
    if (!same_shape(a, b))
        return shape_conflict(name, a, a_rank, b, b_rank);
    if (signature_has_root(a->kind) && a->root != b->root)
        return status_fail(
            RUEDA_ERR_MISMATCH,
            "tensor '%s': Mismatched %s root ranks: One rank specified root rank %d, "
            "but another rank specified root rank %d. These are rank %d and rank %d; "
            "name one root on all ranks",
            name, signature_kind_name(a->kind), a->root, b->root, a_rank, b_rank);
    if (a->group_size != b->group_size)
        return CONFLICT("groups", "had it in a group of %u", a->group_size, b->group_size,
                        "group the same tensors on all ranks");
    if (a->group != b->group)
        return status_fail(
            RUEDA_ERR_MISMATCH,
            "tensor '%s': Mismatched groups: rank %d and rank %d had it in groups of "
            "%u, but not with the same other tensors; group the same tensors on all "
            "ranks",
            name, a_rank, b_rank, a->group_size);
    const rueda_status status = reduction_conflict(name, a, a_rank, b, b_rank);
    return status != RUEDA_OK ? status : set_conflict(name, a, a_rank, b, b_rank);
}

/* The wire form: this head, the shape, the list, the name; padded to 8 bytes. */
typedef struct wire_head {
    uint32_t bytes, name_length;
    uint8_t kind, dtype, op, ndim, mapped, zero[3];
    int32_t root, priority;
    uint32_t group_size, list_count;
    uint64_t group;
    double prescale, postscale;
} wire_head;

static size_t wire_bytes(size_t ndim, size_t list_count, size_t name_length)
{
    return (sizeof(wire_head) + (ndim + list_count) * sizeof(int64_t) + name_length + 7) / 8 * 8;
}

size_t signature_encoded_bytes(const signature *s, size_t name_length)
{
    return wire_bytes(s->ndim, s->list_count, name_length);
}

void signature_encode(const signature *s, const char *name, size_t name_length, uint8_t *to)
{
    const wire_head head = {.bytes = (uint32_t)signature_encoded_bytes(s, name_length),
                            .name_length = (uint32_t)name_length,
                            .kind = s->kind,
                            .dtype = s->dtype,
                            .op = s->op,
                            .ndim = s->ndim,
                            .mapped = s->mapped,
                            .root = s->root,
                            .priority = s->priority,
                            .group_size = s->group_size,
                            .list_count = s->list_count,
                            .group = s->group,
                            .prescale = s->prescale,
                            .postscale = s->postscale};
    uint8_t *end = to + head.bytes;
    memcpy(to, &head, sizeof head);
    to += sizeof head;
    memcpy(to, s->shape, s->ndim * sizeof(int64_t));
    to += s->ndim * sizeof(int64_t);
    if (s->list_count > 0)
        memcpy(to, s->list, s->list_count * sizeof(int64_t));
    to += s->list_count * sizeof(int64_t);
    memcpy(to, name, name_length);
    to += name_length;
    memset(to, 0, (size_t)(end - to)); /* what lay there before goes to no other rank */
}

static bool head_is_sound(const wire_head *head, size_t bytes)
{
    return head->bytes <= bytes && head->kind < SIGNATURE_KIND_COUNT &&
           head->dtype < RUEDA_DTYPE_COUNT && head->op < RUEDA_OP_COUNT &&
           head->ndim <= RUEDA_MAX_DIMS && head->name_length <= RUEDA_MAX_NAME &&
           head->list_count <= bytes / sizeof(int64_t) &&
           wire_bytes(head->ndim, head->list_count, head->name_length) == head->bytes;
}

/* No extent is negative, and the number of bytes can be counted. */
static bool shape_is_sound(const signature *s)
{
    uint64_t elements = rueda_dtype_bytes((rueda_dtype)s->dtype);
    for (uint8_t i = 0; i < s->ndim; i++) {
        if (s->shape[i] < 0 || __builtin_mul_overflow(elements, (uint64_t)s->shape[i], &elements))
            return false;
    }
    for (uint32_t i = 0; i < s->list_count; i++) {
        if (s->list[i] < 0)
            return false;
    }
    return elements <= INT64_MAX;
}

static rueda_status damaged(void)
{
    return status_fail(RUEDA_ERR_INTERNAL, "the description of a tensor is damaged");
}

rueda_status signature_decode(signature *s, const char **name, size_t *name_length,
                              const uint8_t *from, size_t bytes, size_t *taken)
{
    wire_head head;
    if (bytes < sizeof head)
        return damaged();
    memcpy(&head, from, sizeof head);
    if (!head_is_sound(&head, bytes))
        return damaged();
    *s = (signature){.kind = head.kind,
                     .dtype = head.dtype,
                     .op = head.op,
                     .ndim = head.ndim,
                     .mapped = head.mapped != 0,
                     .root = head.root,
                     .priority = head.priority,
                     .group_size = head.group_size,
                     .group = head.group,
                     .prescale = head.prescale,
                     .postscale = head.postscale};
    from += sizeof head;
    memcpy(s->shape, from, head.ndim * sizeof(int64_t));
    from += head.ndim * sizeof(int64_t);
    if (head.list_count > 0) {
        s->list = malloc(head.list_count * sizeof *s->list);
        if (s->list == NULL)
            return status_fail(RUEDA_ERR_MEMORY, "out of memory for the description of a tensor");
        memcpy(s->list, from, head.list_count * sizeof *s->list);
        s->list_count = head.list_count;
    }
    if (!shape_is_sound(s)) {
        signature_fini(s);
        return damaged();
    }
    *name = (const char *)from + head.list_count * sizeof(int64_t);
    *name_length = head.name_length;
    *taken = head.bytes;
    return RUEDA_OK;
}
