/* sets.c: process sets. */
#include "api/context.h"

#include <stdlib.h>

static int by_value(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

static rueda_status sorted_ranks(const engine *e, const int32_t *ranks, int32_t count,
                                 int64_t *sorted)
{
    for (int32_t i = 0; i < count; i++)
        sorted[i] = ranks[i];
    qsort(sorted, (size_t)count, sizeof *sorted, by_value);
    for (int32_t i = 0; i < count; i++) {
        if (sorted[i] < 0 || sorted[i] >= e->who.size || (i > 0 && sorted[i] == sorted[i - 1]))
            return status_fail(
                RUEDA_ERR_ARGUMENT,
                "rueda_process_set_add: rank %lld is repeated or not between 0 and %d",
                (long long)sorted[i], e->who.size - 1);
    }
    return RUEDA_OK;
}

/* All ranks must take part, whatever they do else: the name makes the calls meet. */
static rueda_status change_sets(const context *here, signature_kind kind, int64_t *list,
                                uint32_t count, int32_t removed, int32_t *made, const char *call)
{
    engine *e = here->engine;
    entry *own = calloc(1, sizeof *own);
    rueda_request *r = request_new(1, -1);
    if (own == NULL || r == NULL) {
        free(own);
        free(r);
        free(list);
        return status_fail(RUEDA_ERR_MEMORY, "process sets: out of memory");
    }
    own->request = r;
    own->submitted_ns = world_now_coarse_ns();
    signature_init(&own->signature, kind, RUEDA_U8);
    own->signature.root = removed;
    own->signature.list = list;
    own->signature.list_count = count;
    const char *name = NULL;
    rueda_status status = engine_submit(e, &e->sets[RUEDA_GLOBAL_SET], &own, &name, 1, true);
    if (status != RUEDA_OK) {
        entry_free(own);
        free(r);
        return status;
    }
    status = context_wait_own(here, r, call);
    if (status == RUEDA_OK && made != NULL)
        *made = r->set;
    rueda_request_free(r);
    return status;
}

rueda_status context_add_set(const context *here, const int32_t *ranks, int32_t count, int32_t *set)
{
    engine *e = context_engine(here, "rueda_process_set_add");
    if (e == NULL)
        return RUEDA_ERR_STATE;
    if (ranks == NULL || set == NULL || count < 1 || count > e->who.size)
        return status_fail(
            RUEDA_ERR_ARGUMENT,
            "rueda_process_set_add: give between 1 and %d ranks and where to put the id",
            e->who.size);
    int64_t *sorted = malloc((size_t)count * sizeof *sorted);
    if (sorted == NULL)
        return status_fail(RUEDA_ERR_MEMORY, "rueda_process_set_add: out of memory");
    const rueda_status status = sorted_ranks(e, ranks, count, sorted);
    if (status != RUEDA_OK)
        return free(sorted), status;
    return change_sets(here, SIGNATURE_ADD_SET, sorted, (uint32_t)count, 0, set,
                       "rueda_process_set_add");
}

rueda_status rueda_process_set_add(const int32_t *ranks, int32_t count, int32_t *set)
{
    return context_add_set(context_of_process(), ranks, count, set);
}

rueda_status context_remove_set(const context *here, int32_t set)
{
    engine *e = context_engine(here, "rueda_process_set_remove");
    if (e == NULL)
        return RUEDA_ERR_STATE;
    if (set == RUEDA_GLOBAL_SET)
        return status_fail(RUEDA_ERR_ARGUMENT, "rueda_process_set_remove: the global set stays");
    return change_sets(here, SIGNATURE_REMOVE_SET, NULL, 0, set, NULL, "rueda_process_set_remove");
}

rueda_status rueda_process_set_remove(int32_t set)
{
    return context_remove_set(context_of_process(), set);
}

/* Holds sets_lock on success. */
static process_set *lock_set(engine *e, int32_t set)
{
    if (e == NULL || set < 0 || set >= SEGMENT_SETS)
        return NULL;
    world_lock_take(&e->sets_lock);
    if (e->sets[set].exists)
        return &e->sets[set];
    world_lock_release(&e->sets_lock);
    return NULL;
}

int rueda_process_set_size(int32_t set)
{
    return rueda_process_set_ranks(set, NULL, 0);
}

int rueda_process_set_rank(int32_t set)
{
    engine *e = context_peek(context_of_process());
    const process_set *s = lock_set(e, set);
    if (s == NULL)
        return -1;
    const int rank = s->member ? s->index : -1;
    world_lock_release(&e->sets_lock);
    return rank;
}

int rueda_process_set_ranks(int32_t set, int32_t *ranks, int32_t capacity)
{
    engine *e = context_peek(context_of_process());
    const process_set *s = lock_set(e, set);
    if (s == NULL)
        return -1;
    const int size = s->size;
    for (int32_t i = 0; i < size && i < capacity; i++)
        ranks[i] = s->ranks[i];
    world_lock_release(&e->sets_lock);
    return size;
}
