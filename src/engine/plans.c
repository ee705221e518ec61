/* plans.c: the plans a process set has used, built once. */
#include "engine/engine.h"

#include <stdlib.h>

struct planned {
    plan_collective collective;
    plan_algorithm algorithm;
    plan_layout layout;
    plan *plan; /* NULL: the algorithm does not serve this */
    planned *next;
};

static bool same_layout(const plan_layout *a, const plan_layout *b)
{
    return a->root == b->root && a->adasum == b->adasum && a->mapped == b->mapped &&
           a->prescaled == b->prescaled && a->small == b->small && a->packed == b->packed;
}

static rueda_status fail_build(uint16_t rank, const char *why)
{
    return status_fail(why == plan_no_memory ? RUEDA_ERR_MEMORY : RUEDA_ERR_INTERNAL,
                       "no plan for rank %u: %s", rank, why);
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
            status = fail_build(r, why);
    }
    if (status == RUEDA_OK) {
        const plan_verdict v = plan_verify(plans);
        if (v.failed == PLAN_CHECK_MEMORY)
            status = status_fail(RUEDA_ERR_MEMORY, "out of memory to verify a plan");
        else if (v.failed != PLAN_CHECK_OK)
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

/* What plan_build cannot see: equal splits, what the transport has, and that a sum is wanted where Adasum
 * is forced. The same on all ranks, as these facts about a plan are. */
static bool serves(const plan *p, const plan_choice *choice)
{
    return (choice->equal_parts || !p->needs_equal_parts) &&
           (choice->native || !p->uses_collectives) && p->layout.adasum == choice->adasum;
}

/* Built now and remembered, also that there is none. */
static rueda_status make(engine *e, process_set *s, const planned *wanted, planned **made)
{
    const char *why = NULL;
    planned *p = malloc(sizeof *p);
    if (p == NULL)
        return status_fail(RUEDA_ERR_MEMORY, "out of memory for a plan");
    *p = *wanted;
    p->plan = plan_build(p->collective, p->algorithm, &p->layout, &why);
    rueda_status status = RUEDA_OK;
    if (p->plan == NULL &&
        why == plan_no_memory) /* the others have it: another would not fit to theirs */
        status = fail_build(s->index, why);
    else if (p->plan != NULL && e->settings.verify)
        status = prove(p->collective, p->algorithm, p->layout);
    if (status != RUEDA_OK) {
        plan_free(p->plan);
        free(p);
        return status;
    }
    p->next = s->plans;
    s->plans = p;
    *made = p;
    return RUEDA_OK;
}

/* *found is NULL where the algorithm does not serve the collective. */
static rueda_status get(engine *e, process_set *s, const planned *wanted, const plan **found)
{
    planned *p = s->plans;
    while (p != NULL &&
           !(p->collective == wanted->collective && p->algorithm == wanted->algorithm &&
             same_layout(&p->layout, &wanted->layout)))
        p = p->next;
    const rueda_status status = p == NULL ? make(e, s, wanted, &p) : RUEDA_OK;
    if (status == RUEDA_OK)
        *found = p->plan;
    return status;
}

/* The table's answer, unless another algorithm is forced and serves. */
rueda_status plans_get(engine *e, process_set *s, plan_collective collective,
                       const plan_choice *choice, plan_layout layout, const plan **found)
{
    planned wanted = {.collective = collective, .layout = layout};
    const plan_algorithm selected = plan_select(choice, &layout.small);
    *found = NULL;
    if (e->forced != PLAN_ALGORITHM_AUTO && e->forced != selected) {
        wanted.algorithm = e->forced;
        const rueda_status status = get(e, s, &wanted, found);
        if (status != RUEDA_OK || (*found != NULL && serves(*found, choice)))
            return status;
    }
    wanted.algorithm = selected;
    wanted.layout = layout; /* `small` is for the table's own */
    rueda_status status = get(e, s, &wanted, found);
    if (status == RUEDA_OK && *found != NULL && !serves(*found, choice)) {
        wanted.layout.mapped = false; /* peers' memory is not where they would look for it */
        status = get(e, s, &wanted, found);
    }
    if (status == RUEDA_OK && (*found == NULL || !serves(*found, choice)))
        return status_fail(RUEDA_ERR_INTERNAL, "there is no plan for %s by %s on %u ranks",
                           plan_collective_name(collective), plan_algorithm_name(selected),
                           layout.ranks);
    return status;
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
