/* plans.c: the plans a process set has used, built once. */
#include "engine/engine.h"

#include <stdlib.h>

struct planned {
    plan_collective collective;
    plan_algorithm algorithm;
    plan_layout layout;
    plan *plan;
    planned *next;
};

static bool same_layout(const plan_layout *a, const plan_layout *b)
{
    return a->root == b->root && a->adasum == b->adasum && a->mapped == b->mapped &&
           a->prescaled == b->prescaled && a->small == b->small;
}

/* RUEDA_VERIFY: the proof covers all ranks' plans, so all are built. */
static rueda_status prove(plan_collective collective, plan_algorithm algorithm, plan_layout layout)
{
    plan **plans = calloc(layout.ranks, sizeof(plan *));
    if (plans == NULL)
        return status_fail(RUEDA_ERR_MEMORY, "out of memory to verify a plan");
    rueda_status status = RUEDA_OK;
    for (uint16_t r = 0; r < layout.ranks && status == RUEDA_OK; r++) {
        const char *why = "";
        layout.rank = r;
        plans[r] = plan_build(collective, algorithm, &layout, &why);
        if (plans[r] == NULL)
            status = status_fail(RUEDA_ERR_INTERNAL, "no plan for rank %u: %s", r, why);
    }
    if (status == RUEDA_OK) {
        const plan_verdict v = plan_verify(plans);
        if (v.failed != PLAN_CHECK_OK)
            status =
                status_fail(RUEDA_ERR_INTERNAL,
                            "the plan %s by %s for %u ranks is wrong: %s, rank %u, step %u: %s",
                            plan_collective_name(collective), plan_algorithm_name(algorithm),
                            layout.ranks, plan_check_name(v.failed), v.rank, v.step, v.text);
    }
    for (uint16_t r = 0; r < layout.ranks; r++)
        plan_free(plans[r]);
    free(plans);
    return status;
}

/* What plan_build cannot see: equal splits, and that a sum is wanted where Adasum is forced. */
static bool may_be_forced(plan_algorithm forced, const plan_choice *choice)
{
    if (forced == PLAN_ALGORITHM_BRUCK && choice->collective == PLAN_ALLTOALL)
        return choice->equal_parts;
    return forced != PLAN_ALGORITHM_AUTO && (forced != PLAN_ALGORITHM_ADASUM || choice->adasum);
}

/* The table's answer, unless another algorithm is forced; `small` is for the table's own. */
static plan_algorithm choose(const engine *e, const plan_choice *choice, bool *small)
{
    const plan_algorithm selected = plan_select(choice, small);
    if (!may_be_forced(e->forced, choice) || e->forced == selected)
        return selected;
    *small = false;
    return e->forced;
}

/* A forced algorithm that does not serve this collective gives way to the table's choice. */
static plan *build(plan_collective collective, plan_algorithm *algorithm, const plan_choice *choice,
                   plan_layout *layout)
{
    const char *why = NULL;
    plan *built = plan_build(collective, *algorithm, layout, &why);
    if (built == NULL) {
        *algorithm = plan_select(choice, &layout->small);
        built = plan_build(collective, *algorithm, layout, &why);
    }
    if (built == NULL)
        status_fail(RUEDA_ERR_INTERNAL, "no plan for %s: %s", plan_collective_name(collective),
                    why == NULL ? "out of memory" : why);
    return built;
}

rueda_status plans_get(engine *e, process_set *s, plan_collective collective,
                       const plan_choice *choice, plan_layout layout, const plan **found)
{
    const plan_algorithm wanted = choose(e, choice, &layout.small);
    for (planned *p = s->plans; p != NULL; p = p->next) {
        if (p->collective == collective && p->algorithm == wanted &&
            same_layout(&p->layout, &layout))
            return *found = p->plan, RUEDA_OK;
    }
    planned *made = malloc(sizeof *made);
    if (made == NULL)
        return status_fail(RUEDA_ERR_MEMORY, "out of memory for a plan");
    plan_algorithm used = wanted;
    plan_layout used_layout = layout;
    plan *built = build(collective, &used, choice, &used_layout);
    rueda_status status = built == NULL ? RUEDA_ERR_INTERNAL : RUEDA_OK;
    if (status == RUEDA_OK && e->settings.verify)
        status = prove(collective, used, used_layout);
    if (status != RUEDA_OK) {
        plan_free(built);
        free(made);
        return status;
    }
    *made = (planned){collective, wanted, layout, built, s->plans};
    s->plans = made;
    *found = built;
    return RUEDA_OK;
}

void plans_free(process_set *s)
{
    for (planned *p = s->plans, *next; p != NULL; p = next) {
        next = p->next;
        plan_free(p->plan);
        free(p);
    }
    s->plans = NULL;
}
