/* verify_bounds.c: what each step may name, and that the plans of all ranks have the same outline.
 * Everything later relies on it: no index is checked twice. */
#include "plan/verify.h"

enum operand_use { ABSENT, SOURCE, TARGET, MAYBE_TARGET, MESSAGE_SOURCE, MESSAGE_TARGET };

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
    [PLAN_DOT] = {MAYBE_TARGET, SOURCE, SOURCE, PLAN_SUMS_ODD | PLAN_SUMS_START},
    [PLAN_WEIGH] = {ABSENT, ABSENT, ABSENT, 0},
    [PLAN_COMBINE] = {TARGET, SOURCE, SOURCE, 0},
    [PLAN_COLL] = {TARGET, MESSAGE_SOURCE, ABSENT, 0},
};

uint32_t verify_chunks_of(const plan *p, plan_buffer buffer)
{
    bool one_in = p->collective == PLAN_ALLGATHER, one_out = p->collective == PLAN_REDUCESCATTER;
    if (p->collective == PLAN_BARRIER)
        return 0;
    if (buffer == PLAN_OUT)
        return one_out ? 1 : p->chunks;
    return one_in ? 1 : p->chunks;
}

static bool same_host(const plan *p, unsigned x, unsigned y)
{
    return !p->layout.host_of || p->layout.host_of[x] == p->layout.host_of[y];
}

static bool is_message(const plan_step *step)
{
    return step->kind == PLAN_SEND || step->kind == PLAN_RECV || step->kind == PLAN_RECV_REDUCE;
}

/* ---- Operands -------------------------------------------------------------------------------- */

/* The sums of a message: one's own go out; a rank's of another host come in from that rank. */
static const char *wrong_sums(const plan *p, const plan_step *step, const plan_operand *operand)
{
    if (!p->layout.adasum || operand->index > 1)
        return "has no such sums";
    if (step->kind == PLAN_SEND)
        return operand->rank == p->layout.rank ? NULL : "sends sums that are not its own";
    if (operand->rank != step->peer || same_host(p, operand->rank, p->layout.rank))
        return "receives sums that are not the sender's";
    return NULL;
}

static const char *wrong_peer(const plan *p, const plan_step *step, const plan_operand *operand,
                              bool target)
{
    bool callers = operand->buffer == PLAN_IN || operand->buffer == PLAN_OUT;
    if (is_message(step))
        return "is a message and names a peer's memory";
    if (!same_host(p, operand->rank, p->layout.rank))
        return "names memory on another host";
    if (callers && !p->layout.mapped)
        return "names a peer's memory that is not mapped";
    if (operand->buffer == PLAN_WORK)
        return "names a peer's private memory";
    if (target && operand->buffer == PLAN_SLOT)
        return "writes into a peer's slot";
    return NULL;
}

static const char *wrong_operand(const plan *p, const plan_phase *phase, const plan_step *step,
                                 const plan_operand *operand, unsigned use)
{
    bool target = use == TARGET || use == MAYBE_TARGET || use == MESSAGE_TARGET;
    bool message = use == MESSAGE_SOURCE || use == MESSAGE_TARGET;
    if (use == ABSENT)
        return operand->buffer == PLAN_NONE ? NULL : "has an operand too many";
    if (operand->buffer == PLAN_NONE)
        return message || use == MAYBE_TARGET ? NULL : "lacks an operand";
    if (operand->rank >= p->layout.ranks)
        return "names a rank that does not exist";
    if (operand->buffer == PLAN_SUMS)
        return message ? wrong_sums(p, step, operand) : "uses sums as data";
    if (operand->buffer > PLAN_SUMS)
        return "names a buffer that does not exist";
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
    if (!same_host(p, step->peer, p->layout.rank))
        return "waits for a rank on another host";
    if (step->lag < 1)
        return "waits for the tick that is running";
    return phase->publishes ? NULL : "waits in a phase that has no numbered ticks";
}

static const char *wrong_weigh(const plan *p, const plan_step *step)
{
    unsigned first = step->a.rank, middle = step->b.rank, end = first + step->lag;
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
    return (step->a.buffer != PLAN_NONE) == gives ? NULL : "gives something where it must not";
}

static const char *wrong_kind(const plan *p, const plan_phase *phase, const plan_step *step)
{
    bool projects =
        step->kind == PLAN_DOT || step->kind == PLAN_COMBINE || step->kind == PLAN_WEIGH;
    if (projects && !p->layout.adasum)
        return "belongs to Adasum, the plan does not";
    if (is_message(step) && (step->peer >= p->layout.ranks || step->peer == p->layout.rank))
        return "exchanges with a rank that does not exist, or with itself";
    if (step->kind == PLAN_AWAIT)
        return wrong_await(p, phase, step);
    if (step->kind == PLAN_DOT)
        return wrong_dot(p, step);
    if (step->kind == PLAN_COLL)
        return wrong_coll(p, phase, step);
    return NULL;
}

static const char *wrong_step(const plan *p, const plan_phase *phase, const plan_step *step)
{
    if (step->kind >= PLAN_KIND_COUNT)
        return "is no kind of step";
    const struct grammar *grammar = &GRAMMAR[step->kind];
    const char *wrong = NULL;
    if (step->stage >= phase->depth)
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
    uint32_t step = 0;
    if (x->rank != r || x->ranks != y->ranks || x->root != y->root || x->adasum != y->adasum ||
        x->mapped != y->mapped || x->prescaled != y->prescaled)
        return "the plan is not this rank's, or of another layout";
    if (p->collective != first->collective || p->chunks != first->chunks ||
        p->phase_count != first->phase_count)
        return "the plans of the ranks differ in collective, chunks or phases";
    for (uint32_t i = 0; i < p->phase_count; i++) {
        if (!same_outline(&p->phases[i], &first->phases[i]))
            return "the plans of the ranks differ in a phase's outline";
        if (!sound_phase(&p->phases[i], step, p->step_count))
            return "a phase has an impossible outline";
        step += p->phases[i].count;
    }
    return step == p->step_count ? NULL : "steps belong to no phase";
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

void verify_bounds(verifier *v)
{
    for (unsigned r = 0; r < v->ranks; r++) {
        const char *wrong = wrong_outline(v, r);
        if (wrong) {
            verify_fail(v, PLAN_CHECK_BOUNDS, r, 0, "%s", wrong);
            return;
        }
    }
    for (unsigned r = 0; r < v->ranks; r++)
        for (uint32_t i = 0; i < v->plans[r]->phase_count; i++)
            check_phase(v, r, &v->plans[r]->phases[i]);
}
