/* insight.c: statistics, orthogonality and the timeline. */
#include "api/context.h"
#include "api/structs.h"

#include <math.h>
#include <string.h>

/* What the last Adasums of some tensors came to. */
typedef struct adasum_norms {
    bool any;
    double combined, leaves; /* squared norms, added up */
    double worth;            /* combined, times the leaves that were not 0, added up */
    double counted;          /* the most leaves that were not 0 */
} adasum_norms;

static void add_norms(adasum_norms *n, const record_norms *r)
{
    n->any = true;
    n->combined += r->combined;
    n->leaves += r->leaves;
    n->worth += r->combined * r->counted;
    n->counted = r->counted > n->counted ? r->counted : n->counted;
}

/* Of one tensor, or of all. */
static adasum_norms sum_norms(engine *e, const char *name)
{
    adasum_norms n = {0};
    world_lock_take(&e->sets_lock);
    for (int32_t i = 0; i < e->set_limit; i++) {
        process_set *s = &e->sets[i];
        if (!s->exists || !s->member)
            continue;
        world_lock_take(&s->queue.lock);
        for (const record *r = NULL; (r = queue_next(&s->queue, r)) != NULL;) {
            if (r->norms.known && (name == NULL || strcmp(r->name, name) == 0))
                add_norms(&n, &r->norms);
        }
        world_lock_release(&s->queue.lock);
    }
    world_lock_release(&e->sets_lock);
    return n;
}

/* Vectors that are all zero are as orthogonal as any. */
static double orthogonality(const adasum_norms *n)
{
    return n->leaves == 0 ? 1.0 : n->combined / n->leaves;
}

static double workers_worth(const adasum_norms *n)
{
    return n->leaves == 0 ? n->counted : n->worth / n->leaves;
}

rueda_status context_orthogonality(const context *here, const char *name, double *value)
{
    engine *e = context_engine(here, "rueda_orthogonality");
    if (e == NULL)
        return RUEDA_ERR_STATE;
    const adasum_norms norms = sum_norms(e, name);
    if (value == NULL || !norms.any)
        return status_fail(RUEDA_ERR_ARGUMENT,
                           "rueda_orthogonality: no Adasum of '%s' has ended yet, or value is NULL",
                           name == NULL ? "any tensor" : name);
    *value = orthogonality(&norms);
    return RUEDA_OK;
}

rueda_status rueda_orthogonality(const char *name, double *value)
{
    return context_orthogonality(context_of_process(), name, value);
}

rueda_status context_get_stats(const context *here, rueda_stats *stats)
{
    engine *e = context_engine(here, "rueda_get_stats");
    if (e == NULL)
        return RUEDA_ERR_STATE;
    static const struct_kind kind = {"rueda_stats", offsetof(rueda_stats, launches),
                                     sizeof(rueda_stats), NULL};
    rueda_stats now = {.operations = atomic_load(&e->counters.operations),
                       .launches = atomic_load(&e->counters.launches),
                       .bytes = atomic_load(&e->counters.bytes),
                       .sleeps = atomic_load(&e->counters.sleeps),
                       .orthogonality = NAN,
                       .workers_worth = NAN};
    world_lock_take(&e->sets_lock);
    for (int32_t i = 0; i < e->set_limit; i++) {
        process_set *s = &e->sets[i];
        if (!s->exists || !s->member)
            continue;
        now.rounds += atomic_load(&s->negotiation.rounds);
        now.control_messages += atomic_load(&s->negotiation.messages);
        now.announcements += atomic_load(&s->negotiation.announcements);
    }
    world_lock_release(&e->sets_lock);
    const adasum_norms norms = sum_norms(e, NULL);
    if (norms.any) {
        now.orthogonality = orthogonality(&norms);
        now.workers_worth = workers_worth(&norms);
    }
    return struct_write("rueda_get_stats", &kind, &now, stats);
}

rueda_status rueda_get_stats(rueda_stats *stats)
{
    return context_get_stats(context_of_process(), stats);
}

rueda_status context_timeline_start(const context *here, const char *path, int mark_cycles)
{
    engine *e = context_engine(here, "rueda_timeline_start");
    if (e == NULL)
        return RUEDA_ERR_STATE;
    if (path == NULL)
        return status_fail(RUEDA_ERR_ARGUMENT, "rueda_timeline_start: path is NULL");
    return notes_timeline_start(e, path, mark_cycles != 0);
}

rueda_status rueda_timeline_start(const char *path, int mark_cycles)
{
    return context_timeline_start(context_of_process(), path, mark_cycles);
}

rueda_status context_timeline_stop(const context *here)
{
    engine *e = context_engine(here, "rueda_timeline_stop");
    return e == NULL ? RUEDA_ERR_STATE : timeline_stop(&e->timeline);
}

rueda_status rueda_timeline_stop(void)
{
    return context_timeline_stop(context_of_process());
}

const char *rueda_transport(void)
{
    const engine *e = context_peek(context_of_process());
    return e == NULL ? "" : e->transports.table->name;
}
