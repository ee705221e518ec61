/* stream_test.c: bytes over links on the loopback interface, IPv4 and IPv6, plain, authenticated and encrypted. */
/* ctest: timeout=120 */
#include "net/testing.h"

#include <errno.h>
#include <limits.h>
#include <sodium.h>
#include <stdlib.h>

#define EXCHANGE_BYTES (UINT64_C(6) << 20)
#define PIECE_MAX 200000

typedef struct way {
    const char *name;
    uint8_t family;
    bool encrypt, has_aes, insecure;
} way;

static const way ways[] = {{"IPv4, plain", 4, false, true, true},
                           {"IPv6, plain", 6, false, true, true},
                           {"IPv4, authenticated", 4, false, true, false},
                           {"IPv4, authenticated, Poly1305", 4, false, false, false},
                           {"IPv4, best cipher", 4, true, true, false},
                           {"IPv6, best cipher", 6, true, true, false},
                           {"IPv4, ChaCha20", 4, true, false, false}};

/* Two open ends: `a` called, `b` was admitted. */
typedef struct pair {
    net_link *a, *b;
} pair;

static pair open_pair(const way *w)
{
    net_identity host = test_identity(TEST_HOST, w->encrypt),
                 caller = test_identity(TEST_CALLER, w->encrypt);
    if (w->insecure) {
        memset(host.key, 0, sizeof host.key);
        memset(caller.key, 0, sizeof caller.key);
    }
    const net_purpose purpose = test_purpose();
    net_address at;
    net_door *door = test_door(&host, w->family, &at);
    pair p = {.a = test_call(&caller, &at)};
    if (!w->has_aes)
        handshake_call(p.a->shake, &caller, &purpose, false);
    p.b = test_meet(door, p.a);
    assert_non_null(p.b);
    assert_int_equal(p.a->state, NET_OPEN);
    net_door_close(door);
    return p;
}

static void close_pair(pair *p)
{
    net_link_close(p->a);
    net_link_close(p->b);
}

static void with_all_ways(void (*test)(pair *p))
{
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        if (!test_has_family(ways[i].family)) {
            print_message("%s: not on this machine\n", ways[i].name);
            continue;
        }
        pair p = open_pair(&ways[i]);
        test(&p);
        close_pair(&p);
    }
}

#define TEST_WITH_ALL_WAYS(name, function)                                                         \
    static void name(void **state)                                                                 \
    {                                                                                              \
        (void)state;                                                                               \
        with_all_ways(function);                                                                   \
    }

/* ---- Streams of known bytes ------------------------------------------------------------------ */

/* How far one direction has come. */
typedef struct flow {
    net_link *from, *to;
    uint64_t sent, received, total;
    uint32_t random;
    uint8_t seed;
} flow;

static uint8_t byte_at(const flow *f, uint64_t i)
{
    return (uint8_t)(i * 31 + (i >> 8) * 7 + (i >> 16) + f->seed);
}

static uint32_t next_random(flow *f)
{
    f->random = f->random * 1664525u + 1013904223u;
    return f->random >> 8;
}

/* Sends a piece of random size in up to three parts; false: no room. */
static bool send_piece(flow *f)
{
    static uint8_t piece[PIECE_MAX];
    const uint64_t rest = f->total - f->sent;
    size_t bytes = next_random(f) % (next_random(f) % 4 == 0 ? PIECE_MAX : 500) + 1;
    if (bytes > rest)
        bytes = rest;
    for (size_t i = 0; i < bytes; i++)
        piece[i] = byte_at(f, f->sent + i);
    const size_t first = next_random(f) % (bytes + 1);
    const struct iovec parts[3] = {
        {piece, first}, {piece + first, 0}, {piece + first, bytes - first}};
    const ssize_t sent = bytes > 0 ? net_link_send(f->from, parts, 3) : 0;
    assert_true(sent >= 0 && (size_t)sent <= bytes);
    memset(piece, 0xee, bytes); /* ours again */
    f->sent += (uint64_t)sent;
    return sent > 0;
}

static bool receive_piece(flow *f)
{
    static uint8_t piece[PIECE_MAX];
    const size_t room = next_random(f) % (next_random(f) % 2 == 0 ? PIECE_MAX : 500) + 1;
    const ssize_t received = net_link_receive(f->to, piece, room);
    assert_true(received >= 0 && (size_t)received <= room);
    for (size_t i = 0; i < (size_t)received; i++) {
        if (piece[i] != byte_at(f, f->received + i))
            fail_msg("byte %llu is wrong", (unsigned long long)(f->received + i));
    }
    f->received += (uint64_t)received;
    assert_true(f->received <= f->sent);
    return received > 0;
}

static short events_of(const flow *out)
{
    const bool writes = out->sent < out->total || net_link_wants_write(out->from);
    return writes ? POLLIN | POLLOUT : POLLIN;
}

static void exchange(pair *p, uint64_t there_bytes, uint64_t back_bytes)
{
    flow there = {.from = p->a, .to = p->b, .total = there_bytes, .random = 1, .seed = 3};
    flow back = {.from = p->b, .to = p->a, .total = back_bytes, .random = 2, .seed = 90};
    while (there.received < there.total || back.received < back.total) {
        bool moved = send_piece(&there);
        moved = receive_piece(&there) || moved;
        moved = send_piece(&back) || moved;
        moved = receive_piece(&back) || moved;
        if (!moved)
            test_wait(net_link_fd(p->a), events_of(&there), net_link_fd(p->b), events_of(&back));
    }
}

static void exchange_megabytes(pair *p)
{
    exchange(p, EXCHANGE_BYTES, EXCHANGE_BYTES);
}
TEST_WITH_ALL_WAYS(megabytes_travel_both_ways, exchange_megabytes)

static void exchange_through_small_buffers(pair *p)
{
    test_set_buffer(p->a, 4096);
    test_set_buffer(p->b, 4096);
    exchange(p, EXCHANGE_BYTES / 16, 100);
    exchange(p, 100, EXCHANGE_BYTES / 16);
}
TEST_WITH_ALL_WAYS(small_buffers_only_make_it_slower, exchange_through_small_buffers)

/* ---- Sending --------------------------------------------------------------------------------- */

static void send_many_parts(pair *p)
{
    enum { PARTS = IOV_MAX + 100 };
    static struct iovec parts[PARTS];
    uint8_t letters[26], got[2 * PARTS];
    for (int i = 0; i < 26; i++)
        letters[i] = (uint8_t)('a' + i);
    for (int i = 0; i < PARTS; i++)
        parts[i] = (struct iovec){letters + i % 26, 1};
    assert_int_equal(net_link_send(p->a, parts, PARTS), IOV_MAX);
    size_t done = 0;
    while (done < IOV_MAX) {
        const ssize_t received = net_link_receive(p->b, got + done, sizeof got - done);
        assert_true(received >= 0);
        done += (size_t)received;
        if (received == 0)
            test_wait(net_link_fd(p->b), POLLIN, -1, 0);
    }
    for (size_t i = 0; i < done; i++)
        assert_int_equal(got[i], 'a' + i % 26);
    assert_int_equal(net_link_send(p->a, parts, 0), 0);
    assert_int_equal(net_link_receive(p->b, got, 0), 0);
    assert_int_equal(net_link_receive(p->b, got, 1), 0);
}
TEST_WITH_ALL_WAYS(as_many_parts_as_the_system_allows_are_taken, send_many_parts)

/* Sends until there is no room, and returns how much that was. */
static uint64_t fill(pair *p)
{
    static uint8_t piece[PIECE_MAX];
    const struct iovec part = {piece, sizeof piece};
    uint64_t total = 0;
    for (ssize_t sent; (sent = net_link_send(p->a, &part, 1)) != 0; total += (uint64_t)sent)
        assert_true(sent > 0);
    return total;
}

static void drain(pair *p, uint64_t bytes)
{
    static uint8_t piece[PIECE_MAX];
    while (bytes > 0) {
        const ssize_t received =
            net_link_receive(p->b, piece, bytes < sizeof piece ? bytes : sizeof piece);
        assert_true(received >= 0);
        bytes -= (uint64_t)received;
        /* the sender only listens; what waits inside its link must come all the same */
        assert_int_equal(net_link_receive(p->a, piece, 1), 0);
        if (received == 0)
            test_wait(net_link_fd(p->a), net_link_wants_write(p->a) ? POLLOUT : 0,
                      net_link_fd(p->b), POLLIN);
    }
}

static void fill_and_drain(pair *p)
{
    test_set_buffer(p->a, 20000);
    const uint64_t bytes = fill(p);
    assert_true(bytes > 0);
    assert_false(net_link_flushed(p->a));
    drain(p, bytes);
    test_flush(p->a);
    assert_true(net_link_flushed(p->b));
    assert_false(net_link_wants_write(p->a));
}
TEST_WITH_ALL_WAYS(a_link_is_flushed_when_the_other_host_has_it_all, fill_and_drain)

/* ---- Ends ------------------------------------------------------------------------------------ */

static void send_all(net_link *link, const char *text)
{
    const struct iovec part = {(void *)text, strlen(text)};
    assert_int_equal(net_link_send(link, &part, 1), part.iov_len);
    test_flush(link);
}

/* Receives this text and then the end. */
static void assert_last_words(net_link *link, const char *text, const char *why)
{
    char got[64] = "";
    size_t done = 0;
    ssize_t received;
    while ((received = net_link_receive(link, got + done, sizeof got - 1 - done)) >= 0) {
        done += (size_t)received;
        if (received == 0)
            test_wait(net_link_fd(link), POLLIN, -1, 0);
    }
    assert_string_equal(got, text);
    assert_int_equal(link->state, NET_BROKEN);
    if (strstr(net_link_why(link), why) == NULL)
        fail_msg("why: %s", net_link_why(link));
    assert_int_equal(net_link_receive(link, got, 1), -1);
    assert_int_equal(net_link_send(link, &(struct iovec){got, 1}, 1), -1);
    assert_true(net_link_flushed(link));
    assert_int_equal(net_link_progress(link, world_now_ns()), NET_BROKEN);
}

static void close_after_last_words(pair *p)
{
    send_all(p->b, "goodbye");
    net_link_close(p->b);
    p->b = NULL;
    assert_last_words(p->a, "goodbye", "closed");
}
TEST_WITH_ALL_WAYS(what_was_sent_before_the_end_arrives, close_after_last_words)

static void close_with_unread_bytes(pair *p)
{
    send_all(p->a, "never read");
    send_all(p->b, "goodbye");
    net_link_close(p->b);
    p->b = NULL;
    assert_last_words(p->a, "goodbye", "closed");
}
TEST_WITH_ALL_WAYS(unread_bytes_do_not_reset_the_link, close_with_unread_bytes)

/* Even what the other host has not yet taken: the system goes on sending after the close. */
static void a_close_does_not_throw_away_what_is_on_its_way(void **state)
{
    (void)state;
    static uint8_t piece[PIECE_MAX];
    pair p = open_pair(&ways[0]);
    send_all(p.b, "never read");
    uint64_t left = fill(&p);
    assert_false(net_link_flushed(p.a));
    net_link_close(p.a);
    ssize_t received;
    while ((received = net_link_receive(p.b, piece, sizeof piece)) >= 0) {
        left -= (uint64_t)received;
        if (received == 0)
            test_wait(net_link_fd(p.b), POLLIN, -1, 0);
    }
    assert_int_equal(left, 0);
    net_link_close(p.b);
}

static void reset(net_link *link)
{
    const struct linger now = {.l_onoff = 1};
    setsockopt(net_link_fd(link), SOL_SOCKET, SO_LINGER, &now, sizeof now);
    net_link_forget(link);
}

static void reset_the_other_end(pair *p)
{
    reset(p->b);
    assert_last_words(p->a, "", strerror(ECONNRESET));
}
TEST_WITH_ALL_WAYS(a_reset_breaks_the_link, reset_the_other_end)

static void send_into_a_reset(pair *p)
{
    send_all(p->b, "goodbye");
    test_wait(net_link_fd(p->a), POLLIN, -1, 0);
    reset(p->b);
    while (net_link_send(p->a, &(struct iovec){"x", 1}, 1) >= 0)
        test_wait(net_link_fd(p->a), POLLIN, -1, 0);
    assert_int_equal(p->a->state, NET_BROKEN);
    char why[LINK_WHY];
    snprintf(why, sizeof why, "%s", net_link_why(p->a));
    assert_last_words(p->a, "goodbye", why); /* the first reason stays */
}
TEST_WITH_ALL_WAYS(what_arrived_before_a_failed_send_is_delivered, send_into_a_reset)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(megabytes_travel_both_ways),
        cmocka_unit_test(small_buffers_only_make_it_slower),
        cmocka_unit_test(as_many_parts_as_the_system_allows_are_taken),
        cmocka_unit_test(a_link_is_flushed_when_the_other_host_has_it_all),
        cmocka_unit_test(what_was_sent_before_the_end_arrives),
        cmocka_unit_test(unread_bytes_do_not_reset_the_link),
        cmocka_unit_test(a_close_does_not_throw_away_what_is_on_its_way),
        cmocka_unit_test(a_reset_breaks_the_link),
        cmocka_unit_test(what_arrived_before_a_failed_send_is_delivered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
