/* kill_test.c: a rank dies before each step of each collective's plan, by number.
 *
 * Every request of the survivors, pending or later, ends with the same sentence on all of them, which
 * names the dead rank. What ended well before is right.
 * TEST_EVERY_STEP=1 in the environment leaves no step out; otherwise some are taken.
 * ctest: not_asan timeout=300 */
#include "survivors.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define RANKS_MOST 3 /* of a job */
#define STEPS_MOST 2000
#define FEW_STEPS 5 /* one of so many, where not all are taken */

/* A plan to be interrupted. Slots of 4 KiB: several pieces on their way at the same time. */
typedef struct subject {
    const char *algorithm;
    task task;
} subject;

#define REDUCED(elements, memory_)                                                                 \
    {                                                                                              \
        .kind = TASK_ALLREDUCE, .recipe = {RUEDA_F32, RUEDA_SUM, 1, 1, 3}, .count = (elements),    \
        .in_place = true, .memory = (memory_)                                                      \
    }
#define MOVED(kind_, count_, width_, memory_)                                                      \
    {                                                                                              \
        .kind = (kind_), .recipe = {RUEDA_F32, RUEDA_SUM, 1, 1, 4}, .count = (count_),             \
        .width = (width_), .memory = (memory_)                                                     \
    }

static const subject SUBJECTS[] = {
    {"direct", REDUCED(100, MEMORY_PRIVATE)}, /* the form for latency */
    {"direct", REDUCED(2500, MEMORY_PRIVATE)},
    {"direct", REDUCED(60000, MEMORY_SHARED)}, /* where it lies */
    {"ring", REDUCED(60000, MEMORY_PRIVATE)},
    {"doubling", REDUCED(40000, MEMORY_PRIVATE)},
    {"halving", REDUCED(60000, MEMORY_PRIVATE)},
    {"hierarchical", REDUCED(3000, MEMORY_PRIVATE)},
    {"adasum",
     {.kind = TASK_ALLREDUCE,
      .recipe = {RUEDA_F32, RUEDA_ADASUM, 1, 1, 5},
      .count = 2500,
      .in_place = true}},
    {"direct", MOVED(TASK_ALLGATHER, ROWS_EVEN, 500, MEMORY_PRIVATE)},
    {"direct", MOVED(TASK_ALLGATHER, ROWS_EVEN, 500, MEMORY_SHARED)},
    {"ring", MOVED(TASK_ALLGATHER, ROWS_EVEN, 6000, MEMORY_PRIVATE)},
    {"bruck", MOVED(TASK_ALLGATHER, ROWS_EVEN, 6000, MEMORY_PRIVATE)},
    {"direct", MOVED(TASK_BROADCAST, 2500, 1, MEMORY_PRIVATE)},
    {"direct", MOVED(TASK_BROADCAST, 2500, 1, MEMORY_SHARED)},
    {"ring", MOVED(TASK_BROADCAST, 60000, 1, MEMORY_PRIVATE)},
    {"tree", MOVED(TASK_BROADCAST, 40000, 1, MEMORY_PRIVATE)},
    {"direct", MOVED(TASK_ALLTOALL, ROWS_EVEN, 300, MEMORY_PRIVATE)},
    {"direct", MOVED(TASK_ALLTOALL, ROWS_EVEN, 300, MEMORY_SHARED)},
    {"pairwise", MOVED(TASK_ALLTOALL, ROWS_EVEN, 6000, MEMORY_PRIVATE)},
    {"bruck", MOVED(TASK_ALLTOALL, ROWS_EVEN, 6000, MEMORY_PRIVATE)},
    {"direct", MOVED(TASK_REDUCESCATTER, 2500, 1, MEMORY_PRIVATE)},
    {"ring", MOVED(TASK_REDUCESCATTER, 40000, 1, MEMORY_PRIVATE)},
    {"direct", MOVED(TASK_REDUCE, 2500, 1, MEMORY_PRIVATE)},
    {"direct", MOVED(TASK_REDUCE, 2500, 1, MEMORY_SHARED)},
    {"ring", MOVED(TASK_REDUCE, 60000, 1, MEMORY_PRIVATE)},
    {"tree", MOVED(TASK_REDUCE, 40000, 1, MEMORY_PRIVATE)},
    {"direct", MOVED(TASK_GATHER, ROWS_EVEN, 500, MEMORY_PRIVATE)},
    {"direct", MOVED(TASK_GATHER, ROWS_EVEN, 500, MEMORY_SHARED)},
    {"pairwise", MOVED(TASK_GATHER, ROWS_EVEN, 6000, MEMORY_PRIVATE)},
    {"direct", MOVED(TASK_SCATTER, ROWS_EVEN, 500, MEMORY_PRIVATE)},
    {"direct", MOVED(TASK_SCATTER, ROWS_EVEN, 500, MEMORY_SHARED)},
    {"pairwise", MOVED(TASK_SCATTER, ROWS_EVEN, 6000, MEMORY_PRIVATE)},
    {"direct", {.kind = TASK_BARRIER}},
    {"doubling", {.kind = TASK_BARRIER}},
};
#define SUBJECT_COUNT (sizeof SUBJECTS / sizeof *SUBJECTS)

/* What the ranks say of the operation, of what was pending and of what came later. */
typedef struct notes {
    saying operation[RANKS_MOST], pending[RANKS_MOST], later[RANKS_MOST];
} notes;

typedef struct trial {
    const subject *subject;
    int ranks, victim, step;
    notes *notes; /* in shared memory */
} trial;

/* ---- A rank ---------------------------------------------------------------------------------- */

static rueda_status end_task(task *t)
{
    doing("wait for %s", t->name);
    const rueda_status status = rueda_wait(t->request, -1);
    if (status == RUEDA_OK && t->recipe.op != RUEDA_ADASUM)
        task_finish(t);
    else
        task_drop(t);
    return status;
}

/* Operation 0 is the first meeting, operation 1 the one that is interrupted. "pending" can be decided
 * only when the victim has lived through that. */
static void live(int rank, int size, const void *argument)
{
    (void)size;
    const trial *t = argument;
    notes *n = t->notes;
    task task = t->subject->task;
    double value = 1;
    rueda_request *pending = NULL;
    CHECK_OK(rueda_init(NULL));
    CHECK_OK(run_one("first"));
    if (rank != t->victim)
        pending = submit_one("pending", &value);
    task_name(&task);
    task_submit(&task);
    say(&n->operation[rank], end_task(&task));
    if (rank == t->victim)
        pending = submit_one("pending", &value);
    doing("wait for what is pending");
    say(&n->pending[rank], rueda_wait(pending, -1));
    rueda_request_free(pending);
    doing("submit something later");
    say(&n->later[rank], run_one("later"));
    doing("shut down");
    CHECK_OK(rueda_shutdown());
}

/* ---- A trial --------------------------------------------------------------------------------- */

/* The operation may have ended well on some, when the victim had done its part. */
static bool check_survivors(const trial *t)
{
    char name[32];
    const notes *n = t->notes;
    const unsigned long long dead = 1ull << t->victim;
    snprintf(name, sizeof name, "rank %d is lost", t->victim);
    for (int r = 0; r < t->ranks; r++) {
        if (r != t->victim && n->operation[r].status != RUEDA_OK &&
            !all_say(n->operation, t->ranks, ~(1ull << r), RUEDA_ERR_PEER, name))
            return false;
    }
    return all_say(n->pending, t->ranks, dead, RUEDA_ERR_PEER, name) &&
           all_say(n->later, t->ranks, dead, RUEDA_ERR_PEER, name);
}

static bool check_all_live(const trial *t)
{
    return all_say(t->notes->operation, t->ranks, 0, RUEDA_OK, "") &&
           all_say(t->notes->pending, t->ranks, 0, RUEDA_OK, "") &&
           all_say(t->notes->later, t->ranks, 0, RUEDA_OK, "");
}

/* *reached: the victim died. */
static bool run_trial(const trial *t, bool *reached)
{
    char algorithm[64], fault[64];
    unsigned long long died = 0;
    snprintf(algorithm, sizeof algorithm, "RUEDA_ALGORITHM=%s", t->subject->algorithm);
    snprintf(fault, sizeof fault, "RUEDA_FAULT=kill:rank=%d:operation=1:step=%d", t->victim,
             t->step);
    const char *const environment[] = {"RUEDA_SLOT_BYTES=4096", algorithm, fault, NULL};
    const job j = {.ranks = t->ranks,
                   .body = live,
                   .argument = t,
                   .environment = environment,
                   .seconds = 20,
                   .may_die = 1u << t->victim};
    memset(t->notes, 0, sizeof *t->notes);
    const bool ran = try_job(&j, &died);
    *reached = died != 0;
    if (ran && (*reached ? check_survivors(t) : check_all_live(t)))
        return true;
    fprintf(stderr, "%s by %s: %d ranks, rank %d killed before step %d\n",
            task_kind_name(t->subject->task.kind), t->subject->algorithm, t->ranks, t->victim,
            t->step);
    return false;
}

static _Atomic int *kills; /* shared by the processes of the test */

/* All steps until the operation is over before the fault comes. */
static bool sweep(trial t, int stride)
{
    bool reached = true;
    for (t.step = (t.victim + t.ranks) % stride; reached; t.step += stride) {
        if (t.step > STEPS_MOST || !run_trial(&t, &reached))
            return false;
        atomic_fetch_add(kills, reached);
    }
    return true;
}

/* ---- Many of them ---------------------------------------------------------------------------- */

#define SWEEPS 5 /* of a subject */

/* The number of a sweep gives subject, ranks and victim. */
static void find_sweep(int number, trial *t)
{
    static const int ranks_and_victims[SWEEPS][2] = {{2, 0}, {2, 1}, {3, 0}, {3, 1}, {3, 2}};
    t->subject = &SUBJECTS[number / SWEEPS];
    t->ranks = ranks_and_victims[number % SWEEPS][0];
    t->victim = ranks_and_victims[number % SWEEPS][1];
}

/* Across hosts what is named direct runs by one of the other algorithms. */
static bool is_of_use(const trial *t)
{
    return uses_memory_only() || strcmp(t->subject->algorithm, "direct") != 0;
}

static bool run_sweep(int number)
{
    trial t;
    find_sweep(number, &t);
    if (!is_of_use(&t))
        return true;
    const bool all = getenv("TEST_EVERY_STEP") != NULL;
    t.notes = shared_take(sizeof *t.notes);
    const bool well = sweep(t, all ? 1 : FEW_STEPS);
    shared_give(t.notes, sizeof *t.notes);
    return well;
}

static void survivors_of_a_kill_at_any_step_name_the_dead(void **state)
{
    (void)state;
    kills = shared_take(sizeof *kills);
    const bool well = run_side_by_side((int)SUBJECT_COUNT * SWEEPS, run_sweep);
    print_message("%d kills\n", atomic_load(kills));
    assert_true(well);
    assert_true(atomic_load(kills) > 0);
    shared_give(kills, sizeof *kills);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(survivors_of_a_kill_at_any_step_name_the_dead),
    };
    return cmocka_run_group_tests_name("kill", tests, NULL, look_for_rest);
}
