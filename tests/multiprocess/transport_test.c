/* transport_test.c: what every transport must do (transport.h), tried on each that the registry has; with
 * RUEDA_TRANSPORT on that one alone. ctest: timeout=180 */
#include "../faults/fail_nth.h"
#include "station.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define STREAM_BYTES 700000 /* more than a stream can hold: it wraps around several times */
#define MOST_AT_ONCE 90000
#define LAST_BYTES 5000 /* that a rank sends before it leaves */
#define PATIENCE 2000   /* tries before a stream counts as full */
_Static_assert(STREAM_BYTES % 8 == 0, "keep_alignment sends whole words");

/* Byte `at` of the stream from one rank to another on a channel. */
static uint8_t byte_of(uint32_t channel, int from, int to, size_t at)
{
    return (uint8_t)(at * 31 + at / 251 + channel * 7 + (size_t)from * 13 + (size_t)to * 29);
}

typedef struct stream {
    size_t sent, received;
} stream;

static bool send_some(station *s, uint32_t channel, uint16_t peer, stream *progress, dice *d)
{
    static uint8_t data[MOST_AT_ONCE];
    const size_t rest = STREAM_BYTES - progress->sent;
    size_t bytes = 1 + roll_below(d, roll_below(d, 4) == 0 ? MOST_AT_ONCE : 100);
    bytes = bytes < rest ? bytes : rest;
    for (size_t i = 0; i < bytes; i++)
        data[i] = byte_of(channel, s->members.index, peer, progress->sent + i);
    /* in two parts, one of them empty now and then */
    const size_t first = roll_below(d, bytes + 1);
    const struct iovec parts[] = {{data, first}, {data + first, bytes - first}};
    const size_t taken = s->table->send(s->channels[channel], peer, parts, 2);
    memset(data, 0xee, bytes); /* it was copied: our memory is free */
    CHECK(taken <= bytes);
    progress->sent += taken;
    return taken > 0;
}

static void check_bytes(const station *s, uint32_t channel, uint16_t peer, size_t at,
                        const uint8_t *data, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (data[i] != byte_of(channel, peer, s->members.index, at + i))
            rank_fail(__FILE__, __LINE__, "byte %zu from rank %u on channel %u is wrong", at + i,
                      peer, channel);
}

static bool receive_copy(station *s, uint32_t channel, uint16_t peer, stream *progress,
                         size_t bytes)
{
    static uint8_t data[STREAM_BYTES];
    const size_t got = s->table->receive(s->channels[channel], peer, data, bytes);
    CHECK(got > 0 && got <= bytes);
    check_bytes(s, channel, peer, progress->received, data, got);
    progress->received += got;
    return true;
}

static bool receive_some(station *s, uint32_t channel, uint16_t peer, stream *progress, dice *d)
{
    const void *data = NULL, *again = NULL;
    const size_t bytes = s->table->peek(s->channels[channel], peer, &data);
    if (bytes == 0)
        return false;
    CHECK(bytes <= STREAM_BYTES - progress->received);
    if (roll_below(d, 3) == 0)
        return receive_copy(s, channel, peer, progress, 1 + roll_below(d, bytes));
    CHECK(s->table->peek(s->channels[channel], peer, &again) >= bytes);
    CHECK(again == data); /* it stays until it is consumed */
    const size_t part = 1 + roll_below(d, bytes);
    check_bytes(s, channel, peer, progress->received, data, part);
    s->table->consume(s->channels[channel], peer, part);
    progress->received += part;
    return true;
}

/* All channels, all peers and both directions at once, in pieces of all lengths. */
static void stream_everywhere(int rank, int size, const void *argument)
{
    station s;
    stream streams[STATION_CHANNELS][8] = {{{0, 0}}};
    dice d = {(unsigned long long)rank + 5};
    open_station(&s, argument, rank);
    for (bool done = false; !done;) {
        bool moved = control_pump(&s.job, world_now_ns());
        done = true;
        for (uint32_t c = 0; c < STATION_CHANNELS; c++) {
            for (uint16_t peer = 0; peer < size; peer++) {
                stream *now = &streams[c][peer];
                if (peer == rank)
                    continue;
                doing("channel %u, peer %u: %zu sent, %zu received", c, peer, now->sent,
                      now->received);
                if (now->sent < STREAM_BYTES)
                    moved |= send_some(&s, c, peer, now, &d);
                if (now->received < STREAM_BYTES)
                    moved |= receive_some(&s, c, peer, now, &d);
                done = done && now->sent == STREAM_BYTES && now->received == STREAM_BYTES;
            }
        }
        if (!moved)
            sched_yield();
    }
    close_station(&s);
}

/* Until nothing is taken any more, however often it is tried. */
static size_t fill(station *s, uint32_t channel, uint16_t peer)
{
    static uint8_t data[100000];
    size_t taken = 0;
    for (int refused = 0; refused < PATIENCE; refused++) {
        const size_t last =
            s->table->send(s->channels[channel], peer, &(struct iovec){data, sizeof data}, 1);
        taken += last;
        if (last > 0)
            refused = 0;
        sched_yield();
    }
    return taken;
}

/* A stream that nobody reads takes some bytes and then no more; the other channels go on. */
static void fill_a_stream(int rank, int size, const void *argument)
{
    (void)size;
    static uint8_t data[1000];
    station s;
    open_station(&s, argument, rank);
    const uint16_t peer = (uint16_t)(1 - rank);
    const void *at;
    CHECK_EQUAL(s.table->peek(s.channels[0], peer, &at), 0);
    CHECK_EQUAL(s.table->send(s.channels[0], peer, &(struct iovec){data, 0}, 1), 0);
    meet();
    _Atomic int *filled = job_counter(0); /* in units of 8 bytes */
    if (rank == 0) {
        const size_t taken = fill(&s, 0, 1);
        CHECK(taken > 0);
        atomic_store(filled, (int)(taken / 8));
        send_whole(&s, 1, 1, data, 10);
    }
    if (rank == 0)
        atomic_fetch_add(job_counter(1), 1);
    while (atomic_load(job_counter(1)) == 0)
        sched_yield();
    if (rank == 1) {
        receive_whole(&s, 1, 0, data, 10);
        CHECK_EQUAL(s.table->peek(s.channels[1], 0, &at), 0);
        size_t total = 0;
        while (total / 8 < (size_t)atomic_load(filled)) {
            const size_t bytes = s.table->peek(s.channels[0], 0, &at);
            s.table->consume(s.channels[0], 0, bytes);
            total += bytes;
        }
        atomic_fetch_add(job_counter(2), 1);
    }
    while (atomic_load(job_counter(2)) == 0)
        control_pump(&s.job, world_now_ns()); /* what was taken must also leave */
    if (rank == 0)
        send_whole(&s, 0, 1, data, 100);
    close_station(&s);
}

/* Where a multiple of 8 bytes has come before, the next one is aligned, also around the end of the
 * memory. */
static void keep_alignment(int rank, int size, const void *argument)
{
    (void)size;
    static uint64_t data[1000];
    station s;
    dice d = {3};
    open_station(&s, argument, rank);
    for (size_t moved = 0; moved < STREAM_BYTES;) {
        size_t rest = STREAM_BYTES - moved, part = 8 * (1 + roll_below(&d, 900));
        part = part < rest ? part : rest;
        if (rank == 0) {
            send_whole(&s, 0, 1, data, part);
        } else {
            const void *at;
            const size_t bytes = s.table->peek(s.channels[0], 0, &at) / 8 * 8;
            part = part < bytes ? part : bytes;
            CHECK(part == 0 || (uintptr_t)at % 8 == 0);
            s.table->consume(s.channels[0], 0, part);
        }
        moved += part;
        sched_yield();
    }
    close_station(&s);
}

/* Peer memory: what one writes before a meeting the others read after it. */
static void read_peer_memory(int rank, int size, const void *argument)
{
    station s;
    int64_t *mark; /* in our heap: the peers find it by the address that we tell */
    open_station(&s, argument, rank);
    CHECK_OK(heap_alloc(&s.heap, sizeof *mark, (void **)&mark));
    *mark = 1000 + rank;
    for (uint32_t c = 0; c < STATION_CHANNELS; c++) {
        const transport_channel *channel = s.channels[c];
        const transport_peer *own = &channel->peers[rank];
        CHECK(channel->slot_bytes > 0);
        if (own->flag == NULL)
            continue; /* a transport without peer memory */
        memset(own->slots, 10 * rank + (int)c, 4 * channel->slot_bytes);
        own->sums[0] = rank + 0.5;
        own->sums[2 * SEGMENT_SUMS * SEGMENT_SUM_PARTS - 1] = rank + 0.25;
        CHECK(own->heap == s.heap.base);
        own->addresses[SEGMENT_ADDRESSES - 1].out = (uint64_t)((uint8_t *)mark - own->heap);
        atomic_store(&own->flag->value, (uint64_t)rank * 100 + c);
    }
    meet();
    for (uint32_t c = 0; c < STATION_CHANNELS; c++) {
        for (int r = 0; r < size; r++) {
            const transport_peer *peer = &s.channels[c]->peers[r];
            if (peer->flag == NULL)
                continue;
            CHECK_EQUAL(atomic_load(&peer->flag->value), r * 100 + (int)c);
            CHECK(peer->sums[0] == r + 0.5 &&
                  peer->sums[2 * SEGMENT_SUMS * SEGMENT_SUM_PARTS - 1] == r + 0.25);
            CHECK_EQUAL(
                *(int64_t *)(void *)(peer->heap + peer->addresses[SEGMENT_ADDRESSES - 1].out),
                1000 + r);
            for (size_t i = 0; i < 4 * s.channels[c]->slot_bytes; i++)
                CHECK(peer->slots[i] == (uint8_t)(10 * r + (int)c));
        }
    }
    meet();
    CHECK_OK(heap_free(&s.heap, mark));
    close_station(&s);
}

/* ---- who leaves ------------------------------------------------------------------------------ */

/* As the engine does: what was sent is on its way before the others hear that we leave. */
static void send_and_leave(station *s, const uint8_t *data, size_t bytes)
{
    send_whole(s, 0, 0, data, bytes);
    while (s->table->flushed != NULL && !s->table->flushed(s->channels[0]))
        control_pump(&s->job, world_now_ns());
    control_leave(&s->job);
    if (s->job.network != NULL)
        network_flush(s->job.network, true, UINT64_C(10000000000));
    s->table->close(s->channels[0]);
    s->channels[0] = NULL;
}

/* All that was sent can be had, then `ended` says that nothing more will come. */
static void receive_to_the_end(station *s, const uint8_t *data, size_t bytes)
{
    static uint8_t got[LAST_BYTES];
    const void *at;
    receive_whole(s, 0, 1, got, bytes);
    CHECK(memcmp(got, data, bytes) == 0);
    doing("waiting until rank 1 has left");
    while (control_departure(&s->job, 1) == 0) {
        control_pump(&s->job, world_now_ns());
        sched_yield();
    }
    doing("waiting until the stream has ended");
    while (!s->table->ended(s->channels[0], 1)) {
        CHECK_EQUAL(s->table->peek(s->channels[0], 1, &at), 0);
        control_pump(&s->job, world_now_ns());
        sched_yield();
    }
    CHECK(!control_is_aborted(&s->job));
}

static void leave_after_sending(int rank, int size, const void *argument)
{
    (void)size;
    static uint8_t data[LAST_BYTES];
    station s;
    open_station(&s, argument, rank);
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = byte_of(0, 1, 0, i);
    if (rank == 1)
        send_and_leave(&s, data, sizeof data);
    else
        receive_to_the_end(&s, data, sizeof data);
    close_station(&s);
}

/* ---- collectives of its own ------------------------------------------------------------------ */

static void run_collective(station *s, const transport_collective *what)
{
    bool done = false;
    CHECK_OK(s->table->collect(s->channels[0], what));
    while (!done) {
        control_pump(&s->job, world_now_ns());
        CHECK_OK(s->table->collected(s->channels[0], &done));
        sched_yield();
    }
}

static void run_collectives(int rank, int size, const void *argument)
{
    station s;
    open_station(&s, argument, rank);
    CHECK((s.table->collect == NULL) == (s.table->collected == NULL));
    CHECK(s.table->join == NULL || s.table->leave != NULL);
    if (s.table->collect != NULL && ((const form *)argument)->ranks_on_host == 0) {
        int64_t in[3] = {rank, 2 * rank, 7}, out[3] = {0};
        run_collective(&s,
                       &(transport_collective){
                           .in = in, .out = out, .count = 3, .dtype = RUEDA_I64, .op = KERNEL_SUM});
        const int64_t sum = size * (size - 1) / 2;
        CHECK(out[0] == sum && out[1] == 2 * sum && out[2] == 7 * size);
        run_collective(&s, &(transport_collective){.is_broadcast = true,
                                                   .out = in,
                                                   .count = 3,
                                                   .dtype = RUEDA_I64,
                                                   .root = (uint16_t)(size - 1)});
        CHECK(in[0] == size - 1 && in[1] == 2 * (size - 1) && in[2] == 7);
    }
    close_station(&s);
}

/* ---- what goes wrong ------------------------------------------------------------------------- */

/* One call of the system fails. True: open asked for it. Whatever it says, nothing is left of the channel. */
static bool open_without_call(station *s, long call)
{
    fail_nth_note note = {.failed = false};
    transport_channel *const untouched = (transport_channel *)s, *channel = untouched;
    fail_nth_arm(call, false, &note);
    const rueda_status status =
        s->table->open(s->transports.job, &s->members, STATION_CHANNELS, &channel);
    fail_nth_disarm();
    CHECK(!control_is_aborted(&s->job));
    if (status == RUEDA_OK) {
        s->table->close(channel);
        return note.failed;
    }
    CHECK(note.failed);
    CHECK(status == RUEDA_ERR_MEMORY || status == RUEDA_ERR_SYSTEM);
    CHECK(strlen(status_text()) > 0);
    CHECK(channel == untouched);
    return true;
}

static void open_without_each_call(int rank, int size, const void *argument)
{
    (void)size;
    station s;
    long call = 1;
    open_station(&s, argument, rank);
    while (open_without_call(&s, call))
        call++;
    CHECK(call > 1); /* a channel has memory of its own at least */
    close_station(&s);
}

/* Looks at a new channel and sends on it; true: a call of the system failed on the way. */
static bool move_without_memory(station *s, transport_channel *channel, uint16_t peer)
{
    fail_nth_note note = {.failed = false};
    uint8_t word = 1;
    const struct iovec part = {&word, 1};
    const void *data;
    fail_nth_arm(1, true, &note);
    size_t moved = s->table->peek(channel, peer, &data);
    if (!note.failed)
        moved = s->table->send(channel, peer, &part, 1);
    fail_nth_disarm();
    CHECK(!note.failed || moved == 0);
    return note.failed;
}

/* What moves bytes has no status: it says why the job ends, and gives 0. */
static void fail_while_moving(int rank, int size, const void *argument)
{
    station s;
    transport_channel *channel;
    open_station(&s, argument, rank);
    CHECK_OK(s.table->open(s.transports.job, &s.members, STATION_CHANNELS, &channel));
    meet();
    if (rank == 1 && move_without_memory(&s, channel, (uint16_t)(size - 2))) {
        int culprit = -1;
        CHECK(control_is_aborted(&s.job));
        CHECK(control_aborted(&s.job, &culprit) != RUEDA_OK);
        CHECK_EQUAL(culprit, rank);
        CHECK(strlen(status_text()) > 0);
    }
    meet();
    s.table->close(channel);
    close_station(&s);
}

/* ---- over all transports --------------------------------------------------------------------- */

static void bytes_arrive_in_order_and_complete(void **state)
{
    (void)state;
    on_all_transports(stream_everywhere, 1, 4);
}

static void a_full_stream_takes_no_more_and_blocks_nobody(void **state)
{
    (void)state;
    on_all_transports(fill_a_stream, 2, 2);
}

static void whole_words_stay_aligned(void **state)
{
    (void)state;
    on_all_transports(keep_alignment, 2, 2);
}

static void peers_see_each_others_memory(void **state)
{
    (void)state;
    on_all_transports(read_peer_memory, 1, 4);
}

static void who_left_has_sent_everything(void **state)
{
    (void)state;
    on_all_transports(leave_after_sending, 2, 2);
}

static void its_own_collectives_are_right(void **state)
{
    (void)state;
    on_all_transports(run_collectives, 2, 3);
}

static void a_channel_that_cannot_be_opened_says_why(void **state)
{
    (void)state;
    on_all_transports(open_without_each_call, 2, 3);
}

static void what_fails_while_bytes_move_ends_the_job(void **state)
{
    (void)state;
    on_all_transports(fail_while_moving, 2, 2);
}

/* ---- the registry ---------------------------------------------------------------------------- */

static void a_name_that_is_none_is_refused_with_all_there_are(void **state)
{
    (void)state;
    config settings;
    assert_int_equal(config_load(&settings, NULL), RUEDA_OK);
    snprintf(settings.transport.text, sizeof settings.transport.text, "pigeon");
    assert_int_equal(transports_check(&settings), RUEDA_ERR_CONFIG);
    assert_non_null(strstr(status_text(), "pigeon"));
    assert_non_null(strstr(status_text(), "auto"));
    for (size_t i = 0; transport_at(i) != NULL; i++) {
        assert_non_null(strstr(status_text(), transport_at(i)->name));
        assert_ptr_equal(transport_named(transport_at(i)->name), transport_at(i));
    }
}

static void what_cannot_be_encrypted_or_reach_a_host_is_refused(void **state)
{
    (void)state;
    config settings;
    assert_int_equal(config_load(&settings, NULL), RUEDA_OK);
    for (size_t i = 0; transport_at(i) != NULL; i++) {
        const transport_table *t = transport_at(i);
        transports chosen = {.table = NULL};
        snprintf(settings.transport.text, sizeof settings.transport.text, "%s", t->name);
        settings.encrypt = true;
        assert_int_equal(transports_choose(&chosen, &settings, true, false),
                         t->encrypts ? RUEDA_OK : RUEDA_ERR_CONFIG);
        settings.encrypt = false;
        assert_int_equal(transports_choose(&chosen, &settings, true, true),
                         t->between_hosts ? RUEDA_OK : RUEDA_ERR_CONFIG);
        assert_int_equal(transports_share_memory(&settings), !t->between_hosts);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_arrive_in_order_and_complete),
        cmocka_unit_test(a_full_stream_takes_no_more_and_blocks_nobody),
        cmocka_unit_test(whole_words_stay_aligned),
        cmocka_unit_test(peers_see_each_others_memory),
        cmocka_unit_test(who_left_has_sent_everything),
        cmocka_unit_test(its_own_collectives_are_right),
        cmocka_unit_test(a_channel_that_cannot_be_opened_says_why),
        cmocka_unit_test(what_fails_while_bytes_move_ends_the_job),
        cmocka_unit_test(a_name_that_is_none_is_refused_with_all_there_are),
        cmocka_unit_test(what_cannot_be_encrypted_or_reach_a_host_is_refused),
    };
    return cmocka_run_group_tests_name("transport", tests, NULL, NULL);
}
