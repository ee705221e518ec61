/* linger.c: in a broken job, operations on memory that peers can reach end only when no peer can touch it
 * any more: a request that has ended gives its memory back to the caller.
 *
 * A rank that knows of the end touches no memory of others from then on, and says so at once
 * (engine_break). Who is dead need not say it. Who does neither for a while is stopped, or very slow:
 * our pages are then put out of its reach, and it writes to the old ones, which nobody reads.
 */
#include "engine/engine.h"

#include <stdlib.h>

#define LINGER_LIMIT_NS UINT64_C(1000000000)

/* Before an operation has begun here, peers do not know our addresses. */
bool linger_is_needed(const operation *o)
{
    const plan *p = o->exec.bound.plan;
    return o->exec.entered && (p->reached_in || p->reached_out);
}

static bool is_free(const engine *e, const operation *o)
{
    for (uint16_t i = 0; i < o->set->size; i++) {
        if (i != o->set->index && !control_has_withdrawn(&e->control, o->set->ranks[i]))
            return false;
    }
    return true;
}

/* Those that are free, or all. */
static bool end_some(engine *e, bool all)
{
    const uint32_t before = e->lingering;
    for (int32_t i = 0; i < e->set_limit; i++) {
        for (int l = 0; l < LANE_COUNT; l++) {
            operation_list *list = &e->sets[i].flight[l];
            for (operation **link = &list->first; *link != NULL;) {
                if (!all && !is_free(e, *link)) {
                    link = &(*link)->next;
                    continue;
                }
                operation_finish(e, operation_remove(list, link), e->broken, e->broken_text);
                RUEDA_ASSERT(e->lingering > 0);
                e->lingering--;
            }
        }
    }
    return e->lingering < before;
}

bool linger_release(engine *e)
{
    return end_some(e, false);
}

static size_t count_tensors(const engine *e)
{
    size_t count = 0;
    for (int32_t i = 0; i < e->set_limit; i++) {
        for (int l = 0; l < LANE_COUNT; l++) {
            for (const operation *o = e->sets[i].flight[l].first; o != NULL; o = o->next)
                count += o->count;
        }
    }
    return count;
}

/* What the plan lets peers reach: it never writes inputs, and outputs that it lets them write are as long. */
static size_t list_ranges(const operation *o, heap_range *ranges)
{
    const plan *p = o->exec.bound.plan;
    for (uint32_t i = 0; i < o->count; i++) {
        const exec_tensor *t = &o->tensors[i];
        const uint64_t bytes = t->count * o->exec.element;
        ranges[2 * i] = (heap_range){t->in, p->reached_in ? bytes : 0};
        ranges[2 * i + 1] = (heap_range){t->out, p->reached_out ? bytes : 0};
    }
    return 2 * (size_t)o->count;
}

static rueda_status detach(engine *e)
{
    size_t used = 0;
    heap_range *ranges = malloc((2 * count_tensors(e) + 1) * sizeof *ranges);
    if (ranges == NULL)
        return status_fail(RUEDA_ERR_MEMORY, "out of memory");
    for (int32_t i = 0; i < e->set_limit; i++) {
        for (int l = 0; l < LANE_COUNT; l++) {
            for (const operation *o = e->sets[i].flight[l].first; o != NULL; o = o->next)
                used += list_ranges(o, ranges + used);
        }
    }
    const rueda_status status = heap_detach(e->heap, ranges, used);
    free(ranges);
    return status;
}

/* If even that is not possible, the requests stay pending as long as the peer can write. */
static void lose_patience(engine *e)
{
    if (detach(e) == RUEDA_OK) {
        end_some(e, true);
        return;
    }
    log_line(
        &e->log, LOG_WARN,
        "requests on memory of rueda_alloc stay pending until all ranks of this host have gone: "
        "%s",
        status_text());
    e->linger_until_ns = UINT64_MAX;
}

void linger_watch(engine *e, uint64_t now)
{
    if (e->lingering == 0)
        return;
    if (e->linger_until_ns == 0)
        e->linger_until_ns = now + LINGER_LIMIT_NS;
    for (int r = 0; r < e->who.size; r++) {
        if (world_process_dead(e->process_fds[r]))
            control_withdraw(&e->control, (uint32_t)r);
    }
    if (!linger_release(e) && now >= e->linger_until_ns)
        lose_patience(e);
}

/* The memory stays its users', and the job that goes may be followed by another: peers get the same time to let
 * go of it as ever. */
void linger_end(engine *e)
{
    for (uint64_t now; e->lingering > 0 && e->linger_until_ns != UINT64_MAX; world_yield()) {
        now = world_now_ns();
        linger_watch(e, now);
    }
    end_some(e, true);
}
