/* verify.c: proves the plans of all ranks together; see verify.h for the parts.
 *
 * Order of the checks: a plan out of bounds is not run; when a run has a race, its data is worth
 * nothing, so the race is what is reported. */
#include "plan/verify.h"

#include "plan/print.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

void verify_fail(verifier *v, plan_check check, unsigned rank, uint32_t step, const char *format,
                 ...)
{
    plan_verdict *verdict = check == PLAN_CHECK_DATA ? &v->data : &v->verdict;
    char words[PLAN_STEP_TEXT] = "at the end", reason[128];
    va_list arguments;
    if (verdict->failed != PLAN_CHECK_OK)
        return;
    *verdict =
        (plan_verdict){.failed = check, .pieces = v->pieces, .rank = (uint16_t)rank, .step = step};
    if (step < v->plans[rank]->step_count)
        plan_describe_step(v->plans[rank], &v->plans[rank]->steps[step], words);
    va_start(arguments, format);
    vsnprintf(reason, sizeof reason, format, arguments);
    va_end(arguments);
    snprintf(verdict->text, sizeof verdict->text, "%s: %s%s", words, reason,
             v->aliased ? " (in place)" : "");
}

/* ---- Matching -------------------------------------------------------------------------------- */

/* How often a step runs. */
static uint64_t runs_of(const verifier *v, const plan_phase *phase)
{
    return phase->once ? 1 : v->pieces;
}

static void count_messages(const verifier *v, unsigned r, int64_t *balance)
{
    const plan *p = v->plans[r];
    for (uint32_t f = 0; f < p->phase_count; f++)
        for (uint32_t i = p->phases[f].first; i < p->phases[f].first + p->phases[f].count; i++) {
            const plan_step *step = &p->steps[i];
            int64_t runs = (int64_t)runs_of(v, &p->phases[f]);
            if (step->kind == PLAN_SEND)
                balance[(size_t)r * v->ranks + step->peer] += runs;
            else if (step->kind == PLAN_RECV || step->kind == PLAN_RECV_REDUCE)
                balance[(size_t)step->peer * v->ranks + r] -= runs;
        }
}

/* As many SENDs as RECVs between any two ranks; which meets which shows in the run. */
static void check_matching(verifier *v)
{
    int64_t *balance = calloc((size_t)v->ranks * v->ranks, sizeof *balance);
    if (!balance) {
        v->no_memory = true;
        return;
    }
    for (unsigned r = 0; r < v->ranks; r++)
        count_messages(v, r, balance);
    for (size_t i = 0; i < (size_t)v->ranks * v->ranks; i++)
        if (balance[i])
            verify_fail(v, PLAN_CHECK_MATCHING, (unsigned)(i / v->ranks), UINT32_MAX,
                        "rank %zu sends rank %zu %lld messages too %s", i / v->ranks, i % v->ranks,
                        (long long)llabs(balance[i]), balance[i] > 0 ? "many" : "few");
    free(balance);
}

/* ---- Memory of a run ------------------------------------------------------------------------- */

static void *room(verifier *v, size_t count, size_t size)
{
    void *memory = calloc(count ? count : 1, size);
    if (!memory)
        v->no_memory = true;
    return memory;
}

static bool names_peer(const plan *p, const plan_operand *o)
{
    return (o->buffer == PLAN_IN || o->buffer == PLAN_OUT) && o->rank != p->layout.rank;
}

static bool reaches_callers(const plan *p)
{
    for (uint32_t i = 0; i < p->step_count; i++)
        if (names_peer(p, &p->steps[i].dst) || names_peer(p, &p->steps[i].a) ||
            names_peer(p, &p->steps[i].b))
            return true;
    return false;
}

static uint32_t published_ticks(const verifier *v)
{
    uint32_t ticks = 0;
    for (uint32_t i = 0; i < v->first->phase_count; i++) {
        const plan_phase *phase = &v->first->phases[i];
        if (phase->publishes)
            ticks += phase->once ? 1 : v->pieces + phase->depth - 1;
    }
    return ticks;
}

static void measure(verifier *v)
{
    v->in_chunks = verify_chunks_of(v->first, PLAN_IN);
    v->out_chunks = verify_chunks_of(v->first, PLAN_OUT);
    v->words = ((size_t)v->in_chunks * v->pieces + 63) / 64;
    for (uint32_t i = 0; i < v->first->phase_count; i++)
        if (v->first->phases[i].cells > v->cells)
            v->cells = v->first->phases[i].cells;
    for (unsigned r = 0; r < v->ranks; r++)
        v->reached = v->reached || reaches_callers(v->plans[r]);
}

static void place_sums(verifier *v)
{
    size_t count = v->first->layout.adasum ? 2 * (size_t)v->ranks * v->ranks : 0;
    v->sum_cells = room(v, count, sizeof *v->sum_cells);
    v->mirrors = room(v, count, sizeof *v->mirrors);
    v->bits = room(v, count * v->words, sizeof *v->bits);
    v->scratch_bits = room(v, v->words, sizeof *v->scratch_bits);
    for (size_t i = 0; i < count && !v->no_memory; i++)
        v->mirrors[i].covered = v->bits + i * v->words;
}

static void fill_input(verifier *v, unsigned r)
{
    uint32_t shape = shape_leaf(&v->shapes, r);
    for (uint32_t c = 0; c < v->in_chunks; c++)
        for (uint32_t piece = 0; piece < v->pieces; piece++)
            v->actors[r].in[(size_t)c * v->pieces + piece].value =
                (value){.shape = shape, .chunk = c, .piece = piece};
}

static void place_actor(verifier *v, unsigned r, uint32_t ticks)
{
    actor *x = &v->actors[r];
    size_t in = (size_t)v->in_chunks * v->pieces, out = (size_t)v->out_chunks * v->pieces;
    size_t slots = (size_t)PLAN_SLOTS * v->cells;
    cell *base = v->memory + r * (2 * in + out + slots);
    uint32_t spans = 1 + r * (v->in_chunks + v->out_chunks + 1);
    uint32_t *clocks = v->clocks + (size_t)r * (ticks + 1) * v->ranks;
    x->plan = v->plans[r];
    x->in = base;
    x->work = base + in;
    x->slot = base + 2 * in;
    x->out = v->aliased ? x->in : base + 2 * in + slots;
    x->in_span = spans;
    x->out_span = v->aliased ? spans : spans + v->in_chunks;
    x->slot_span = spans + v->in_chunks + v->out_chunks;
    x->clock = clocks;
    x->needs = v->needs + (size_t)r * v->ranks;
    x->tick_clocks = room(v, ticks, sizeof *x->tick_clocks);
    for (uint32_t t = 0; t < ticks && x->tick_clocks; t++)
        x->tick_clocks[t] = clocks + (size_t)(t + 1) * v->ranks;
    if (v->first->layout.adasum)
        x->own_sums = &v->mirrors[2 * ((size_t)r * v->ranks + r)];
    fill_input(v, r);
}

static void prepare(verifier *v)
{
    uint32_t ticks = published_ticks(v);
    measure(v);
    size_t cells =
        (2 * (size_t)v->in_chunks + v->out_chunks) * v->pieces + (size_t)PLAN_SLOTS * v->cells;
    v->no_memory = !shapes_make(&v->shapes);
    v->read_capacity = v->record_capacity = 1024;
    v->read_count = v->record_count = 1;
    v->reads = room(v, v->read_capacity, sizeof *v->reads);
    v->records = room(v, v->record_capacity, sizeof *v->records);
    v->spans = room(v, 1 + v->ranks * (size_t)(v->in_chunks + v->out_chunks + 1), sizeof *v->spans);
    v->memory = room(v, v->ranks * cells, sizeof *v->memory);
    v->clocks = room(v, (size_t)v->ranks * (ticks + 1) * v->ranks, sizeof *v->clocks);
    v->queues = room(v, (size_t)v->ranks * v->ranks, sizeof *v->queues);
    v->needs = room(v, (size_t)v->ranks * v->ranks, sizeof *v->needs);
    v->seen = room(v, v->ranks, sizeof *v->seen);
    v->actors = room(v, v->ranks, sizeof *v->actors);
    place_sums(v);
    for (unsigned r = 0; r < v->ranks && !v->no_memory; r++)
        place_actor(v, r, ticks);
}

static void free_transfers(transfer *t)
{
    while (t) {
        transfer *next = t->in_flight;
        free(t->clock);
        free(t);
        t = next;
    }
}

static void clean_up(verifier *v)
{
    for (unsigned r = 0; v->actors && r < v->ranks; r++) {
        free_transfers(v->actors[r].flying);
        free(v->actors[r].tick_clocks);
    }
    free_transfers(v->spare_transfers);
    shapes_free(&v->shapes);
    void *rooms[] = {v->reads,   v->records, v->spans,       v->needs,  v->memory,
                     v->clocks,  v->queues,  v->seen,        v->actors, v->sum_cells,
                     v->mirrors, v->bits,    v->scratch_bits};
    for (size_t i = 0; i < sizeof rooms / sizeof *rooms; i++)
        free(rooms[i]);
}

/* ---- Entry ----------------------------------------------------------------------------------- */

static plan_verdict verify_once(plan *const *plans, uint32_t pieces, bool aliased)
{
    verifier v = {.plans = plans, .first = plans[0], .ranks = plans[0]->layout.ranks};
    v.pieces = pieces;
    v.aliased = aliased;
    check_matching(&v);
    prepare(&v);
    if (!v.no_memory)
        verify_run(&v);
    if (!v.no_memory && v.verdict.failed == PLAN_CHECK_OK)
        verify_post(&v);
    v.data.one_order = !v.no_memory && verify_same_order(&v);
    v.data.self_finishing = !v.no_memory && verify_self_finishing(&v);
    bool no_memory = v.no_memory || v.shapes.no_memory;
    clean_up(&v);
    if (no_memory)
        return (plan_verdict){.failed = PLAN_CHECK_MEMORY, .text = "out of memory"};
    return v.verdict.failed != PLAN_CHECK_OK ? v.verdict : v.data;
}

static plan_verdict check_bounds(plan *const *plans)
{
    verifier v = {.plans = plans, .first = plans[0], .ranks = plans[0]->layout.ranks};
    verify_bounds(&v);
    return v.verdict;
}

/* The later verdict, with what holds in both runs. */
static plan_verdict both(plan_verdict earlier, plan_verdict later)
{
    later.self_finishing = later.self_finishing && earlier.self_finishing;
    later.one_order = later.one_order && earlier.one_order;
    return later;
}

plan_verdict plan_verify_pieces(plan *const *plans, uint32_t pieces)
{
    plan_verdict verdict = check_bounds(plans);
    if (verdict.failed == PLAN_CHECK_OK)
        verdict = verify_once(plans, pieces, false);
    if (verdict.failed != PLAN_CHECK_OK || !plan_may_be_in_place(plans[0]->collective))
        return verdict;
    return both(verdict, verify_once(plans, pieces, true));
}

/* Stages of the deepest phase that uses slots. */
static uint32_t deepest(const plan *p)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < p->phase_count; i++)
        if (p->phases[i].cells && p->phases[i].depth > most)
            most = p->phases[i].depth;
    return most;
}

/* With the last count all stages of every phase work while slots are used again. */
plan_verdict plan_verify(plan *const *plans)
{
    const uint32_t deep = deepest(plans[0]) + PLAN_SLOTS + 1;
    const uint32_t COUNTS[] = {1, PLAN_SLOTS - 1, PLAN_SLOTS, PLAN_SLOTS + 1,
                               deep > 2 * PLAN_SLOTS + 1 ? deep : 2 * PLAN_SLOTS + 1};
    plan_verdict verdict = {.self_finishing = true, .one_order = true};
    for (size_t i = 0; i < sizeof COUNTS / sizeof *COUNTS; i++) {
        verdict = both(verdict, plan_verify_pieces(plans, COUNTS[i]));
        if (verdict.failed != PLAN_CHECK_OK)
            return verdict;
    }
    return verdict;
}
