/* operation.c: life of an operation, and what its end means for requests and statistics. */
#include "base/zero_alloc.h"
#include "engine/engine.h"

#include <stdlib.h>

operation *operation_new(uint32_t count, uint32_t chunks)
{
    /* one block for the operation and its arrays */
    const size_t entries = count * sizeof(entry *), tensors = count * sizeof(exec_tensor);
    operation *o = zero_alloc(sizeof *o + entries + tensors + 2 * chunks * sizeof(exec_extent));
    if (o == NULL)
        return NULL;
    o->tensors = (exec_tensor *)(o + 1);
    o->extents = (exec_extent *)(o->tensors + count);
    o->entries = (entry **)(o->extents + 2 * chunks);
    o->count = count;
    return o;
}

void operation_free(operation *o)
{
    exec_fini(&o->exec);
    free(o->neutral);
    free(o);
}

void operation_append(operation_list *list, operation *o)
{
    if (list->end == NULL)
        list->end = &list->first;
    o->next = NULL;
    *list->end = o;
    list->end = &o->next;
    list->count++;
}

operation *operation_remove(operation_list *list, operation **link)
{
    operation *o = *link;
    RUEDA_ASSERT(o != NULL && list->count > 0);
    *link = o->next;
    if (list->end == &o->next)
        list->end = link;
    list->count--;
    return o;
}

/* Guarded by the queue's lock, for rueda_orthogonality. */
static void note_norms(const operation *o)
{
    if (o->exec.norms == NULL)
        return;
    world_lock_take(&o->set->queue.lock);
    for (uint32_t i = 0; i < o->count; i++) {
        if (o->entries[i] == NULL)
            continue;
        const exec_norms *n = &o->exec.norms[i];
        o->entries[i]->record->norms = (record_norms){true, n->combined, n->leaves, n->counted};
    }
    world_lock_release(&o->set->queue.lock);
}

static void end_entry(process_set *s, entry *ended, rueda_status status, const char *text)
{
    record *r = ended->record;
    request_end(ended->request, status, text);
    entry_free(ended);
    if (r->cache.bit < 0)
        negotiation_settle(&s->negotiation, r);
}

void engine_end_entry(engine *e, process_set *s, entry *ended, rueda_status status,
                      const char *text)
{
    queue_finish(&s->queue, ended);
    end_entry(s, ended, status, text);
    atomic_fetch_sub(&e->outstanding, 1);
}

void operation_finish(engine *e, operation *o, rueda_status status, const char *text)
{
    notes_finished(e, o, status);
    if (status == RUEDA_OK) {
        note_norms(o);
        atomic_fetch_add_explicit(&e->counters.operations, o->count, memory_order_relaxed);
        atomic_fetch_add_explicit(&e->counters.bytes, o->bytes, memory_order_relaxed);
    }
    /* names first: whoever sees the end of a request may submit the name again */
    queue_finish_all(&o->set->queue, o->entries, o->count);
    for (uint32_t i = 0; i < o->count; i++) {
        if (o->entries[i] != NULL)
            end_entry(o->set, o->entries[i], status, text);
    }
    atomic_fetch_sub(&e->outstanding, o->count);
    operation_free(o);
    engine_tell_waiters(e);
}
