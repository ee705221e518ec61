/* view.c: in an elastic job an engine serves one view of it. It ends when members change: because this rank has noticed
 * a loss, or because another one has, which the members' thread tells. */
#include "engine/engine.h"

#include <stdlib.h>

/* By the members' thread, where nobody else drives. */
static void drive_once(engine *e)
{
    if (!drive_try(e))
        return;
    engine_step(e, engine_now(e));
    drive_leave(e);
}

/* Whoever drives breaks everything. */
static void end_view(void *argument, int rank, const char *why)
{
    engine *e = argument;
    if (rank >= 0)
        view_fail_lost(rank, why == NULL ? RANK_ENDED : why);
    else
        status_fail(RUEDA_ERR_MEMBERS, "the members of the job change; %s", VIEW_GOES_ON);
    control_end_view(&e->control, rank, status_text());
    drive_once(e);
}

static bool has_withdrawn(void *argument)
{
    engine *e = argument;
    const uint32_t me = (uint32_t)e->who.rank;
    if (!control_has_withdrawn(&e->control, me))
        drive_once(e);
    return control_has_withdrawn(&e->control, me);
}

rueda_status view_fail_lost(int rank, const char *why)
{
    return status_fail(RUEDA_ERR_MEMBERS, "rank %d is lost: %s; %s", rank, why, VIEW_GOES_ON);
}

rueda_status view_begin(engine *e)
{
    if (e->members == NULL)
        return RUEDA_OK;
    const members_engine own = {e, end_view, has_withdrawn};
    const uint64_t space = os_process_space();
    int *pids = calloc((size_t)e->who.size, sizeof *pids);
    if (pids == NULL)
        return status_fail(RUEDA_ERR_MEMORY, "out of memory in rueda_init");
    for (int r = 0; r < e->who.size; r++) {
        const segment_rank *rank = segment_rank_at(&e->segment, (uint32_t)r);
        pids[r] = rank->process_space == space ? rank->pid : 0;
    }
    const rueda_status status = members_begin_view(e->members, &own, pids);
    free(pids);
    return status;
}

void view_end(engine *e)
{
    if (e->members != NULL)
        members_end_view(e->members);
}

void view_lose(engine *e, int rank)
{
    if (e->members != NULL && rank >= 0)
        members_report_lost(e->members, e->generation, rank);
}

void view_miss(engine *e)
{
    if (e->members != NULL)
        members_call(e->members, e->generation);
}
