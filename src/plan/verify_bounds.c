/* verify_bounds.c: what each step may name, and that the plans of all ranks have the same outline.
 * Everything later relies on it: no index is checked twice. */
#include "plan/verify.h"

enum operand_use {
    ABSENT,
    SOURCE,
    TARGET,
    MAYBE_TARGET,
    MESSAGE_SOURCE,
    MESSAGE_TARGET,
    MAYBE_IN,  /* this rank's whole buffer, or nothing */
    MAYBE_OUT, /* */
    OWN_SUMS
};

/* What each kind of step needs. */
static const struct grammar {
    uint8_t dst, a, b;
    uint8_t flags; /* allowed */
} GRAMMAR[PLAN_KIND_COUNT] = {
    [PLAN_COPY] = {TARGET, SOURCE, ABSENT, PLAN_PRESCALE | PLAN_POSTSCALE},
    [PLAN_REDUCE] = {TARGET, SOURCE, SOURCE, 0},
    [PLAN_SEND] = {ABSENT, MESSAGE_SOURCE, ABSENT, 0},
    [PLAN_RECV] = {MESSAGE_TARGET, ABSENT, ABSENT, 0},
    [PLAN_RECV_REDUCE] = {TARGET, SOURCE, ABSENT, PLAN_MESSAGE_FIRST},
    [PLAN_FENCE] = {ABSENT, ABSENT, ABSENT, 0},
    [PLAN_PUBLISH] = {ABSENT, ABSENT, ABSENT, 0},
    [PLAN_AWAIT] = {ABSENT, ABSENT, ABSENT, 0},
    [PLAN_DOT] = {MAYBE_TARGET, SOURCE, SOURCE, PLAN_SUMS_ODD},
    [PLAN_WEIGH] = {ABSENT, ABSENT, ABSENT, 0},
    [PLAN_COMBINE] = {TARGET, SOURCE, SOURCE, 0},
    [PLAN_COLL] = {TARGET, MESSAGE_SOURCE, ABSENT, 0},
    [PLAN_ENTER] = {ABSENT, ABSENT, ABSENT, 0},
    [PLAN_ADDRESSES] = {MAYBE_OUT, MAYBE_IN, ABSENT, 0},
    [PLAN_START_SUMS] = {OWN_SUMS, ABSENT, ABSENT, 0},
    [PLAN_LEAVE] = {ABSENT, ABSENT, ABSENT, 0},
};

uint32_t verify_chunks_of(const plan *p, plan_buffer buffer)
{
    bool one_in = p->collective == PLAN_ALLGATHER || p->collective == PLAN_GATHER;
    bool one_out = p->collective == PLAN_REDUCESCATTER || p->collective == PLAN_SCATTER;
    if (p->collective == PLAN_BARRIER)
        return 0;
    if (buffer == PLAN_OUT)
        return one_out ? 1 : p->chunks;
    return one_in ? 1 : p->chunks;
}

/* ---- Operands -------------------------------------------------------------------------------- */

/* The sums of a message: one's own go out; a rank's of another host come in from that rank. */
static const char *wrong_sums(const plan *p, const plan_step *step, const plan_operand *operand)
{
    if (!p->layout.adasum || operand->index > 1)
        return "has no such sums";
    if (step->kind == PLAN_SEND)
        return operand->rank == p->layout.rank ? NULL : "sends sums that are not its own";
    if (operand->rank != step->peer || plan_same_host(p, operand->rank, p->layout.rank))
        return "receives sums that are not the sender's";
    return NULL;
}

static const char *wrong_peer(const plan *p, const plan_step *step, const plan_operand *operand,
                              bool target)
{
    bool callers = operand->buffer == PLAN_IN || operand->buffer == PLAN_OUT;
    if (plan_is_message(step))
        return "is a message and names a peer's memory";
    if (!plan_same_host(p, operand->rank, p->layout.rank))
        return "names memory on another host";
    if (callers && !p->layout.mapped)
        return "names a peer's memory that is not mapped";
    if (operand->buffer == PLAN_WORK)
        return "names a peer's private memory";
    if (target && operand->buffer == PLAN_SLOT)
        return "writes into a peer's slot";
    return NULL;
}

static bool is_own(const plan *p, const plan_operand *operand, plan_buffer buffer, uint32_t most)
{
    return operand->buffer == buffer && operand->rank == p->layout.rank && operand->index <= most;
}

/* Memory that is named as a whole. */
static const char *wrong_whole(const plan *p, const plan_operand *operand, unsigned use)
{
    if (use == OWN_SUMS)
        return is_own(p, operand, PLAN_SUMS, 1) ? NULL : "starts something else than its own sums";
    if (operand->buffer == PLAN_NONE)
        return NULL;
    plan_buffer buffer = use == MAYBE_IN ? PLAN_IN : PLAN_OUT;
    if (!plan_has(p, buffer, p->layout.rank))
        return "tells the address of memory that only the root has";
    return is_own(p, operand, buffer, 0) ? NULL : "tells addresses that are not its own";
}

static const char *wrong_operand(const plan *p, const plan_phase *phase, const plan_step *step,
                                 const plan_operand *operand, unsigned use)
{
    bool target = use == TARGET || use == MAYBE_TARGET || use == MESSAGE_TARGET;
    bool message = use == MESSAGE_SOURCE || use == MESSAGE_TARGET;
    if (use == ABSENT)
        return operand->buffer == PLAN_NONE ? NULL : "has an operand too many";
    if (use >= MAYBE_IN)
        return wrong_whole(p, operand, use);
    if (operand->buffer == PLAN_NONE)
        return message || use == MAYBE_TARGET ? NULL : "lacks an operand";
    if (operand->rank >= p->layout.ranks)
        return "names a rank that does not exist";
    if (operand->buffer == PLAN_SUMS)
        return message ? wrong_sums(p, step, operand) : "uses sums as data";
    if (operand->buffer > PLAN_SUMS)
        return "names a buffer that does not exist";
    if (!plan_has(p, (plan_buffer)operand->buffer, operand->rank))
        return "names memory that only the root has";
    if (target && operand->buffer == PLAN_IN)
        return "writes the input";
    if (operand->buffer == PLAN_SLOT && (phase->once || operand->index >= phase->cells))
        return "names a cell that the phase does not have";
    if (operand->buffer != PLAN_SLOT &&
        operand->index >= verify_chunks_of(p, (plan_buffer)operand->buffer))
        return "names a chunk that does not exist";
    if (operand->rank != p->layout.rank)
        return wrong_peer(p, step, operand, target);
    return NULL;
}

/* ---- Steps ----------------------------------------------------------------------------------- */

static const char *wrong_await(const plan *p, const plan_phase *phase, const plan_step *step)
{
    if (step->peer >= p->layout.ranks || step->peer == p->layout.rank)
        return "waits for a rank that does not exist, or for itself";
    if (!plan_same_host(p, step->peer, p->layout.rank))
        return "waits for a rank on another host";
    if (step->lag < 1)
        return "waits for the tick that is running";
    return phase->publishes ? NULL : "waits in a phase that has no numbered ticks";
}

static const char *wrong_weigh(const plan *p, const plan_step *step)
{
    unsigned first = step->a.rank, middle = step->b.rank, end = first + step->ranks;
    if (step->a.buffer != PLAN_SUMS || step->b.buffer != PLAN_SUMS || step->a.index > 1 ||
        step->a.index != step->b.index)
        return "weighs something else than sums";
    if (first >= middle || middle >= end || end > p->layout.ranks)
        return "weighs a block that is not two blocks of ranks";
    if (p->layout.rank < first || p->layout.rank >= end)
        return "weighs a block that it is not in";
    return NULL;
}

/* If DOT keeps a copy, it must be clear of which operand. */
static const char *wrong_dot(const plan *p, const plan_step *step)
{
    bool one_peer = (step->a.rank == p->layout.rank) != (step->b.rank == p->layout.rank);
    if (step->dst.buffer != PLAN_NONE && (!one_peer || step->dst.rank != p->layout.rank))
        return "keeps an operand that is not a peer's, or not at home";
    return NULL;
}

/* Whole chunks of our own memory; only the root of a broadcast has something to give. */
static const char *wrong_coll(const plan *p, const plan_phase *phase, const plan_step *step)
{
    const bool gives = p->collective == PLAN_ALLREDUCE || p->layout.rank == p->layout.root;
    if (p->layout.adasum || (p->collective != PLAN_ALLREDUCE && p->collective != PLAN_BROADCAST))
        return "is a collective that transports do not have";
    if (!phase->once)
        return "hands on a piece, and must hand on the whole";
    if (step->dst.rank != p->layout.rank || step->a.buffer == PLAN_SUMS ||
        (step->a.buffer != PLAN_NONE && step->a.rank != p->layout.rank))
        return "hands on memory that is not its own";
    if (p->layout.packed && (step->dst.buffer != PLAN_WORK || step->a.buffer != PLAN_WORK))
        return "hands on several tensors, which lie side by side in WORK alone";
    if ((step->a.buffer != PLAN_NONE) != gives)
        return "gives something where it must not";
    if (p->collective == PLAN_BROADCAST && gives && step->a.buffer != step->dst.buffer)
        return "must give what it has in the place where the others get it";
    return NULL;
}

static const char *wrong_start(const plan_phase *phase)
{
    return !phase || phase->once ? NULL : "starts sums once for every piece";
}

static const char *wrong_addresses(const plan *p, const plan_step *step)
{
    if (!p->layout.mapped)
        return "tells addresses of memory that is not mapped";
    return step->a.buffer || step->dst.buffer ? NULL : "tells no address";
}

static const char *wrong_kind(const plan *p, const plan_phase *phase, const plan_step *step)
{
    bool projects = step->kind == PLAN_DOT || step->kind == PLAN_COMBINE ||
                    step->kind == PLAN_WEIGH || step->kind == PLAN_START_SUMS;
    if (projects && !p->layout.adasum)
        return "belongs to Adasum, the plan does not";
    if (plan_is_message(step) && (step->peer >= p->layout.ranks || step->peer == p->layout.rank))
        return "exchanges with a rank that does not exist, or with itself";
    if (step->kind == PLAN_AWAIT)
        return wrong_await(p, phase, step);
    if (step->kind == PLAN_DOT)
        return wrong_dot(p, step);
    if (step->kind == PLAN_COLL)
        return wrong_coll(p, phase, step);
    if (step->kind == PLAN_START_SUMS)
        return wrong_start(phase);
    if (step->kind == PLAN_ADDRESSES)
        return wrong_addresses(p, step);
    return NULL;
}

/* `phase` is NULL for steps outside of phases. */
static const char *wrong_step(const plan *p, const plan_phase *phase, const plan_step *step)
{
    if (step->kind >= PLAN_KIND_COUNT)
        return "is no kind of step";
    const struct grammar *grammar = &GRAMMAR[step->kind];
    const char *wrong = NULL;
    if (!phase && step->kind < PLAN_ENTER)
        return "stands outside of the phases";
    if (phase &&
        (step->kind == PLAN_ENTER || step->kind == PLAN_LEAVE || step->kind == PLAN_ADDRESSES))
        return "stands in a phase";
    if (phase && step->stage >= phase->depth)
        return "is in a stage that the phase does not have";
    if (step->flags & ~grammar->flags)
        return "has a flag that it cannot have";
    if (step->kind == PLAN_WEIGH)
        wrong = wrong_weigh(p, step);
    else if (!(wrong = wrong_operand(p, phase, step, &step->dst, grammar->dst)) &&
             !(wrong = wrong_operand(p, phase, step, &step->a, grammar->a)))
        wrong = wrong_operand(p, phase, step, &step->b, grammar->b);
    return wrong ? wrong : wrong_kind(p, phase, step);
}

/* ---- Outline --------------------------------------------------------------------------------- */

static bool same_outline(const plan_phase *x, const plan_phase *y)
{
    return x->depth == y->depth && x->cells == y->cells && x->once == y->once &&
           x->publishes == y->publishes;
}

static bool sound_phase(const plan_phase *phase, uint32_t first_step, uint32_t step_count)
{
    return phase->first == first_step && phase->count <= step_count - first_step &&
           phase->depth >= 1 && phase->depth <= PLAN_STAGES &&
           (!phase->once || phase->depth == 1) && (!phase->once || phase->cells == 0);
}

static const char *wrong_outline(const verifier *v, unsigned r)
{
    const plan *p = v->plans[r], *first = v->first;
    const plan_layout *x = &p->layout, *y = &first->layout;
    uint32_t step = p->entry_count;
    if (x->rank != r || x->ranks != y->ranks || x->root != y->root || x->adasum != y->adasum ||
        x->mapped != y->mapped || x->prescaled != y->prescaled || x->packed != y->packed)
        return "the plan is not this rank's, or of another layout";
    if (p->collective != first->collective || p->chunks != first->chunks ||
        p->phase_count != first->phase_count || p->needs_equal_parts != first->needs_equal_parts)
        return "the plans of the ranks differ in collective, chunks, lengths or phases";
    if (p->step_count <= p->entry_count)
        return "the plan has no end";
    for (uint32_t i = 0; i < p->phase_count; i++) {
        if (!same_outline(&p->phases[i], &first->phases[i]))
            return "the plans of the ranks differ in a phase's outline";
        if (!sound_phase(&p->phases[i], step, p->step_count))
            return "a phase has an impossible outline";
        step += p->phases[i].count;
    }
    return step + 1 == p->step_count ? NULL : "steps belong to no phase";
}

/* PUBLISH is the last step of phases that publish, and nowhere else. */
static bool publish_fits(const plan_phase *phase, const plan *p, uint32_t i)
{
    bool last = i + 1 == phase->first + phase->count;
    return (p->steps[i].kind == PLAN_PUBLISH) == (phase->publishes && last);
}

static void check_phase(verifier *v, unsigned r, const plan_phase *phase)
{
    const plan *p = v->plans[r];
    if (phase->publishes && phase->count == 0)
        verify_fail(v, PLAN_CHECK_BOUNDS, r, phase->first, "a publishing phase lacks PUBLISH");
    for (uint32_t i = phase->first; i < phase->first + phase->count; i++) {
        const char *wrong = wrong_step(p, phase, &p->steps[i]);
        if (wrong)
            verify_fail(v, PLAN_CHECK_BOUNDS, r, i, "%s", wrong);
        else if (!publish_fits(phase, p, i))
            verify_fail(v, PLAN_CHECK_BOUNDS, r, i,
                        "PUBLISH must end every tick of a publishing phase, and nothing else");
    }
}

/* ENTER, if there is one, comes first, and everything else once; the last step is LEAVE. */
static const char *wrong_place(const plan *p, uint32_t i)
{
    const plan_kind kind = (plan_kind)p->steps[i].kind;
    if ((kind == PLAN_LEAVE) != (i + 1 == p->step_count))
        return "LEAVE must be the last step, and no other";
    if (kind == PLAN_ENTER && i > 0)
        return "ENTER must be the first step";
    for (uint32_t before = 0; before < i && i < p->entry_count; before++)
        if (p->steps[before].kind == kind)
            return "comes twice";
    return NULL;
}

static void check_ends(verifier *v, unsigned r)
{
    const plan *p = v->plans[r];
    for (uint32_t i = 0; i < p->step_count; i++) {
        if (i == p->entry_count)
            i = p->step_count - 1;
        const char *wrong = wrong_step(p, NULL, &p->steps[i]);
        if (!wrong)
            wrong = wrong_place(p, i);
        if (wrong)
            verify_fail(v, PLAN_CHECK_BOUNDS, r, i, "%s", wrong);
    }
}

/* What the plan says about its steps must be so: others act on it. */
static void check_derived(verifier *v, unsigned r)
{
    plan told = *v->plans[r];
    plan_derive(&told);
    const plan *p = v->plans[r];
    if (told.uses_work != p->uses_work || told.uses_messages != p->uses_messages ||
        told.uses_collectives != p->uses_collectives || told.reached_in != p->reached_in ||
        told.reached_out != p->reached_out || told.needs_equal_parts != p->needs_equal_parts)
        verify_fail(v, PLAN_CHECK_BOUNDS, r, 0, "the plan does not say what its steps do");
}

void verify_bounds(verifier *v)
{
    for (unsigned r = 0; r < v->ranks; r++) {
        const char *wrong = wrong_outline(v, r);
        if (wrong) {
            verify_fail(v, PLAN_CHECK_BOUNDS, r, 0, "%s", wrong);
            return;
        }
    }
    for (unsigned r = 0; r < v->ranks; r++) {
        check_ends(v, r);
        for (uint32_t i = 0; i < v->plans[r]->phase_count; i++)
            check_phase(v, r, &v->plans[r]->phases[i]);
        check_derived(v, r);
    }
}
