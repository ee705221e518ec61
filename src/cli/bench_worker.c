/* bench_worker.c: the ranks of a bench. Rank 0 leads: for each size it lets both sides take turns in
 * short slices, because a machine's speed changes within seconds.
 */
#include "cli/bench.h"
#include "cli/bench_data.h"
#include "cli/bench_engine.h"
#include "cli/bench_peer.h"
#include "cli/bench_report.h"
#include "cli/bench_scenario.h"

#include <stdio.h>
#include <string.h>

#define SLICE_US 30000.0  /* length of a slice */
#define SLICES_MIN 5      /* of each side, at each size, however long that takes … */
#define OVERTIME 10       /* … up to so many times the time given */
#define GROWTH 64         /* iterations of a slice by those of the slice before, at most */
#define COLLECT_S 0.5     /* between two looks whether the peer is still there */
#define PEER_TIMEOUT_S 60 /* for one slice of the peer */
#define PROGRESS_S 0.25   /* between two signs of life */
#define NS_PER_S 1e9

typedef struct leader {
    const bench_options *options;
    slice_engine engine;
    bench_peer_process peer;
    double shown_s; /* when progress was shown last, by the clock of the size */
} leader;

/* One of the two that take turns. */
typedef struct contender {
    board_team team;
    board_order order;
    bench_side side;
    double wanted; /* iterations of the next slice */
    bool known;    /* its speed is known: slices count */
} contender;

static bool run_ours(leader *l, const board_order *order)
{
    board *b = l->engine.board;
    board_give(b, BOARD_OURS, order);
    if (!slice_run(&l->engine, order))
        return false;
    board_answer(b, BOARD_OURS);
    while (!board_collect(b, BOARD_OURS, COLLECT_S)) {
        if (b->teams[BOARD_OURS].failed)
            return false;
    }
    return true;
}

static bool run_peer(leader *l, const board_order *order)
{
    board *b = l->engine.board;
    const board_order trip = {.kind = BOARD_TRIP};
    if (!run_ours(l, &trip))
        return false;
    b->teams[BOARD_PEER].trip_us = b->teams[BOARD_OURS].trip_us;
    board_give(b, BOARD_PEER, order);
    for (double waited = 0; !board_collect(b, BOARD_PEER, COLLECT_S); waited += COLLECT_S) {
        const char *reason = b->teams[BOARD_PEER].failed   ? b->teams[BOARD_PEER].error
                             : !bench_peer_alive(&l->peer) ? "it has ended"
                             : waited > PEER_TIMEOUT_S     ? "it does not answer"
                                                           : NULL;
        if (reason != NULL) {
            fprintf(stderr, "rueda bench: %s: %s\n", bench_peer_name(l->options->against), reason);
            return false;
        }
    }
    return true;
}

static void note_slice(contender *c, const board_state *t)
{
    const float trip = (float)t->trip_us;
    const size_t count = (size_t)c->order.iterations;
    samples_add(&c->side.all, t->samples, count);
    c->side.wrong += t->wrong;
    c->side.messages = t->messages;
    if (trip == 0)
        return; /* one rank: there is no way between cores */
    samples_add(&c->side.trips, &trip, 1);
    samples_add(trip < BENCH_NEAR_US ? &c->side.near : &c->side.far, t->samples, count);
}

/* How many iterations fill a slice, by the one that just was. */
static void adapt(contender *c, const board_state *t)
{
    double total = 1e-3;
    for (int i = 0; i < c->order.iterations; i++)
        total += t->samples[i];
    const double each = total / c->order.iterations + 1e3 * c->order.idle_ms;
    const double fitting = SLICE_US / each;
    c->known = fitting < 2 * c->wanted;
    c->wanted = fitting < GROWTH * c->wanted ? fitting : GROWTH * c->wanted;
    if (c->wanted > BOARD_SAMPLES) {
        c->wanted = BOARD_SAMPLES;
        c->known = true;
    }
}

static bool run_slice(leader *l, contender *c)
{
    const bool known = c->known;
    c->order.iterations = c->wanted < 1 ? 1 : (int)c->wanted;
    if (!(c->team == BOARD_OURS ? run_ours : run_peer)(l, &c->order))
        return false;
    const board_state *t = &l->engine.board->teams[c->team];
    if (known)
        note_slice(c, t);
    if (!known)
        c->side.wrong += t->wrong;
    const double before = c->wanted;
    adapt(c, t);
    if (known) { /* never again a slice that does not count */
        c->known = true;
        c->wanted = c->wanted < 2 * before ? c->wanted : 2 * before;
    }
    return true;
}

static bool enough(const leader *l, const contender *c, int slices, double seconds)
{
    const bench_options *o = l->options;
    if (o->iterations > 0)
        return c->side.all.count >= (size_t)o->iterations;
    return seconds >= o->seconds && (slices >= SLICES_MIN * (o->against == PEER_NONE ? 1 : 2) ||
                                     seconds >= OVERTIME * o->seconds);
}

static void show_progress(leader *l, uint64_t bytes, double seconds)
{
    FILE *to = l->options->progress;
    if (to == NULL || (seconds > l->shown_s && seconds < l->shown_s + PROGRESS_S))
        return;
    l->shown_s = seconds;
    fprintf(to, "\r%s, %llu bytes: %.0f s\033[K", l->options->what, (unsigned long long)bytes,
            seconds);
    fflush(to);
}

static void clear_progress(const leader *l)
{
    if (l->options->progress == NULL)
        return;
    fputs("\r\033[K", l->options->progress);
    fflush(l->options->progress);
}

static contender make_contender(const leader *l, board_team team, rueda_op op, uint64_t count)
{
    const bench_options *o = l->options;
    contender c = {.team = team, .wanted = 1};
    bench_data shape = l->engine.data;
    shape.collective = o->collective;
    shape.op = op;
    shape.dtype = o->dtype;
    c.order = (board_order){.kind = BOARD_MEASURE,
                            .collective = (int)o->collective,
                            .op = (int)op,
                            .dtype = (int)o->dtype,
                            .count = count,
                            .burst = bench_data_burst(&shape),
                            .idle_ms = (int)o->idle_ms,
                            .async = o->async,
                            .busy_peer = o->busy_peer};
    return c;
}

static void free_contender(contender *c)
{
    samples_clear(&c->side.all);
    samples_clear(&c->side.near);
    samples_clear(&c->side.far);
    samples_clear(&c->side.trips);
}

static bool measure_size(leader *l, uint64_t wanted_bytes)
{
    const bench_options *o = l->options;
    const uint64_t width = rueda_dtype_bytes(o->dtype);
    const uint64_t count =
        bench_data_round(o->collective, (wanted_bytes + width - 1) / width, (int)o->ranks);
    contender ours = make_contender(l, BOARD_OURS, o->op, count), peer = {0};
    if (o->against != PEER_NONE) /* nobody else has Adasum: their sum is what it must bear with */
        peer = make_contender(l, o->against == PEER_SUM ? BOARD_OURS : BOARD_PEER,
                              o->op == RUEDA_ADASUM ? RUEDA_SUM : o->op, count);
    const uint64_t start = world_now_ns();
    double seconds = 0;
    bool ok = true;
    for (int slices = 0; ok && !enough(l, &ours, slices, seconds);) {
        slices += ours.known;
        ok = run_slice(l, &ours);
        if (ok && o->against != PEER_NONE) {
            slices += peer.known;
            ok = run_slice(l, &peer);
        }
        seconds = (double)(world_now_ns() - start) / NS_PER_S;
        show_progress(l, count * width, seconds);
    }
    clear_progress(l);
    if (ok)
        report_row(o, count * width, &ours.side, o->against != PEER_NONE ? &peer.side : NULL);
    free_contender(&ours);
    free_contender(&peer);
    return ok;
}

static bool lead(leader *l, int board_fd)
{
    const bench_options *o = l->options;
    board *b = l->engine.board;
    const board_order quit = {.kind = BOARD_QUIT};
    if (o->against > PEER_SUM && !bench_peer_start(&l->peer, o, board_fd))
        return false;
    report_head(o);
    bool ok = true;
    for (int i = 0; ok && i < o->size_count; i++)
        ok = measure_size(l, o->sizes[i]);
    if (ok)
        report_foot(o);
    board_give(b, BOARD_OURS, &quit);
    if (o->against > PEER_SUM) {
        board_give(b, BOARD_PEER, &quit);
        bench_peer_end(&l->peer, ok);
    }
    slice_end(&l->engine);
    return ok;
}

int bench_worker(const bench_options *o, int board_fd)
{
    board *b = board_map(board_fd);
    if (b == NULL || rueda_init(NULL) != RUEDA_OK) {
        fprintf(stderr, "rueda bench: %s\n", b == NULL ? status_text() : rueda_error());
        return 1;
    }
    board_bind(b, rueda_rank());
    leader l = {.options = o, .engine = bench_engine(b, o->shared)};
    const bool ok = o->scenario != NULL ? o->scenario->run(o, b)
                    : rueda_rank() == 0 ? lead(&l, board_fd)
                                        : slice_serve(&l.engine);
    if (!ok)
        return 1;
    return rueda_shutdown() != RUEDA_OK;
}
