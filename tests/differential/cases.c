/* cases.c: see cases.h. */
#include "cases.h"

#include "plan/mutations.h"

#define MOST_DAMAGES 3

/* ---- Dice ------------------------------------------------------------------------------------ */

/* Every third seed has all collectives, the others those that were there when the seeds that are kept were
 * found: they still show what they showed. */
dice dice_of(uint64_t seed)
{
    return (dice){oracle_hash(seed + 77) | 1, seed % 3 == 1};
}

unsigned roll_dice(dice *d, unsigned sides)
{
    d->state ^= d->state << 13;
    d->state ^= d->state >> 7;
    d->state ^= d->state << 17;
    return (unsigned)((d->state >> 17) % sides);
}

void shuffle(dice *d, unsigned *list, unsigned count)
{
    for (unsigned i = count; i > 1; i--) {
        const unsigned other = roll_dice(d, i), kept = list[i - 1];
        list[i - 1] = list[other];
        list[other] = kept;
    }
}

place_of_ranks roll_place(dice *d)
{
    place_of_ranks place = {.ranks = 2 + roll_dice(d, roll_dice(d, 3) ? 3 : 5)};
    place.hosts = roll_dice(d, 4) == 0;
    const unsigned hosts = 1 + roll_dice(d, place.ranks);
    for (unsigned r = 0; r < place.ranks && place.hosts; r++)
        place.host_of[r] = (uint16_t)roll_dice(d, hosts);
    return place;
}

/* ---- Plans ----------------------------------------------------------------------------------- */

static plan_collective roll_collective(dice *d)
{
    static const plan_collective WITHOUT_ROOT[] = {PLAN_ALLREDUCE,     PLAN_ALLGATHER,
                                                   PLAN_BROADCAST,     PLAN_ALLTOALL,
                                                   PLAN_REDUCESCATTER, PLAN_BARRIER};
    static const plan_collective TO_AND_FROM_ROOT[] = {PLAN_REDUCE_TO_ROOT, PLAN_GATHER,
                                                       PLAN_SCATTER};
    if (d->rooted && roll_dice(d, 2))
        return TO_AND_FROM_ROOT[roll_dice(d, 3)];
    return WITHOUT_ROOT[roll_dice(d, 6)];
}

static bool build_by_algorithm(dice *d, const place_of_ranks *place, team *t)
{
    const plan_collective collective = roll_collective(d);
    const plan_algorithm algorithm = (plan_algorithm)(1 + roll_dice(d, PLAN_ALGORITHM_COUNT - 1));
    const bool adasum = collective == PLAN_ALLREDUCE && roll_dice(d, 3) == 0;
    return team_build(t, collective, algorithm,
                      (plan_layout){.ranks = (uint16_t)place->ranks,
                                    .host_of = place->hosts ? place->host_of : NULL,
                                    .root = (uint16_t)roll_dice(d, place->ranks),
                                    .adasum = adasum,
                                    .mapped = !place->hosts && roll_dice(d, 2),
                                    .prescaled = roll_dice(d, 3) == 0,
                                    .small = roll_dice(d, 3) == 0,
                                    .packed = roll_dice(d, 2)});
}

/* One step of one rank; plans that algorithms built have no room to grow, so it is a copy. */
static bool damage(dice *d, team *t)
{
    const unsigned r = roll_dice(d, t->ranks);
    const enum mutation m = (enum mutation)roll_dice(d, MUTATION_COUNT);
    plan *healthy = t->plans[r];
    if (healthy->step_count == 0)
        return false;
    plan *copy = copy_plan(healthy);
    const bool done = mutate(copy, roll_dice(d, healthy->step_count), m);
    uint16_t *host_of = (uint16_t *)(uintptr_t)healthy->layout.host_of;
    if (!done) {
        free_clone(copy);
        return false;
    }
    plan_derive(copy);
    healthy->layout.host_of = NULL; /* the copy's now */
    copy->layout.host_of = host_of;
    plan_free(healthy);
    t->plans[r] = copy;
    return true;
}

static bool fits_the_oracle(const team *t)
{
    const plan *p = t->plans[0];
    for (uint32_t f = 0; f < p->phase_count; f++)
        if (p->phases[f].cells > ORACLE_CHUNKS)
            return false;
    return t->ranks <= ORACLE_RANKS && p->chunks <= ORACLE_CHUNKS;
}

/* ---- Tensors --------------------------------------------------------------------------------- */

static void cut_tensors(dice *d, model_cut *cut, uint32_t elements)
{
    cut->tensors = 1 + roll_dice(d, ORACLE_TENSORS);
    for (uint32_t t = 0; t + 1 < cut->tensors; t++) {
        cut->tensor_counts[t] = roll_dice(d, elements + 1);
        elements -= cut->tensor_counts[t];
    }
    cut->tensor_counts[cut->tensors - 1] = elements;
}

/* The same chunks on all ranks, for IN and OUT. */
static void cut_alike(dice *d, model_cut *cut, const plan *p, const uint32_t *lengths)
{
    uint32_t elements = 0;
    for (uint32_t c = 0; c < p->chunks; c++)
        elements += lengths[c];
    for (unsigned r = 0; r < p->layout.ranks; r++) {
        memcpy(cut->in[r], lengths, sizeof cut->in[r]);
        memcpy(cut->out[r], lengths, sizeof cut->out[r]);
    }
    cut_tensors(d, cut, elements);
    cut->in_place = roll_dice(d, 2);
}

static bool gathers(const plan *p)
{
    return p->collective == PLAN_ALLGATHER || p->collective == PLAN_GATHER;
}

/* Lengths by rank; alltoall: what rank r gives to rank q. */
static void cut_by_rank(dice *d, model_cut *cut, const plan *p, const uint32_t *lengths)
{
    const unsigned ranks = p->layout.ranks;
    for (unsigned r = 0; r < ranks; r++)
        for (unsigned q = 0; q < ranks; q++) {
            const uint32_t part =
                p->needs_equal_parts ? lengths[0] : roll_dice(d, ORACLE_PIECES + 1);
            if (p->collective == PLAN_ALLTOALL)
                cut->in[r][q] = cut->out[q][r] = part;
            else if (gathers(p))
                cut->out[r][q] = lengths[q];
            else
                cut->in[r][q] = lengths[q];
        }
    for (unsigned r = 0; r < ranks; r++) {
        if (gathers(p))
            cut->in[r][0] = lengths[r];
        else if (p->collective != PLAN_ALLTOALL)
            cut->out[r][0] = lengths[r];
    }
}

static void find_largest(model_cut *cut)
{
    for (unsigned r = 0; r < ORACLE_RANKS; r++)
        for (unsigned c = 0; c < ORACLE_CHUNKS; c++) {
            cut->largest = cut->in[r][c] > cut->largest ? cut->in[r][c] : cut->largest;
            cut->largest = cut->out[r][c] > cut->largest ? cut->out[r][c] : cut->largest;
        }
}

static void roll_cut(dice *d, const plan *p, model_cut *cut)
{
    uint32_t lengths[ORACLE_CHUNKS] = {0};
    const uint32_t most = 1 + roll_dice(d, ORACLE_PIECES);
    for (unsigned c = 0; c < ORACLE_CHUNKS; c++)
        lengths[c] = c == 0 ? most : roll_dice(d, most + 1);
    *cut = (model_cut){.tensors = 1, .piece = 1 + roll_dice(d, 3), .stream = roll_dice(d, 4) == 0};
    if (p->collective == PLAN_BARRIER)
        return;
    if (oracle_may_be_in_place(p))
        cut_alike(d, cut, p, lengths);
    else
        cut_by_rank(d, cut, p, lengths);
    if (p->uses_collectives && !p->layout.packed)
        cut->tensors = 1; /* the transport takes what lies in one piece */
    if (cut->tensors == 1)
        cut->tensor_counts[0] = ORACLE_CHUNKS * ORACLE_PIECES;
    find_largest(cut);
}

void case_space(const model_operation *o, oracle_space *space)
{
    const plan *p = o->team.plans[0];
    uint32_t tensor = 0, left = o->cut.tensor_counts[0];
    memset(space, 0, sizeof *space);
    for (uint32_t c = 0; c < p->chunks && oracle_may_be_in_place(p); c++) {
        space->lengths[c] = o->cut.in[0][c];
        for (uint32_t i = 0; i < o->cut.in[0][c]; i++, left--) {
            while (left == 0)
                left = o->cut.tensor_counts[++tensor];
            space->tensor_of[c][i] = (uint8_t)tensor;
        }
    }
}

/* ---- Cases ----------------------------------------------------------------------------------- */

bool case_make(dice *d, const place_of_ranks *place, model_operation *o, origin *from)
{
    *from = roll_dice(d, 3) ? FROM_ALGORITHM : FROM_DICE;
    const bool built = *from == FROM_DICE ? authors_build(d, place, &o->team)
                                          : build_by_algorithm(d, place, &o->team);
    if (!built)
        return false;
    if (!fits_the_oracle(&o->team)) {
        team_free(&o->team);
        return false;
    }
    if (roll_dice(d, 3)) {
        unsigned wanted = 1 + roll_dice(d, MOST_DAMAGES);
        for (unsigned tries = 0; tries < 16 && wanted > 0; tries++)
            wanted -= damage(d, &o->team);
        *from = DAMAGED;
    }
    roll_cut(d, o->team.plans[0], &o->cut);
    return o->cut.largest > 0 || o->team.plans[0]->collective == PLAN_BARRIER ||
           (team_free(&o->team), false);
}
