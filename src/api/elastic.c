/* elastic.c: jobs that outlive their workers: one engine after the other, each for a view of the job. */
#include "api/context.h"
#include "api/structs.h"

#include <stdlib.h>
#include <string.h>

#define SECOND_NS UINT64_C(1000000000)
#define VIEWS_OF_LIFE (UINT64_C(1) << 20)

/* A rank that begins anew must not meet others that adopt the next view of the job it has left: each life of a job has
 * numbers of its own, and they still grow. */
uint64_t elastic_next_life(uint64_t generation)
{
    return generation == 0 ? 1 : (generation / VIEWS_OF_LIFE + 1) * VIEWS_OF_LIFE + 1;
}

/* As our starter would describe the view. */
static void describe_view(const members_list *workers, uint32_t worker, config *settings)
{
    settings->elastic = 1;
    settings->rank = members_before(workers, worker);
    settings->size = settings->local_size = members_count(workers);
    settings->local_rank = settings->local_rank < 0 ? worker : settings->local_rank;
    settings->board = (config_text){""}; /* it knows the ranks of the first view alone */
}

/* Of a job that was started with so many workers; not of another one before. */
static bool has_survivors(const context *here, uint32_t worker, uint32_t workers)
{
    return worker < workers && members_has(&here->survivors, worker) &&
           members_next(&here->survivors, workers) == MEMBERS_MOST;
}

/* Who shuts down and begins anew after a loss meets those again who were left. */
rueda_status elastic_begin(context *here, config *settings)
{
    const uint32_t worker = (uint32_t)settings->rank, workers = (uint32_t)settings->size;
    const bool lost_some = has_survivors(here, worker, workers);
    if (worker >= workers)
        return RUEDA_OK; /* engine_start says what is wrong */
    engine_choose_heartbeat(settings);
    here->view.now = (members_view){elastic_next_life(here->generation),
                                    lost_some ? here->survivors : members_first(workers)};
    const uint64_t silence_ns = (uint64_t)settings->heartbeat * SECOND_NS;
    const rueda_status status =
        members_open(worker, workers, &here->view.now, silence_ns, &here->members);
    if (status == RUEDA_OK && lost_some)
        describe_view(&here->survivors, worker, settings);
    if (status != RUEDA_OK || members_before(&here->view.now.workers, worker) > 0)
        return status;
    return members_make_roster(here->members);
}

void elastic_end(context *here)
{
    members_close(here->members);
    free(here->view.lost);
    here->members = NULL;
    here->view = (context_view){.lost = NULL};
}

/* ---- The next view ------------------------------------------------------------------------------- */

/* While a view begins: another one follows it already, or the caller gives up. */
static int is_over(void *argument)
{
    const context *here = argument;
    return members_is_decided(here->members) ||
           (here->interrupted != NULL && here->interrupted(here->interrupted_argument) != 0);
}

static rueda_status start_view(context *here)
{
    const rueda_init_options options = {
        .struct_size = sizeof options, .interrupted = is_over, .interrupted_argument = here};
    config settings;
    rueda_status status = config_load(&settings, NULL);
    if (status != RUEDA_OK)
        return status;
    here->survivors = here->view.now.workers;
    describe_view(&here->survivors, members_worker(here->members), &settings);
    status = context_start_engine(here, &settings, &options, here->view.now.number);
    explicit_bzero(&settings.key, sizeof settings.key);
    return status;
}

/* A view did not begin because of other ranks, which have died, left, or know already of yet another view: there will be
 * one soon. */
static bool is_followed(const context *here, rueda_status status)
{
    return status == RUEDA_ERR_MEMBERS || members_is_decided(here->members) ||
           (here->others_failed && members_await(here->members));
}

/* Until a view has begun: members may be lost while it does. */
static rueda_status adopt_next(context *here)
{
    rueda_status status;
    do {
        status = members_adopt(here->members, here->interrupted, here->interrupted_argument,
                               &here->view.now);
        if (context_peek(here) != NULL)
            context_stop_engine(here);
        if (status != RUEDA_OK)
            return status;
        status = start_view(here);
    } while (status != RUEDA_OK && is_followed(here, status));
    return status;
}

/* The ranks of the view before that are not in this one. */
static rueda_status note_lost(context_view *v, const members_list *before)
{
    const members_list gone = members_without(before, &v->now.workers);
    int32_t *lost = malloc((members_count(&gone) + 1) * sizeof *lost), rank = 0, count = 0;
    if (lost == NULL)
        return status_fail(RUEDA_ERR_MEMORY, "rueda_members_update: out of memory");
    MEMBERS_EACH(worker, before)
    {
        if (members_has(&gone, worker))
            lost[count++] = rank;
        rank++;
    }
    free(v->lost);
    v->lost = lost;
    v->lost_count = count;
    return RUEDA_OK;
}

/* OK: members change, or nothing has happened; else what the job has ended with. */
static rueda_status check_change(const context *here, bool *changes)
{
    const control *c = &here->engine->control;
    int rank;
    *changes = members_is_changing(here->members) || control_has_withdrawn(c, c->rank);
    const rueda_status ended = control_is_aborted(c) ? control_aborted(c, &rank) : RUEDA_OK;
    return ended == RUEDA_ERR_MEMBERS ? RUEDA_OK : ended;
}

static rueda_status check_elastic(const context *here, const char *call)
{
    if (context_engine(here, call) == NULL)
        return RUEDA_ERR_STATE;
    if (here->members != NULL)
        return RUEDA_OK;
    return status_fail(RUEDA_ERR_STATE,
                       "%s: the job is not elastic; start it with `rueda run --min-np N`, or set "
                       "`elastic` in rueda_init_options",
                       call);
}

static rueda_status update(context *here)
{
    const members_list before = here->view.now.workers;
    bool changes;
    rueda_status status = check_change(here, &changes);
    if (status != RUEDA_OK || !changes)
        return status;
    status = adopt_next(here);
    if (status == RUEDA_OK)
        status = note_lost(&here->view, &before);
    if (status != RUEDA_OK) {
        char text[STATUS_TEXT_MAX];
        strcpy(text, status_text());
        if (context_peek(here) != NULL)
            context_shutdown(here);
        else
            elastic_end(here);
        return status_restore(status, text);
    }
    return RUEDA_OK;
}

rueda_status context_members_update(context *here, rueda_members *told)
{
    rueda_status status = check_elastic(here, "rueda_members_update");
    if (status == RUEDA_OK)
        status = update(here);
    return status == RUEDA_OK && told != NULL ? context_members_get(here, told) : status;
}

/* ---- Who is in the job ---------------------------------------------------------------------------- */

rueda_status context_members_get(const context *here, rueda_members *told)
{
    static const struct_kind kind = {"rueda_members", offsetof(rueda_members, lost_count),
                                     sizeof(rueda_members), NULL};
    const rueda_status status = check_elastic(here, "rueda_members_get");
    if (status != RUEDA_OK)
        return status;
    const rueda_members now = {.struct_size = sizeof now,
                               .view = here->view.now.number,
                               .rank = here->engine->who.rank,
                               .size = here->engine->who.size,
                               .worker = (int32_t)members_worker(here->members),
                               .lost_count = here->view.lost_count,
                               .lost_ranks = here->view.lost};
    return struct_write("rueda_members_get", &kind, &now, told);
}

int context_members_changing(const context *here)
{
    bool changes = false;
    return context_peek(here) != NULL && here->members != NULL &&
           check_change(here, &changes) == RUEDA_OK && changes;
}

/* ---- The functions of rueda.h ---------------------------------------------------------------------- */

rueda_status rueda_members_update(rueda_members *members)
{
    return context_members_update(context_of_process(), members);
}

rueda_status rueda_members_get(rueda_members *members)
{
    return context_members_get(context_of_process(), members);
}

int rueda_members_changing(void)
{
    return context_members_changing(context_of_process());
}
