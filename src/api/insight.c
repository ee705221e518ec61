/* insight.c: statistics, orthogonality and the timeline. */
#include "api/context.h"

#include <math.h>
#include <string.h>

/* Squared norms of the last Adasum of one tensor, or of all. Returns whether there was any. */
static bool sum_norms(engine *e, const char *name, double *combined, double *leaves)
{
    bool any = false;
    *combined = *leaves = 0;
    pthread_mutex_lock(&e->sets_lock);
    for (int32_t i = 0; i < RUEDA_MAX_SETS; i++) {
        process_set *s = &e->sets[i];
        if (!s->exists || !s->member)
            continue;
        pthread_mutex_lock(&s->queue.lock);
        for (size_t b = 0; b < s->queue.bucket_count; b++) {
            for (const record *r = s->queue.buckets[b]; r != NULL; r = r->chain) {
                if (!r->has_norms || (name != NULL && strcmp(r->name, name) != 0))
                    continue;
                any = true;
                *combined += r->combined;
                *leaves += r->leaves;
            }
        }
        pthread_mutex_unlock(&s->queue.lock);
    }
    pthread_mutex_unlock(&e->sets_lock);
    return any;
}

rueda_status rueda_orthogonality(const char *name, double *value)
{
    engine *e = context_engine("rueda_orthogonality");
    if (e == NULL)
        return RUEDA_ERR_STATE;
    double combined, leaves;
    if (value == NULL || !sum_norms(e, name, &combined, &leaves))
        return status_fail(RUEDA_ERR_ARGUMENT,
                           "rueda_orthogonality: no Adasum of '%s' has ended yet, or value is NULL",
                           name == NULL ? "any tensor" : name);
    /* vectors that are all zero are as orthogonal as any */
    *value = leaves == 0 ? 1.0 : combined / leaves;
    return RUEDA_OK;
}

rueda_status rueda_get_stats(rueda_stats *stats)
{
    engine *e = context_engine("rueda_get_stats");
    if (e == NULL)
        return RUEDA_ERR_STATE;
    if (stats == NULL || stats->struct_size == 0)
        return status_fail(RUEDA_ERR_ARGUMENT, "rueda_get_stats: set stats->struct_size first");
    rueda_stats now = {.struct_size = stats->struct_size,
                       .operations = atomic_load(&e->counters.operations),
                       .launches = atomic_load(&e->counters.launches),
                       .bytes = atomic_load(&e->counters.bytes),
                       .sleeps = atomic_load(&e->counters.sleeps),
                       .orthogonality = NAN};
    pthread_mutex_lock(&e->sets_lock);
    for (int32_t i = 0; i < RUEDA_MAX_SETS; i++) {
        process_set *s = &e->sets[i];
        if (!s->exists || !s->member)
            continue;
        now.rounds += atomic_load(&s->negotiation.rounds);
        now.control_messages += atomic_load(&s->negotiation.messages);
        now.announcements += atomic_load(&s->negotiation.announcements);
    }
    pthread_mutex_unlock(&e->sets_lock);
    double combined, leaves;
    if (sum_norms(e, NULL, &combined, &leaves))
        now.orthogonality = leaves == 0 ? 1.0 : combined / leaves;
    memcpy(stats, &now, stats->struct_size < sizeof now ? stats->struct_size : sizeof now);
    return RUEDA_OK;
}

rueda_status rueda_timeline_start(const char *path, int mark_cycles)
{
    engine *e = context_engine("rueda_timeline_start");
    if (e == NULL)
        return RUEDA_ERR_STATE;
    if (path == NULL)
        return status_fail(RUEDA_ERR_ARGUMENT, "rueda_timeline_start: path is NULL");
    return witness_timeline_start(e, path, mark_cycles != 0);
}

rueda_status rueda_timeline_stop(void)
{
    engine *e = context_engine("rueda_timeline_stop");
    return e == NULL ? RUEDA_ERR_STATE : timeline_stop(&e->timeline);
}

const char *rueda_transport(void)
{
    const engine *e = context_peek();
    return e == NULL ? "" : e->transport->name;
}
