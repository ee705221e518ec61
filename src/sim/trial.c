/* trial.c: drawing a trial. */
#include "sim/trial.h"
#include "world/sim/random.h"

#include <stdio.h>
#include <string.h>

#define MS UINT64_C(1000000)
#define SECOND UINT64_C(1000000000)
#define POINTS_MOST 6000               /* of a rank, before a mishap */
#define ELASTIC_POINTS 2500            /* the same in an elastic job */
#define ELASTIC_STOP_NS (100 * SECOND) /* nobody can wait for it */
#define STEPS_MOST 30

/* ---- Dice -------------------------------------------------------------------------------------- */

typedef sim_stream dice;

enum dice_purpose { DICE_JOB = 100, DICE_SHARED, DICE_STRANGER, DICE_ELASTIC };

static uint64_t roll(dice *d, uint64_t below)
{
    return sim_below(d, below);
}

static bool chance(dice *d, uint32_t percent)
{
    return roll(d, 100) < percent;
}

/* Small values are more likely, so that tensors of no element, and of one, come often. */
static uint32_t roll_count(dice *d)
{
    static const uint32_t MOST[] = {2, 2, 10, 100, 100, 1500, TRIAL_ELEMENTS};
    return (uint32_t)roll(d, MOST[roll(d, sizeof MOST / sizeof *MOST)]);
}

/* ---- The job ------------------------------------------------------------------------------------ */

static void draw_hosts(trial *t, dice *d)
{
    t->ranks = 2 + (int)roll(d, chance(d, 30) ? TRIAL_RANKS - 1 : 3);
    t->hosts = chance(d, 45) ? 1 : 2 + (int)roll(d, TRIAL_HOSTS - 1);
    if (t->hosts > t->ranks)
        t->hosts = t->ranks;
    for (int r = 0; r < t->ranks; r++)
        t->host_of[r] = r < t->hosts ? r : (int)roll(d, (uint64_t)t->hosts);
    t->by_tcp = t->hosts == 1 && chance(d, 25);
    for (int r = 0; r < t->ranks; r++)
        t->start_ns[r] = roll(d, chance(d, 20) ? 2 * SECOND : 20 * MS);
}

static void draw_settings(trial *t, dice *d)
{
    static const int64_t SLOTS[] = {4096, 8192, 65536}, CACHES[] = {0, 3, 64};
    static const int64_t FUSIONS[] = {0, 2000, 128 << 20};
    static const int SPINS[] = {0, 2, 20}, YIELDS[] = {0, 5, 100};
    static const char *const ALGORITHMS[] = {"auto", "auto",     "auto",    "auto",
                                             "ring", "doubling", "halving", "tree"};
    t->slot_bytes = SLOTS[roll(d, 3)];
    t->cache_capacity = CACHES[roll(d, 3)];
    t->fusion_threshold = FUSIONS[roll(d, 3)];
    t->spin_us = SPINS[roll(d, 3)];
    t->yield_us = YIELDS[roll(d, 3)];
    t->algorithm = ALGORITHMS[roll(d, sizeof ALGORITHMS / sizeof *ALGORITHMS)];
    t->secure = chance(d, 50);
    t->encrypts = t->secure && chance(d, 30);
    t->has_launcher = chance(d, 70);
    t->heartbeat_s = 3 + (int)roll(d, 5);
}

static void draw_set(const trial *t, dice *d, trial_set *s)
{
    s->size = 0;
    for (int32_t r = 0; r < t->ranks; r++) {
        if (chance(d, 60))
            s->ranks[s->size++] = r;
    }
    if (s->size == 0)
        s->ranks[s->size++] = (int32_t)roll(d, (uint64_t)t->ranks);
}

static bool is_new(const trial *t, const trial_set *s)
{
    for (int i = 0; i < t->set_count; i++) {
        if (t->sets[i].size == s->size &&
            memcmp(t->sets[i].ranks, s->ranks, (size_t)s->size * sizeof *s->ranks) == 0)
            return false;
    }
    return true;
}

static void draw_sets(trial *t, dice *d)
{
    t->set_count = 1;
    t->sets[0].size = t->ranks;
    for (int32_t r = 0; r < t->ranks; r++)
        t->sets[0].ranks[r] = r;
    const int wanted = chance(d, 40) ? 1 + (int)roll(d, TRIAL_SETS - 1) : 0;
    for (int i = 0; i < wanted; i++) {
        trial_set *s = &t->sets[t->set_count];
        draw_set(t, d, s);
        t->set_count += is_new(t, s);
    }
}

/* ---- Tasks -------------------------------------------------------------------------------------- */

static bool is_float(rueda_dtype dtype)
{
    return dtype >= RUEDA_F16;
}

static bool reduces(task_kind kind)
{
    return kind == TASK_ALLREDUCE || kind == TASK_GROUP || kind == TASK_REDUCE ||
           kind == TASK_REDUCESCATTER;
}

/* By powers of two, so that all stays exact. */
static void draw_scales(task *k, dice *d)
{
    static const double SCALES[] = {1, 1, 0.5, 2};
    k->prescale = k->postscale = 1;
    if (!is_float(k->dtype) || !reduces(k->kind) || (k->op != RUEDA_SUM && k->op != RUEDA_AVERAGE))
        return;
    k->prescale = SCALES[roll(d, 4)];
    k->postscale = SCALES[roll(d, 4)];
}

static void draw_operator(task *k, dice *d)
{
    static const rueda_op OPS[] = {RUEDA_SUM, RUEDA_SUM, RUEDA_AVERAGE,
                                   RUEDA_MIN, RUEDA_MAX, RUEDA_PRODUCT};
    k->op = OPS[roll(d, sizeof OPS / sizeof *OPS)];
    if (k->kind == TASK_ALLREDUCE && chance(d, 30)) {
        k->op = RUEDA_ADASUM;
        k->dtype = (rueda_dtype)(RUEDA_F16 + roll(d, RUEDA_F64 - RUEDA_F16 + 1));
        k->alike = chance(d, 50);
    }
    if (k->op == RUEDA_AVERAGE && k->dtype == RUEDA_BOOL)
        k->op = RUEDA_MAX;
    draw_scales(k, d);
}

static void draw_manner(task *k, dice *d)
{
    k->shared = chance(d, 40);
    k->in_place = chance(d, 50);
    k->takes = chance(d, 30);
    k->uneven = chance(d, 50);
    k->from_anyone = chance(d, 30);
    k->forgotten = chance(d, 3);
    k->ndim = chance(d, 70) ? 1 : 2 + (int)roll(d, 2);
    k->priority = chance(d, 70) ? 0 : (int)roll(d, 5) - 2;
}

/* Tensors of the same name in later batches are the same, so that they are remembered. */
static void draw_task(const trial *t, dice *d, task *k, uint32_t number, int place)
{
    k->kind = chance(d, 50) ? TASK_ALLREDUCE : (task_kind)roll(d, TASK_KINDS);
    k->number = number;
    k->dtype = (rueda_dtype)roll(d, RUEDA_DTYPE_COUNT);
    k->count = roll_count(d);
    draw_operator(k, d);
    k->set = chance(d, 70) ? 0 : (int)roll(d, (uint64_t)t->set_count);
    const trial_set *s = &t->sets[k->set];
    k->root = s->ranks[roll(d, (uint64_t)s->size)];
    k->peer = s->ranks[roll(d, (uint64_t)s->size)];
    if (k->kind == TASK_MESSAGE && k->peer == k->root)
        k->kind = TASK_BARRIER;
    draw_manner(k, d);
    snprintf(k->name, sizeof k->name, "t%d.%u", place, chance(d, 60) ? 0 : number);
}

static void repeat_task(const trial *t, dice *d, task *k, uint32_t number)
{
    const batch *before = &t->batches[t->batch_count - 1];
    *k = before->tasks[roll(d, (uint64_t)before->count)];
    k->number = number;
    k->absent = 0;
    k->unnamed = false;
}

static bool has_name(const batch *b, const task *k)
{
    for (int i = 0; i < b->count; i++) {
        if (strcmp(b->tasks[i].name, k->name) == 0)
            return true;
    }
    return false;
}

/* All do some of the same allreduces, some ranks more of them than others. */
static void draw_join(const trial *t, dice *d, batch *b)
{
    int done[TRIAL_RANKS];
    for (int r = 0; r < t->ranks; r++)
        done[r] = (int)roll(d, (uint64_t)b->count + 1);
    b->joins = true;
    for (int i = 0; i < b->count; i++) {
        task *k = &b->tasks[i];
        k->kind = TASK_ALLREDUCE;
        k->set = RUEDA_GLOBAL_SET;
        k->op = k->dtype == RUEDA_BOOL || chance(d, 50) ? RUEDA_SUM : RUEDA_AVERAGE;
        k->prescale = k->postscale = 1;
        k->unnamed = k->forgotten = false;
        for (int r = 0; r < t->ranks; r++)
            k->absent |= (uint32_t)(done[r] <= i) << r;
    }
}

/* Ranks that call in the same order need no names. What is forgotten may be in flight until the end, so its name does
 * not come again, and nobody leaves before all have submitted it. */
static void draw_names(const trial *t, dice *d, batch *b)
{
    for (int i = 0; i < b->count; i++) {
        task *k = &b->tasks[i];
        k->unnamed = b->one_by_one && chance(d, 20);
        k->forgotten = k->forgotten && t->ends_together;
        if (k->forgotten)
            snprintf(k->name, sizeof k->name, "f%u", k->number);
    }
}

static void draw_batch(trial *t, dice *d, batch *b, uint32_t *number)
{
    const int wanted = 1 + (int)roll(d, TRIAL_TASKS);
    *b = (batch){.compute_ns = roll(d, chance(d, 20) ? 200 * MS : 100000),
                 .one_by_one = chance(d, 30),
                 .waiting = (waiting)roll(d, WAITINGS),
                 .remade_set = chance(d, 15) ? (int)roll(d, (uint64_t)t->set_count) : 0};
    for (int i = 0; i < wanted; i++) {
        task *k = &b->tasks[b->count];
        if (t->batch_count > 0 && chance(d, 50))
            repeat_task(t, d, k, ++*number);
        else
            draw_task(t, d, k, ++*number, i);
        b->count += !has_name(b, k);
    }
    draw_names(t, d, b);
    if (chance(d, 8))
        draw_join(t, d, b);
}

static void draw_batches(trial *t, dice *d)
{
    uint32_t number = 0;
    const int wanted = 1 + (int)roll(d, TRIAL_BATCHES);
    /* who comes again where a rank is missing hears of it from the launcher alone */
    t->lives = t->has_launcher && chance(d, 15) ? 2 : 1;
    t->ends_together = chance(d, 65);
    t->sets_at_init = chance(d, 40);
    t->loner = chance(d, 15) ? (int)roll(d, (uint64_t)t->ranks) : -1;
    for (t->batch_count = 0; t->batch_count < wanted; t->batch_count++)
        draw_batch(t, d, &t->batches[t->batch_count], &number);
}

/* ---- Mishaps ------------------------------------------------------------------------------------ */

static void draw_mishap(const trial *t, dice *d, mishap *m)
{
    static const mishap_kind KINDS[] = {
        MISHAP_KILL,      MISHAP_KILL,      MISHAP_KILL, MISHAP_STOP,  MISHAP_STOP,    MISHAP_CUT,
        MISHAP_HALF_OPEN, MISHAP_PARTITION, MISHAP_SLOW, MISHAP_CLOCK, MISHAP_SHORTAGE};
    *m = (mishap){.kind = KINDS[roll(d, sizeof KINDS / sizeof *KINDS)],
                  .rank = (int)roll(d, (uint64_t)t->ranks)};
    m->other = (m->rank + 1 + (int)roll(d, (uint64_t)t->ranks - 1)) % t->ranks;
    if (chance(d, 60))
        m->at_point = 1 + roll(d, chance(d, 50) ? 300 : POINTS_MOST);
    m->at_ns = roll(d, chance(d, 50) ? 60 * MS : 3 * SECOND);
    m->nth = 1 + roll(d, 150);
    m->onwards = chance(d, 30);
    m->from_start = chance(d, 60);
    const uint64_t silence = (uint64_t)t->heartbeat_s * SECOND;
    m->lasts_ns = chance(d, 50) ? roll(d, silence / 3) : 2 * silence + roll(d, 10 * SECOND);
    m->jump_ns = m->lasts_ns;
}

static void draw_mishaps(trial *t, dice *d)
{
    const int wanted = chance(d, 20) ? 0 : chance(d, 75) ? 1 : 1 + (int)roll(d, TRIAL_MISHAPS);
    for (t->mishap_count = 0; t->mishap_count < wanted; t->mishap_count++)
        draw_mishap(t, d, &t->mishaps[t->mishap_count]);
    t->undisturbed = wanted == 0 && chance(d, 80);
}

/* ---- Memory that peers write ------------------------------------------------------------------------ */

/* Peers write to each other's memory only in large operations on memory of rueda_alloc on one host: some trials do
 * nothing else, and then one of the ranks often stops, perhaps in the midst of it, until the others know it for lost.
 */
static void draw_shared(trial *t, dice *d)
{
    if (t->hosts > 1 || t->by_tcp || !chance(d, 25))
        return;
    t->algorithm = "auto";
    for (int b = 0; b < t->batch_count; b++) {
        for (int i = 0; i < t->batches[b].count; i++) {
            task *k = &t->batches[b].tasks[i];
            k->shared = true;
            if (k->kind == TASK_ALLREDUCE && k->op != RUEDA_ADASUM)
                k->count += TRIAL_ELEMENTS / 2;
        }
    }
    if (t->mishap_count == 0 || chance(d, 30))
        return;
    mishap *m = &t->mishaps[0];
    m->kind = MISHAP_STOP;
    m->at_point = 1 + roll(d, POINTS_MOST / 4);
    m->lasts_ns = ((uint64_t)t->heartbeat_s + 3) * SECOND + roll(d, 3 * SECOND);
}

/* ---- Strangers ---------------------------------------------------------------------------------- */

/* Where all ranks share a host by shared memory there is no meeting that a stranger could call at. */
static void draw_stranger(trial *t, dice *d)
{
    t->has_stranger = (t->hosts > 1 || t->by_tcp) && chance(d, 20);
    t->stranger_rank = 1 + (int)roll(d, (uint64_t)t->ranks - 1);
    t->stranger_host = (int)roll(d, (uint64_t)t->hosts);
    t->stranger = (stranger_kind)roll(d, STRANGER_KINDS);
    if (t->stranger == STRANGER_KEY && !t->secure)
        t->stranger = STRANGER_NAME;
    t->stranger_ns = roll(d, 30 * MS);
    t->undisturbed = t->undisturbed && !t->has_stranger;
}

/* ---- Elastic jobs -------------------------------------------------------------------------------- */

static void draw_loss(const trial *t, dice *d, mishap *m)
{
    static const mishap_kind KINDS[] = {MISHAP_KILL, MISHAP_KILL, MISHAP_KILL, MISHAP_STOP,
                                        MISHAP_CLOCK};
    draw_mishap(t, d, m);
    m->kind = KINDS[roll(d, sizeof KINDS / sizeof *KINDS)];
    m->follows = m > t->mishaps && chance(d, 70);
    m->at_point = m->follows || m->at_point == 0 ? 0 : 1 + roll(d, ELASTIC_POINTS);
    if (m->follows)
        m->at_ns = roll(d, chance(d, 70) ? 40 * MS : 8 * SECOND);
    if (m->kind == MISHAP_STOP && chance(d, 70))
        m->lasts_ns = ((uint64_t)t->heartbeat_s + 3) * SECOND + roll(d, 3 * SECOND);
    if (chance(d, 25))
        m->lasts_ns = ELASTIC_STOP_NS;
}

/* On one host, where ranks die and stop. */
static void draw_elastic(trial *t, dice *d)
{
    t->elastic = true;
    t->hosts = 1;
    memset(t->host_of, 0, sizeof t->host_of);
    t->by_tcp = t->encrypts = t->has_stranger = t->undisturbed = false;
    t->set_count = t->lives = 1;
    t->batch_count = 0;
    t->loner = -1;
    t->steps = 3 + (int)roll(d, STEPS_MOST);
    t->elements = 1 + roll_count(d);
    t->shares = chance(d, 60);
    if (t->shares && chance(d, 70))
        t->elements += TRIAL_ELEMENTS / 2; /* peers write to each other's memory */
    t->algorithm = "auto";
    t->mishap_count = chance(d, 10) ? 0 : 1 + (int)roll(d, TRIAL_MISHAPS);
    for (int i = 0; i < t->mishap_count; i++)
        draw_loss(t, d, &t->mishaps[i]);
}

/* ---- What is left out ----------------------------------------------------------------------------- */

#define SIZE_LEFT 5 /* elements */

static void leave_out_tasks(batch *b, const trial_limits *limits)
{
    int kept = 0;
    for (int i = 0; i < b->count; i++) {
        if ((limits->tasks >> b->tasks[i].number & 1) == 0)
            b->tasks[kept++] = b->tasks[i];
    }
    b->count = kept;
    for (int i = 0; i < kept && limits->sizes; i++) {
        if (b->tasks[i].count > SIZE_LEFT)
            b->tasks[i].count = SIZE_LEFT;
    }
}

static void leave_out(trial *t, const trial_limits *limits)
{
    int batches = 0, mishaps = 0;
    for (int b = 0; b < t->batch_count; b++) {
        leave_out_tasks(&t->batches[b], limits);
        if ((limits->batches >> b & 1) == 0)
            t->batches[batches++] = t->batches[b];
    }
    for (int m = 0; m < t->mishap_count; m++) {
        if ((limits->mishaps >> m & 1) == 0)
            t->mishaps[mishaps++] = t->mishaps[m];
    }
    t->batch_count = batches;
    t->mishap_count = mishaps;
    t->has_stranger = t->has_stranger && !limits->stranger;
    t->lives = limits->lives ? 1 : t->lives;
    t->calm = limits->whims;
}

/* ---- The whole ---------------------------------------------------------------------------------- */

void trial_draw(trial *t, uint64_t seed, const trial_limits *limits)
{
    dice d = sim_stream_open(seed, DICE_JOB), shared = sim_stream_open(seed, DICE_SHARED),
         stranger = sim_stream_open(seed, DICE_STRANGER),
         elastic = sim_stream_open(seed, DICE_ELASTIC);
    memset(t, 0, sizeof *t);
    t->seed = seed;
    draw_hosts(t, &d);
    draw_settings(t, &d);
    draw_sets(t, &d);
    draw_batches(t, &d);
    draw_mishaps(t, &d);
    draw_shared(t, &shared);
    draw_stranger(t, &stranger);
    if (limits->elastic)
        draw_elastic(t, &elastic);
    leave_out(t, limits);
}

int trial_index(const trial *t, int set, int rank)
{
    for (int i = 0; i < t->sets[set].size; i++) {
        if (t->sets[set].ranks[i] == rank)
            return i;
    }
    return -1;
}

bool trial_takes_part(const trial *t, const task *k, int rank)
{
    if ((k->absent >> rank & 1) != 0)
        return false;
    if (k->kind == TASK_MESSAGE)
        return rank == k->root || rank == k->peer;
    return trial_index(t, k->set, rank) >= 0;
}

const char *task_name(task_kind kind)
{
    static const char *const NAMES[] = {
#define TASK_TEXT(name, call) #call,
        TASK_LIST(TASK_TEXT)};
    return NAMES[kind];
}
