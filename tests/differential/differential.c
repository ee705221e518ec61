/* differential.c: what the verifier accepts gives the same bits by exec as by the oracle.
 *
 *     differential CASES SEED     so many runs; a case is one sequence of accepted plans on one channel
 *     differential 1 SEED         one again, as the message of a failure says
 *
 * Plans come from the algorithms, from authors that roll dice and from damage to both. What the verifier
 * refuses is left out. The rest is run by exec itself, all ranks in one process, some steps at a time, and
 * must give what the oracle gets for the same plans, and what the collective promises. A failure here is a
 * bug in the verifier or in exec: its seed is kept in KEPT. */
#include "cases.h"

#include "plan/print.h"

#include <stdio.h>
#include <stdlib.h>

/* Seeds that once showed a bug; they come first. 24: an alltoall in the callers' memory looked for a peer's
 * chunks where its own begin, and the splits differed. 7827: a COLL gave what was not in the place where the
 * others get it. 1034889: a COLL of several tensors was not of WORK. Messages of nothing in a plan with data were as long as the first chunk (any seed with a
 * barrier after data). */
static const uint64_t KEPT[] = {24, 7827, 1034889};

static struct counts {
    unsigned long runs[ORIGIN_COUNT], refused[ORIGIN_COUNT], proofs;
    unsigned long unlike;       /* of those that were run: other steps than any algorithm's */
    unsigned long alone, stuck; /* of plans that are self-finishing; of those that are not */
} counts;

static oracle runner, healthy;

/* ---- One plan -------------------------------------------------------------------------------- */

/* The healthy plans of the same tree, since Adasum's result cannot be told from the inputs alone. */
static bool run_healthy(const model_operation *o, const oracle_space *space)
{
    team t;
    plan_layout layout = o->team.plans[0]->layout;
    healthy.space = space;
    healthy.plain_leaves = true;
    if (!layout.adasum)
        return true;
    const bool built = team_build(&t, PLAN_ALLREDUCE, PLAN_ALGORITHM_ADASUM, layout);
    const bool ran = built && oracle_run(&healthy, &t, o->cut.largest, false, 1);
    if (built)
        team_free(&t);
    return ran;
}

/* Elements of an output chunk that the rank gets. */
static uint32_t promised(const model_operation *o, unsigned r, uint32_t c)
{
    return oracle_promises(o->team.plans[0], r) ? o->cut.out[r][c] : 0;
}

static bool same_bits(const model_operation *o)
{
    for (unsigned r = 0; r < o->team.ranks; r++)
        for (uint32_t c = 0; c < oracle_out_chunks(o->team.plans[0]); c++)
            for (uint32_t i = 0; i < promised(o, r, c); i++)
                if (o->results[r][c][i] != runner.ranks[r].result[c][i].mix)
                    return false;
    return true;
}

/* Of chunks that are shorter on some rank, only what there is. */
static bool all_right(const model_operation *o)
{
    for (unsigned r = 0; r < o->team.ranks; r++)
        for (uint32_t c = 0; c < oracle_out_chunks(o->team.plans[0]); c++)
            for (uint32_t i = 0; i < promised(o, r, c); i++)
                if (!oracle_is_right(&runner, &healthy, r, c, i))
                    return false;
    return true;
}

/* NULL, or what is wrong with the results of an operation. */
static const char *judge(const model_operation *o, uint64_t seed)
{
    oracle_space space;
    const bool data = o->team.plans[0]->collective != PLAN_BARRIER;
    case_space(o, &space);
    runner.space = oracle_may_be_in_place(o->team.plans[0]) ? &space : NULL;
    runner.plain_leaves = true;
    if (!oracle_run(&runner, &o->team, data ? o->cut.largest : 1, o->cut.in_place, seed))
        return "the oracle's run of an accepted plan does not end well";
    if (!run_healthy(o, &space))
        return "the oracle cannot run Adasum's own plan";
    if (data && !all_right(o))
        return "an accepted plan does not give what its collective promises, says the oracle";
    return data && !same_bits(o) ? "exec and the oracle disagree" : NULL;
}

/* ---- What it shows beyond the algorithms' own plans ------------------------------------------ */

/* By the words of their steps: fields that a step does not read make no difference. */
static bool same_steps(const plan *a, const plan *b)
{
    char text_a[PLAN_STEP_TEXT], text_b[PLAN_STEP_TEXT];
    if (a->step_count != b->step_count || a->phase_count != b->phase_count ||
        a->entry_count != b->entry_count)
        return false;
    for (uint32_t i = 0; i < a->phase_count; i++)
        if (a->phases[i].count != b->phases[i].count || a->phases[i].depth != b->phases[i].depth ||
            a->phases[i].cells != b->phases[i].cells || a->phases[i].once != b->phases[i].once)
            return false;
    for (uint32_t i = 0; i < a->step_count; i++) {
        plan_describe_step(a, &a->steps[i], text_a);
        plan_describe_step(b, &b->steps[i], text_b);
        if (a->steps[i].stage != b->steps[i].stage || strcmp(text_a, text_b) != 0)
            return false;
    }
    return true;
}

static bool same_plans(const team *a, const team *b)
{
    for (unsigned r = 0; r < a->ranks; r++)
        if (!same_steps(a->plans[r], b->plans[r]))
            return false;
    return true;
}

/* Damage may leave a plan as it was, or make that of another algorithm of it; dice may as well. */
static bool is_unlike_all(const team *t)
{
    for (int a = 1; a < PLAN_ALGORITHM_COUNT; a++) {
        team other;
        if (!team_build(&other, t->plans[0]->collective, (plan_algorithm)a, t->plans[0]->layout))
            continue;
        const bool same = same_plans(t, &other);
        team_free(&other);
        if (same)
            return false;
    }
    return true;
}

/* ---- One case -------------------------------------------------------------------------------- */

/* The next accepted plans for these ranks. */
static bool find_accepted(dice *d, const place_of_ranks *place, model_operation *o, origin *from,
                          plan_verdict *verdict)
{
    if (!case_make(d, place, o, from))
        return false;
    *verdict = plan_verify(o->team.plans);
    counts.proofs++;
    if (verdict->failed == PLAN_CHECK_OK)
        return true;
    counts.refused[*from]++;
    if (*from != DAMAGED) {
        print_verdict(&o->team, verdict);
        abort(); /* an author has made a mistake */
    }
    team_free(&o->team);
    return false;
}

static const char *run_case(model *w, uint64_t seed, bool tells)
{
    static model_operation operations[MODEL_SEQUENCE];
    static const char *const ENDS[] = {NULL, "exec waits for ever", "exec refuses"};
    dice d = dice_of(seed);
    const place_of_ranks place = roll_place(&d);
    const unsigned count = 1 + roll_dice(&d, MODEL_SEQUENCE);
    plan_verdict verdict = {0};
    for (unsigned i = 0; i < count; i++) {
        origin from;
        while (!find_accepted(&d, &place, &operations[i], &from, &verdict))
            ;
        counts.runs[from]++;
        counts.unlike += from != FROM_ALGORITHM && is_unlike_all(&operations[i].team);
    }
    bool alone = true;
    const model_end end = model_run(w, operations, count, count == 1 ? &alone : NULL, seed);
    const char *wrong = ENDS[end];
    if (end == MODEL_FAILED)
        fprintf(stderr, "%s\n", status_text());
    if (count == 1 && wrong == NULL) {
        counts.alone += verdict.self_finishing;
        counts.stuck += !verdict.self_finishing && !alone;
        wrong = verdict.self_finishing && !alone ? "a self-finishing plan does not finish" : NULL;
    }
    for (unsigned i = 0; i < count; i++) {
        const char *found = wrong == NULL ? judge(&operations[i], seed + i) : NULL;
        if (found != NULL)
            fprintf(stderr, "operation %u of %u:\n", i + 1, count);
        wrong = wrong != NULL ? wrong : found;
        for (unsigned r = 0; tells && r < operations[i].team.ranks; r++)
            plan_print(operations[i].team.plans[r], stderr);
        team_free(&operations[i].team);
    }
    return wrong;
}

static bool try_case(model *w, uint64_t seed, bool tells)
{
    const char *wrong = run_case(w, seed, tells);
    if (wrong != NULL)
        fprintf(stderr, "seed %llu: %s; run: differential 1 %llu\n", (unsigned long long)seed,
                wrong, (unsigned long long)seed);
    return wrong == NULL;
}

static unsigned long all_runs(void)
{
    return counts.runs[FROM_ALGORITHM] + counts.runs[FROM_DICE] + counts.runs[DAMAGED];
}

int main(int argc, char **argv)
{
    const unsigned long wanted = argc > 1 ? strtoul(argv[1], NULL, 10) : 1000;
    const uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    model *w = model_open();
    if (w == NULL) {
        fprintf(stderr, "no model: %s\n", status_text());
        return 1;
    }
    bool good = true;
    for (size_t i = 0; i < sizeof KEPT / sizeof *KEPT && good; i++)
        good = try_case(w, KEPT[i], false);
    counts = (struct counts){0};
    for (uint64_t seed = first; all_runs() < wanted && good; seed++)
        good = try_case(w, seed, wanted == 1);
    printf(
        "%lu plans run by exec and the oracle: %lu of algorithms, %lu of dice, %lu damaged ones that "
        "are right\n",
        all_runs(), counts.runs[FROM_ALGORITHM], counts.runs[FROM_DICE], counts.runs[DAMAGED]);
    printf("%lu unlike any algorithm's; the verifier refused %lu of %lu\n", counts.unlike,
           counts.refused[DAMAGED], counts.proofs);
    printf(
        "%lu times the others of a self-finishing plan ended alone; of other plans one got stuck %lu "
        "times\n",
        counts.alone, counts.stuck);
    model_close(w);
    return good ? 0 : 1;
}
