/* p2p_test.c: the protocol of sends and receives with ranks that are only structures, over streams that take and
 * give as few bytes as chance wants, in an order that chance wants. What ends must be right, and all must end. */
#include "p2p/p2p_parts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define RANKS_MOST 4
#define STREAM_BYTES 70000
#define NAMES 3 /* the last one is received from anyone */
#define CALLS_MOST 640
#define STEPS_MOST 4000000

typedef struct stream {
    uint8_t bytes[STREAM_BYTES];
    size_t used;
} stream;

typedef struct model model;

typedef struct toy_channel {
    transport_channel common;
    model *model;
} toy_channel;

/* A send or a receive, and what it must bring. */
typedef struct trip {
    p2p_call *call;
    uint8_t *data;
    bool ended;
    rueda_status status;
    int source;
    uint64_t bytes;
    uint8_t mark; /* what all its bytes are */
} trip;

struct model {
    uint64_t dice;
    uint16_t ranks;
    uint16_t numbers[RANKS_MOST];
    segment segment;
    control control;
    control_members members[RANKS_MOST];
    toy_channel channels[RANKS_MOST];
    world_lock locks[RANKS_MOST];
    p2p *ends[RANKS_MOST];
    stream streams[RANKS_MOST][RANKS_MOST]; /* from, to */
    trip trips[RANKS_MOST][CALLS_MOST];     /* by whose call */
    uint32_t trip_count[RANKS_MOST];
};

static uint64_t roll(model *w, uint64_t below)
{
    w->dice = w->dice * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (w->dice >> 33) % below;
}

/* ---- A transport ----------------------------------------------------------------------------- */

static size_t toy_send(transport_channel *channel, uint16_t peer, const struct iovec *parts,
                       int count)
{
    model *w = ((toy_channel *)channel)->model;
    stream *s = &w->streams[channel->members->index][peer];
    size_t room = roll(w, 4) == 0 ? 0 : roll(w, 3) == 0 ? roll(w, 40) : STREAM_BYTES, taken = 0;
    if (room > STREAM_BYTES - s->used)
        room = STREAM_BYTES - s->used;
    for (int i = 0; i < count && taken < room; i++) {
        const size_t bytes = parts[i].iov_len < room - taken ? parts[i].iov_len : room - taken;
        memcpy(s->bytes + s->used + taken, parts[i].iov_base, bytes);
        taken += bytes;
    }
    s->used += taken;
    return taken;
}

static size_t toy_receive(transport_channel *channel, uint16_t peer, void *to, size_t bytes)
{
    model *w = ((toy_channel *)channel)->model;
    stream *s = &w->streams[peer][channel->members->index];
    size_t taken = roll(w, 5) == 0 ? roll(w, 30) : bytes;
    taken = taken < bytes ? taken : bytes;
    taken = taken < s->used ? taken : s->used;
    memcpy(to, s->bytes, taken);
    memmove(s->bytes, s->bytes + taken, s->used - taken);
    s->used -= taken;
    return taken;
}

static void toy_close(transport_channel *channel)
{
    (void)channel;
}

static bool toy_ended(transport_channel *channel, uint16_t peer)
{
    return ((toy_channel *)channel)->model->streams[peer][channel->members->index].used == 0;
}

static const transport_table toy = {.name = "toy",
                                    .send = toy_send,
                                    .receive = toy_receive,
                                    .close = toy_close,
                                    .ended = toy_ended};

/* ---- A model --------------------------------------------------------------------------------- */

static model *model_new(uint16_t ranks, uint64_t seed)
{
    model *w = calloc(1, sizeof *w);
    const config settings = {.channels = 1, .slot_bytes = 64, .cache_capacity = 64};
    w->dice = seed * 2 + 1;
    w->ranks = ranks;
    assert_int_equal(segment_create(&w->segment, &settings, ranks, 1), RUEDA_OK);
    w->control = (control){.segment = &w->segment, .generation = 1};
    for (uint16_t r = 0; r < ranks; r++) {
        w->numbers[r] = r;
        w->members[r] = (control_members){&w->control, 0, ranks, r, w->numbers, 0};
        w->channels[r] = (toy_channel){{.table = &toy, .members = &w->members[r]}, w};
        world_lock_init(&w->locks[r]);
        w->ends[r] = p2p_new(&w->members[r], &w->locks[r]);
        p2p_set_channel(w->ends[r], &w->channels[r].common);
    }
    return w;
}

static void model_free(model *w)
{
    for (uint16_t r = 0; r < w->ranks; r++) {
        p2p_free(w->ends[r]);
        for (uint32_t i = 0; i < w->trip_count[r]; i++)
            free(w->trips[r][i].data);
    }
    segment_close(&w->segment);
    free(w);
}

/* One trip of rank `r`, who is told of its end by the call's place. */
static void start(model *w, uint16_t r, bool sends, int32_t member, const char *name,
                  uint64_t bytes, uint8_t mark)
{
    trip *t = &w->trips[r][w->trip_count[r]++];
    p2p_call *call = p2p_call_new(name);
    *t = (trip){.call = call, .data = malloc(bytes + 1), .bytes = bytes, .mark = mark};
    memset(t->data, sends ? mark : 0, bytes + 1);
    call->sends = sends;
    call->member = member;
    call->data = t->data;
    call->tensor =
        (p2p_tensor){.dtype = RUEDA_U8, .ndim = 1, .bytes = bytes, .shape = {(int64_t)bytes}};
    call->request = request_new(1, 0);
    world_lock_take(&w->locks[r]);
    p2p_submit(w->ends[r], call);
    world_lock_release(&w->locks[r]);
}

static trip *trip_of(model *w, uint16_t r, const p2p_call *call)
{
    for (uint32_t i = 0; i < w->trip_count[r]; i++) {
        if (w->trips[r][i].call == call)
            return &w->trips[r][i];
    }
    return NULL;
}

static void reap(model *w, uint16_t r)
{
    for (p2p_call *call; (call = p2p_take_ended(w->ends[r])) != NULL;) {
        trip *t = trip_of(w, r, call);
        assert_non_null(t);
        t->ended = true;
        t->call = NULL;
        t->status = call->request->status;
        t->source = call->sends ? -1 : call->request->output.source;
        request_end(call->request, RUEDA_OK, "");
        request_release(call->request);
        p2p_call_free(call);
    }
}

static void step(model *w, uint16_t r)
{
    bool moved = false;
    assert_int_equal(p2p_step(w->ends[r], &moved), RUEDA_OK);
    for (uint16_t peer = 0; peer < w->ranks; peer++)
        assert_true(w->ends[r]->peers[peer].eager <= P2P_EAGER_MOST);
    reap(w, r);
}

static bool is_over(const model *w)
{
    for (uint16_t r = 0; r < w->ranks; r++) {
        if (p2p_pending(w->ends[r]) > 0 || p2p_has_mail(w->ends[r]))
            return false;
    }
    return true;
}

/* ---- Trips by chance ------------------------------------------------------------------------- */

static const char *const names[NAMES] = {"a", "b", "anyone"};
static const uint64_t sizes[] = {0, 1, 7, 8, 1000, P2P_EAGER_BYTES, P2P_EAGER_BYTES + 1, 300001};

/* What the n-th trip of a name between two ranks carries; both sides know it. From anyone all are alike. */
static uint64_t size_of(uint64_t seed, uint16_t from, uint16_t to, int name, uint32_t n)
{
    const uint64_t mixed = (seed * 31 + from * 7u + to * 13u + (uint64_t)name) * 17 + n;
    return sizes[(name == NAMES - 1 ? seed + to : mixed) % (sizeof sizes / sizeof *sizes)];
}

typedef struct plan_of_trips {
    uint32_t planned[RANKS_MOST][RANKS_MOST][NAMES], sent[RANKS_MOST][RANKS_MOST][NAMES],
        received[RANKS_MOST][RANKS_MOST][NAMES];
} plan_of_trips;

static uint8_t mark_of(uint16_t from, uint32_t n)
{
    return (uint8_t)(1 + from * 60 + n % 50);
}

/* Starts one trip that is still to be started, at either of its ends; false: there is none. */
static bool start_some(model *w, plan_of_trips *p, uint64_t seed)
{
    const uint64_t places = (uint64_t)RANKS_MOST * RANKS_MOST * NAMES * 2, first = roll(w, places);
    for (uint64_t i = 0; i < places; i++) {
        const uint64_t at = (first + i) % places;
        const uint16_t from = (uint16_t)(at / 2 / NAMES / RANKS_MOST % RANKS_MOST);
        const uint16_t to = (uint16_t)(at / 2 / NAMES % RANKS_MOST);
        const int name = (int)(at / 2 % NAMES);
        const bool sends = at % 2 != 0;
        uint32_t *done = sends ? &p->sent[from][to][name] : &p->received[from][to][name];
        if (*done == p->planned[from][to][name])
            continue;
        const uint32_t n = (*done)++;
        const bool anyone = name == NAMES - 1 && !sends;
        start(w, sends ? from : to, sends,
              sends    ? to
              : anyone ? P2P_ANYONE
                       : from,
              names[name], size_of(seed, from, to, name, n), anyone ? 0 : mark_of(from, n));
        return true;
    }
    return false;
}

/* Who was received from anyone comes in the order of its sends, too. */
static void check_trips(const model *w)
{
    for (uint16_t r = 0; r < w->ranks; r++) {
        uint32_t from_anyone[RANKS_MOST] = {0};
        for (uint32_t i = 0; i < w->trip_count[r]; i++) {
            const trip *t = &w->trips[r][i];
            assert_true(t->ended);
            assert_int_equal(t->status, RUEDA_OK);
            const uint8_t mark =
                t->mark != 0 ? t->mark : mark_of((uint16_t)t->source, from_anyone[t->source]++);
            for (uint64_t b = 0; b < t->bytes; b++) {
                if (t->data[b] != mark)
                    fail_msg("rank %u, trip %u, byte %llu", r, i, (unsigned long long)b);
            }
        }
    }
}

static void travel(uint64_t seed)
{
    model *w = model_new((uint16_t)(1 + seed % RANKS_MOST), seed);
    plan_of_trips p = {0};
    for (uint16_t from = 0; from < w->ranks; from++) {
        for (uint16_t to = 0; to < w->ranks; to++) {
            for (int name = 0; name < NAMES; name++)
                p.planned[from][to][name] = (uint32_t)roll(w, seed % 5 == 0 ? 25 : 6);
        }
    }
    bool more = true;
    for (uint32_t i = 0; more || !is_over(w); i++) {
        if (i > STEPS_MOST)
            fail_msg("seed %llu does not end", (unsigned long long)seed);
        if (more && roll(w, 3) == 0)
            more = start_some(w, &p, seed);
        step(w, (uint16_t)roll(w, w->ranks));
    }
    check_trips(w);
    model_free(w);
}

static void trips_end_right_whatever_comes_first(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 60; seed++)
        travel(seed);
}

/* ---- Bounds ---------------------------------------------------------------------------------- */

/* Nobody receives: what was sent with announcements stays below its limit, however many there are. */
static void what_nobody_wants_takes_little(void **state)
{
    (void)state;
    model *w = model_new(2, 1);
    for (int i = 0; i < 300; i++)
        start(w, 0, true, 1, "unwanted", P2P_EAGER_BYTES, 5);
    start(w, 1, false, 0, "wanted", 1000, 9);
    start(w, 0, true, 1, "wanted", 1000, 9); /* behind all others, and not held up by them */
    for (int i = 0; i < 20000; i++)
        step(w, (uint16_t)(i % 2));
    assert_int_equal(p2p_pending(w->ends[1]), 0);
    assert_int_equal(p2p_pending(w->ends[0]), 300);
    uint64_t eager = 0;
    for (uint32_t b = 0; b < P2P_BUCKETS; b++) {
        for (const p2p_arrival *a = w->ends[1]->buckets[b].arrivals; a != NULL; a = a->next)
            eager += a->eager ? a->tensor.bytes : 0;
    }
    assert_true(eager > 0 && eager <= P2P_EAGER_MOST);
    p2p_abandon(w->ends[0]);
    reap(w, 0);
    model_free(w);
}

/* Bytes that are no frame end the job, and nothing else happens. */
static void a_stray_frame_is_an_error(void **state)
{
    (void)state;
    const p2p_frame good = {.kind = P2P_ANNOUNCE};
    for (int i = 0; i < 6; i++) {
        bool moved = false;
        model *w = model_new(2, 1);
        p2p_frame bad = good;
        bad.mark = w->ends[0]->mark + (i == 0);
        bad.kind = i == 1 ? 0 : i == 2 ? P2P_KIND_COUNT : i == 5 ? P2P_DATA : P2P_ANNOUNCE;
        bad.ndim = i == 3 ? RUEDA_MAX_DIMS + 1 : 0;
        bad.name_length = i == 4 ? RUEDA_MAX_NAME + 1 : 0;
        memcpy(w->streams[1][0].bytes, &bad, sizeof bad);
        w->streams[1][0].used = sizeof bad;
        start(w, 0, false, 1, "x", 8, 0);
        rueda_status status = RUEDA_OK;
        for (int tries = 0; tries < 1000 && status == RUEDA_OK; tries++)
            status = p2p_step(w->ends[0], &moved);
        assert_int_equal(status, RUEDA_ERR_INTERNAL);
        assert_non_null(strstr(status_text(), "from rank 1"));
        p2p_abandon(w->ends[0]);
        reap(w, 0);
        model_free(w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trips_end_right_whatever_comes_first),
        cmocka_unit_test(what_nobody_wants_takes_little),
        cmocka_unit_test(a_stray_frame_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
