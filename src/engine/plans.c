/* plans.c: the plans a process set has used, built once. */
#include "engine/engine.h"

#include <stdlib.h>

struct known_plan {
    plan_collective collective;
    plan_algorithm algorithm;
    plan_layout layout;
    plan *plan; /* NULL: the algorithm does not serve this */
    known_plan *next;
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
static rueda_status make(engine *e, process_set *s, const known_plan *wanted, known_plan **made)
{
    const char *why = NULL;
    known_plan *p = malloc(sizeof *p);
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
static rueda_status get(engine *e, process_set *s, const known_plan *wanted, const plan **found)
{
    known_plan *p = s->plans;
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
static rueda_status get_best(engine *e, process_set *s, const plan_choice *choice,
                             plan_layout layout, const plan **found)
{
    known_plan wanted = {.collective = choice->collective, .layout = layout};
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
                           plan_collective_name(choice->collective), plan_algorithm_name(selected),
                           layout.ranks);
    return status;
}

/* The neutral values of a member that has joined are in private memory. */
static bool is_mapped(const record *r)
{
    return r->all_mapped && r->agreed.prescale == 1.0 && r->whole;
}

static plan_choice choice_of(const engine *e, const process_set *s, const record *r, uint64_t bytes)
{
    return (plan_choice){
        .collective =
            r->agreed.kind <= SIGNATURE_BARRIER ? (plan_collective)r->agreed.kind : PLAN_BARRIER,
        .ranks = s->size,
        .hosts = s->hosts,
        .bytes = bytes,
        .adasum = r->agreed.kind == SIGNATURE_ALLREDUCE && r->agreed.op == RUEDA_ADASUM,
        .shared_memory = s->hosts < s->size || s->hosts == 1,
        .mapped = s->hosts == 1 && is_mapped(r),
        .equal_parts = !r->unequal,
        .deterministic = e->settings.deterministic != 0,
        .native =
            e->transports.table->collect != NULL && s->size == e->who.size && s->hosts == s->size};
}

static uint16_t index_of(const process_set *s, int32_t rank)
{
    uint16_t i = 0;
    while (i + 1 < s->size && s->ranks[i] != rank)
        i++;
    return i;
}

rueda_status plans_find(engine *e, process_set *s, const record *r, uint64_t bytes,
                        uint32_t tensors, const plan **found)
{
    const plan_choice choice = choice_of(e, s, r, bytes);
    const plan_layout layout = {
        .ranks = s->size,
        .rank = s->index,
        .host_of = s->host_of,
        .root = signature_has_root(r->agreed.kind) ? index_of(s, r->agreed.root) : 0,
        .adasum = choice.adasum,
        .mapped = choice.mapped,
        .prescaled = r->agreed.prescale != 1.0,
        .packed = choice.native && tensors > 1};
    return get_best(e, s, &choice, layout, found);
}

void plans_free(process_set *s)
{
    for (known_plan *p = s->plans, *next; p != NULL; p = next) {
        next = p->next;
        plan_free(p->plan);
        free(p);
    }
    s->plans = NULL;
}
