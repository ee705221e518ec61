/* transport_test.c: what every transport must do (transport.h), tried on each of them.
 * ctest: timeout=180 */
#include "boot/boot.h"
#include "harness.h"
#include "transport/transport.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define CHANNELS 3
#define STREAM_BYTES 700000 /* more than a stream can hold: it wraps around several times */
#define MOST_AT_ONCE 90000
_Static_assert(STREAM_BYTES % 8 == 0, "keep_alignment sends whole words");

/* A rank with its channels open, all ranks having met since. */
typedef struct station {
    const transport_table *table;
    segment segment;
    control_group group;
    uint16_t ranks[HARNESS_MAX_RANKS];
    transport_channel *channels[CHANNELS];
} station;

static void open_station(station *s, const transport_table *table)
{
    config settings;
    boot_identity who;
    const logger log = {LOG_WARN, -1};
    *s = (station){.table = table};
    CHECK_OK(config_load(&settings, NULL));
    CHECK_OK(boot_identify(&settings, &who));
    CHECK_OK(boot_join(&settings, &who, 1, &log, &s->segment));
    for (int r = 0; r < who.size; r++)
        s->ranks[r] = (uint16_t)r;
    s->group = (control_group){&s->segment, 0, (uint16_t)who.size, (uint16_t)who.rank, s->ranks};
    for (uint32_t c = 0; c < CHANNELS; c++) {
        CHECK_OK(table->open(&s->group, c, &s->channels[c]));
        CHECK(s->channels[c]->table == table);
        CHECK(s->channels[c]->group == &s->group);
    }
    meet();
}

static void close_station(station *s)
{
    meet(); /* peers may still look at our memory */
    for (uint32_t c = 0; c < CHANNELS; c++)
        s->table->close(s->channels[c]);
    s->table->close(NULL);
    segment_close(&s->segment);
}

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
        data[i] = byte_of(channel, s->group.index, peer, progress->sent + i);
    const size_t taken = s->table->send(s->channels[channel], peer, data, bytes);
    memset(data, 0xee, bytes); /* it was copied: our memory is free */
    CHECK(taken <= bytes);
    progress->sent += taken;
    return taken > 0;
}

static bool receive_some(station *s, uint32_t channel, uint16_t peer, stream *progress, dice *d)
{
    const void *data = NULL, *again = NULL;
    const size_t bytes = s->table->peek(s->channels[channel], peer, &data);
    if (bytes == 0)
        return false;
    CHECK(bytes <= STREAM_BYTES - progress->received);
    CHECK(s->table->peek(s->channels[channel], peer, &again) >= bytes);
    CHECK(again == data); /* it stays until it is consumed */
    const size_t part = 1 + roll_below(d, bytes);
    for (size_t i = 0; i < part; i++)
        if (((const uint8_t *)data)[i] !=
            byte_of(channel, peer, s->group.index, progress->received + i))
            rank_fail(__FILE__, __LINE__, "byte %zu from rank %u on channel %u is wrong",
                      progress->received + i, peer, channel);
    s->table->consume(s->channels[channel], peer, part);
    progress->received += part;
    return true;
}

/* All channels, all peers and both directions at once, in pieces of all lengths. */
static void stream_everywhere(int rank, int size, const void *argument)
{
    station s;
    stream streams[CHANNELS][8] = {{{0, 0}}};
    dice d = {(unsigned long long)rank + 5};
    open_station(&s, argument);
    for (bool done = false; !done;) {
        bool moved = false;
        done = true;
        for (uint32_t c = 0; c < CHANNELS; c++) {
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

/* A stream that nobody reads takes some bytes and then no more; the other channels go on. */
static void fill_a_stream(int rank, int size, const void *argument)
{
    (void)size;
    static uint8_t data[1000];
    station s;
    open_station(&s, argument);
    transport_channel *full = s.channels[0], *other = s.channels[1];
    const void *at;
    CHECK_EQUAL(s.table->peek(full, (uint16_t)(1 - rank), &at), 0);
    CHECK_EQUAL(s.table->send(full, (uint16_t)(1 - rank), data, 0), 0);
    meet();
    size_t taken = 0, total = 0, last;
    if (rank == 0) {
        do {
            last = s.table->send(full, 1, data, sizeof data);
            taken += last;
        } while (last == sizeof data);
        CHECK(taken > 0);
        CHECK_EQUAL(s.table->send(full, 1, data, sizeof data), 0);
        CHECK_EQUAL(s.table->send(other, 1, data, 10), 10);
    }
    meet();
    if (rank == 1) {
        CHECK_EQUAL(s.table->peek(other, 0, &at), 10);
        s.table->consume(other, 0, 10);
        CHECK_EQUAL(s.table->peek(other, 0, &at), 0);
        for (size_t bytes; (bytes = s.table->peek(full, 0, &at)) > 0; total += bytes)
            s.table->consume(full, 0, bytes);
        CHECK(total > 0);
    }
    meet();
    if (rank == 0)
        CHECK_EQUAL(s.table->send(full, 1, data, 100), 100);
    close_station(&s);
}

/* Lengths divisible by 8 keep every message aligned, also around the end of the memory. */
static void keep_alignment(int rank, int size, const void *argument)
{
    (void)size;
    static uint64_t data[1000];
    station s;
    dice d = {3};
    open_station(&s, argument);
    for (size_t moved = 0; moved < STREAM_BYTES;) {
        size_t rest = STREAM_BYTES - moved, part = 8 * (1 + roll_below(&d, 900));
        if (rank == 0) {
            part = s.table->send(s.channels[0], 1, data, part < rest ? part : rest);
        } else {
            const void *at;
            const size_t bytes = s.table->peek(s.channels[0], 0, &at);
            CHECK_EQUAL((uintptr_t)at % 8, 0);
            CHECK_EQUAL(bytes % 8, 0);
            part = part < bytes ? part : bytes;
            if (part > 0)
                s.table->consume(s.channels[0], 0, part);
        }
        CHECK_EQUAL(part % 8, 0);
        moved += part;
        sched_yield();
    }
    close_station(&s);
}

/* Peer memory: what one writes before a meeting the others read after it. */
static void read_peer_memory(int rank, int size, const void *argument)
{
    station s;
    open_station(&s, argument);
    for (uint32_t c = 0; c < CHANNELS; c++) {
        const transport_channel *channel = s.channels[c];
        const transport_peer *own = &channel->peers[rank];
        CHECK(channel->slot_bytes > 0);
        if (own->flag == NULL)
            continue; /* a transport without peer memory */
        memset(own->slots, 10 * rank + (int)c, 4 * channel->slot_bytes);
        own->sums[0] = rank + 0.5;
        own->sums[2 * SEGMENT_SUMS * 4 - 1] = rank + 0.25;
        own->addresses[SEGMENT_ADDRESSES - 1].out = (uint64_t)rank;
        atomic_store(&own->flag->value, (uint64_t)rank * 100 + c);
    }
    meet();
    for (uint32_t c = 0; c < CHANNELS; c++) {
        for (int r = 0; r < size; r++) {
            const transport_peer *peer = &s.channels[c]->peers[r];
            if (peer->flag == NULL)
                continue;
            CHECK_EQUAL(atomic_load(&peer->flag->value), r * 100 + (int)c);
            CHECK(peer->sums[0] == r + 0.5 && peer->sums[2 * SEGMENT_SUMS * 4 - 1] == r + 0.25);
            CHECK_EQUAL(peer->addresses[SEGMENT_ADDRESSES - 1].out, r);
            for (size_t i = 0; i < 4 * s.channels[c]->slot_bytes; i++)
                CHECK(peer->slots[i] == (uint8_t)(10 * r + (int)c));
        }
    }
    close_station(&s);
}

/* ---- over all transports --------------------------------------------------------------------- */

static const transport_table *const transports[] = {&transport_shm};
#define TRANSPORTS (sizeof transports / sizeof transports[0])

static void on_all_transports(job_body body, int least, int most)
{
    for (size_t i = 0; i < TRANSPORTS; i++) {
        print_message("%s\n", transports[i]->name);
        for (int ranks = least; ranks <= most; ranks++)
            run_ranks(ranks, body, transports[i]);
    }
}

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_arrive_in_order_and_complete),
        cmocka_unit_test(a_full_stream_takes_no_more_and_blocks_nobody),
        cmocka_unit_test(whole_words_stay_aligned),
        cmocka_unit_test(peers_see_each_others_memory),
    };
    return cmocka_run_group_tests_name("transport", tests, NULL, NULL);
}
