/* elastic.c: the life of a rank of an elastic job: step by step all members add what tells who they are; when some are
 * lost the others adopt the next view and go on from where rank 0 is.
 *
 * Invariants: of one number there is one view, and who adopts it is in it; a sum has exactly the members of the view;
 * nobody touches memory after its request has ended; whoever lives and was not stopped does all steps. */
#include "sim/job.h"

#include <stdlib.h>
#include <string.h>

#define PATTERN 0xa5
#define COMPUTE_NS UINT64_C(3000000) /* a step, at most */

typedef struct training {
    job_rank *rank;
    int64_t step;
    double *data;
} training;

static uint64_t workers_of(const job_rank *r)
{
    return r->here.view.now.workers.words[0];
}

/* ---- Memory ---------------------------------------------------------------------------------------- */

static size_t bytes_of(const training *t)
{
    return t->rank->job->trial->elements * sizeof *t->data;
}

static bool take_memory(training *t)
{
    t->data = t->rank->job->trial->shares ? context_alloc(&t->rank->here, bytes_of(t))
                                          : malloc(bytes_of(t));
    return t->data != NULL;
}

static void give_memory(training *t)
{
    if (t->rank->job->trial->shares)
        heap_free(&t->rank->here.heap, t->data);
    else
        free(t->data);
}

static void check_pattern(const training *t)
{
    const uint8_t *bytes = (const uint8_t *)t->data;
    for (size_t i = 0; i < bytes_of(t); i++) {
        if (bytes[i] != PATTERN)
            job_fail(t->rank->job, INVARIANT_MEMORY,
                     "rank %d: byte %zu was changed after its request had ended", t->rank->rank, i);
    }
}

/* ---- One step -------------------------------------------------------------------------------------- */

static void check_sum(const training *t)
{
    const double right = (double)workers_of(t->rank);
    for (uint32_t i = 0; i < t->rank->job->trial->elements; i++) {
        if (t->data[i] != right)
            job_fail(t->rank->job, INVARIANT_RESULTS,
                     "rank %d has %g at place %u after step %lld, not %g", t->rank->rank,
                     t->data[i], i, (long long)t->step, right);
    }
}

/* Every member adds a bit of its own. */
static rueda_status add(training *t)
{
    const job_rank *r = t->rank;
    const int64_t shape[] = {r->job->trial->elements};
    for (uint32_t i = 0; i < r->job->trial->elements; i++)
        t->data[i] = (double)(UINT64_C(1) << r->rank);
    const rueda_tensor tensor = RUEDA_TENSOR("workers", t->data, RUEDA_F64, 1, shape);
    const rueda_status status =
        context_allreduce(&r->here, &tensor, &RUEDA_OPTIONS(RUEDA_SUM), NULL);
    if (status == RUEDA_OK)
        check_sum(t);
    memset(t->data, PATTERN, bytes_of(t));
    return status;
}

/* ---- After a loss ---------------------------------------------------------------------------------- */

static void note_view(const job_rank *r)
{
    const uint64_t number = r->here.view.now.number, workers = workers_of(r);
    uint64_t *known = &r->job->views[number % JOB_VIEWS];
    job_tell(r->job, "rank %d is in view %llu, of workers %llx", r->rank,
             (unsigned long long)number, (unsigned long long)workers);
    if (*known != 0 && *known != workers)
        job_fail(r->job, INVARIANT_AGREEMENT, "view %llu has workers %llx and %llx",
                 (unsigned long long)number, (unsigned long long)*known,
                 (unsigned long long)workers);
    if ((workers >> r->rank & 1) == 0)
        job_fail(r->job, INVARIANT_AGREEMENT, "rank %d adopts view %llu, in which it is not",
                 r->rank, (unsigned long long)number);
    *known = workers;
}

static rueda_status follow_rank_0(training *t)
{
    const int64_t shape[] = {1};
    const rueda_tensor tensor = RUEDA_TENSOR("step", &t->step, RUEDA_I64, 1, shape);
    rueda_options options = RUEDA_OPTIONS(RUEDA_SUM);
    options.root = 0;
    return context_broadcast(&t->rank->here, &tensor, &options, NULL);
}

static rueda_status survive(training *t)
{
    rueda_status status;
    do {
        status = context_members_update(&t->rank->here, NULL);
        check_pattern(t);
        if (status != RUEDA_OK)
            return status;
        note_view(t->rank);
        status = follow_rank_0(t);
    } while (status == RUEDA_ERR_MEMBERS);
    return status;
}

/* ---- A life ---------------------------------------------------------------------------------------- */

static rueda_status train(training *t)
{
    const job *j = t->rank->job;
    rueda_status status = RUEDA_OK;
    while (status == RUEDA_OK) {
        const bool ends = t->step >= j->trial->steps;
        world_rest(sim_random(j->world, COMPUTE_NS));
        status = ends ? context_barrier(&t->rank->here, RUEDA_GLOBAL_SET, NULL) : add(t);
        if (status == RUEDA_OK && ends)
            return RUEDA_OK;
        if (status == RUEDA_OK)
            t->step++;
        else if (status == RUEDA_ERR_MEMBERS)
            status = survive(t);
    }
    return status;
}

void elastic_live(void *argument)
{
    job_rank *r = argument;
    training t = {.rank = r};
    world_rest(r->job->trial->start_ns[r->rank]);
    if (rank_join(r)) {
        r->joined_ns = sim_now(r->job->world);
        const rueda_status status = take_memory(&t) ? train(&t) : RUEDA_ERR_MEMORY;
        if (status != RUEDA_OK)
            rank_give_up(r, status);
        r->finished = status == RUEDA_OK;
    }
    if (context_peek(&r->here) != NULL)
        context_shutdown(&r->here);
    if (t.data != NULL) {
        check_pattern(&t);
        give_memory(&t);
    }
    r->ended_ns = r->left_ns = sim_now(r->job->world);
    launcher_note_end(r->job, r->rank);
}

/* ---- In the end ------------------------------------------------------------------------------------ */

/* The others may give it up, and kill it. */
static bool was_stopped(const job *j, int rank)
{
    bool stopped = false;
    for (int i = 0; i < j->trial->mishap_count; i++) {
        const mishap *m = &j->trial->mishaps[i];
        stopped |= m->kind == MISHAP_STOP && m->rank == rank && j->happenings[i].happened;
    }
    return stopped;
}

/* The first rueda_init needs all ranks. */
static bool began(const job *j)
{
    bool all = true;
    for (int r = 0; r < j->trial->ranks; r++)
        all = all && j->ranks[r].joined_ns != 0;
    return all;
}

void elastic_check(job *j)
{
    for (int r = 0; r < j->trial->ranks && began(j); r++) {
        const sim_life life = sim_process_life(j->world, j->ranks[r].process);
        if (j->killed_ns[r] != 0 || was_stopped(j, r))
            continue;
        if (life == SIM_KILLED)
            job_fail(j, INVARIANT_FINISHED,
                     "rank %d was killed by the others, and nothing had befallen it", r);
        else if (!j->ranks[r].finished)
            job_fail(j, INVARIANT_FINISHED, "rank %d did not finish: %s", r, j->ranks[r].text);
    }
}
