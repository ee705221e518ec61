/* handshake_test.c: the proof over a pair of sockets, whole, in pieces, and broken off. */
#include "net/testing.h"

#include <fcntl.h>
#include <sodium.h>

/* Both ends on the two sockets of a pair. */
typedef struct ends {
    handshake caller, host;
    int fds[2]; /* the caller's, the host's */
} ends;

static void open_sockets(ends *e)
{
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, e->fds), 0);
}

static ends make_ends(bool encrypt)
{
    const net_identity caller = test_identity(TEST_CALLER, encrypt),
                       host = test_identity(TEST_HOST, encrypt);
    const net_purpose purpose = test_purpose();
    ends e;
    handshake_call(&e.caller, &caller, &purpose, true);
    handshake_host(&e.host, &host, NULL, true);
    open_sockets(&e);
    return e;
}

static void close_ends(ends *e)
{
    close(e->fds[0]);
    close(e->fds[1]);
}

static void both_ends_come_to_the_same(void **state)
{
    (void)state;
    ends e = make_ends(true);
    assert_true(handshake_sends(&e.caller));
    assert_false(handshake_sends(&e.host));
    assert_int_equal(handshake_step(&e.host, e.fds[1]), HANDSHAKE_WAITS);
    assert_int_equal(handshake_step(&e.caller, e.fds[0]), HANDSHAKE_WAITS);
    assert_int_equal(handshake_step(&e.host, e.fds[1]), HANDSHAKE_WAITS);
    assert_int_equal(handshake_step(&e.caller, e.fds[0]), HANDSHAKE_DONE);
    assert_int_equal(write(e.fds[0], "next", 4), 4);
    assert_int_equal(handshake_step(&e.host, e.fds[1]), HANDSHAKE_DONE);
    assert_memory_equal(&e.caller.said, &e.host.said, sizeof e.caller.said);
    assert_true(test_same_purpose(&e.caller.purpose, &e.host.purpose));
    /* what follows the proof was left alone */
    char next[8];
    assert_int_equal(read(e.fds[1], next, sizeof next), 4);
    close_ends(&e);
}

static void no_two_proofs_are_alike(void **state)
{
    (void)state;
    ends a = make_ends(false), b = make_ends(false);
    assert_memory_not_equal(a.caller.said.hello + 96, b.caller.said.hello + 96, PROOF_NONCE);
    assert_memory_not_equal(a.caller.said.hello + 128, b.caller.said.hello + 128, PROOF_PUBLIC);
    close_ends(&a);
    close_ends(&b);
}

/* Carries at most `bytes` from one socket to another; false: there was nothing. */
static bool carry(int from, int to, size_t bytes)
{
    uint8_t piece[PROOF_HELLO];
    const ssize_t got = recv(from, piece, bytes < sizeof piece ? bytes : sizeof piece, 0);
    if (got <= 0)
        return false;
    assert_int_equal(send(to, piece, (size_t)got, MSG_NOSIGNAL), got);
    return true;
}

static void pieces_of_any_size_will_do(void **state)
{
    (void)state;
    for (size_t bytes = 1; bytes <= PROOF_HELLO; bytes += bytes < 40 ? 1 : 31) {
        ends e = make_ends(true), far; /* between the two sockets sits the test */
        open_sockets(&far);
        handshake_result caller = HANDSHAKE_WAITS, host = HANDSHAKE_WAITS;
        while (caller != HANDSHAKE_DONE || host != HANDSHAKE_DONE) {
            caller = handshake_step(&e.caller, e.fds[0]);
            const bool there = carry(e.fds[1], far.fds[0], bytes);
            host = handshake_step(&e.host, far.fds[1]);
            const bool back = carry(far.fds[0], e.fds[1], bytes);
            assert_true(there || back || (caller == HANDSHAKE_DONE && host == HANDSHAKE_DONE));
            assert_true(caller != HANDSHAKE_FAILED && host != HANDSHAKE_FAILED);
        }
        close_ends(&e);
        close_ends(&far);
    }
}

static void a_hello_counts_once(void **state)
{
    (void)state;
    heard all = {0};
    uint8_t word;
    ends e = make_ends(false), again = make_ends(false);
    e.host.heard = again.host.heard = &all;
    again.caller.said = e.caller.said; /* as it was recorded */
    handshake_step(&e.caller, e.fds[0]);
    assert_int_equal(handshake_step(&e.host, e.fds[1]), HANDSHAKE_WAITS);
    handshake_step(&again.caller, again.fds[0]);
    assert_int_equal(handshake_step(&again.host, again.fds[1]), HANDSHAKE_FAILED);
    assert_int_equal(again.host.verdict, PROOF_REPEATED);
    assert_int_equal(recv(again.fds[0], &word, 1, MSG_DONTWAIT), -1); /* not a word */
    close_ends(&e);
    close_ends(&again);
    heard_clear(&all);
}

static void a_host_has_no_word_for_strangers(void **state)
{
    (void)state;
    for (size_t at = 0; at < PROOF_HELLO; at++) {
        ends e = make_ends(false);
        e.caller.said.hello[at] ^= 0x20;
        handshake_step(&e.caller, e.fds[0]);
        assert_int_equal(handshake_step(&e.host, e.fds[1]), HANDSHAKE_FAILED);
        assert_int_not_equal(e.host.verdict, PROOF_GOOD);
        uint8_t word;
        assert_int_equal(recv(e.fds[0], &word, 1, MSG_DONTWAIT), -1);
        close_ends(&e);
    }
}

static void a_caller_gives_its_proof_to_no_false_host(void **state)
{
    (void)state;
    for (size_t at = 0; at < PROOF_ANSWER; at++) {
        ends e = make_ends(false);
        handshake_step(&e.caller, e.fds[0]);
        handshake_step(&e.host, e.fds[1]);
        uint8_t answer[PROOF_ANSWER], word;
        assert_int_equal(recv(e.fds[0], answer, sizeof answer, 0), sizeof answer);
        answer[at] ^= 0x20;
        assert_int_equal(send(e.fds[1], answer, sizeof answer, 0), sizeof answer);
        assert_int_equal(handshake_step(&e.caller, e.fds[0]), HANDSHAKE_FAILED);
        assert_int_equal(recv(e.fds[1], &word, 1, MSG_DONTWAIT), -1);
        close_ends(&e);
    }
}

static void a_wrong_finish_is_refused(void **state)
{
    (void)state;
    ends e = make_ends(false);
    const uint8_t finish[PROOF_MAC] = {0};
    handshake_step(&e.caller, e.fds[0]);
    handshake_step(&e.host, e.fds[1]);
    assert_int_equal(send(e.fds[0], finish, sizeof finish, 0), sizeof finish);
    assert_int_equal(handshake_step(&e.host, e.fds[1]), HANDSHAKE_FAILED);
    assert_int_equal(e.host.verdict, PROOF_WRONG_KEY);
    close_ends(&e);
}

static void garbage_is_not_heard_out(void **state)
{
    (void)state;
    ends e = make_ends(false);
    assert_int_equal(send(e.fds[0], "GET", 3, 0), 3);
    assert_int_equal(handshake_step(&e.host, e.fds[1]), HANDSHAKE_FAILED);
    assert_int_equal(e.host.verdict, PROOF_GARBAGE);
    close_ends(&e);
}

static void leaving_at_any_byte_ends_it(void **state)
{
    (void)state;
    for (size_t bytes = 0; bytes < PROOF_HELLO; bytes++) {
        ends e = make_ends(false);
        assert_int_equal(send(e.fds[0], e.caller.said.hello, bytes, 0), bytes);
        close(e.fds[0]);
        assert_int_equal(handshake_step(&e.host, e.fds[1]), HANDSHAKE_FAILED);
        assert_int_equal(e.host.verdict, PROOF_GARBAGE);
        close(e.fds[1]);
    }
}

static void a_full_socket_is_waited_for(void **state)
{
    (void)state;
    ends e = make_ends(false);
    uint8_t junk[1024] = {0};
    size_t filled = 0;
    for (ssize_t sent; (sent = send(e.fds[0], junk, sizeof junk, MSG_DONTWAIT)) > 0;)
        filled += (size_t)sent;
    assert_int_equal(handshake_step(&e.caller, e.fds[0]), HANDSHAKE_WAITS);
    assert_true(handshake_sends(&e.caller));
    for (ssize_t got; filled > 0; filled -= (size_t)got)
        assert_true((got = recv(e.fds[1], junk, filled < 1024 ? filled : 1024, 0)) > 0);
    assert_int_equal(handshake_step(&e.caller, e.fds[0]), HANDSHAKE_WAITS);
    assert_false(handshake_sends(&e.caller));
    assert_int_equal(handshake_step(&e.host, e.fds[1]), HANDSHAKE_WAITS);
    assert_int_equal(handshake_step(&e.caller, e.fds[0]), HANDSHAKE_DONE);
    assert_int_equal(handshake_step(&e.host, e.fds[1]), HANDSHAKE_DONE);
    close_ends(&e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_ends_come_to_the_same),
        cmocka_unit_test(no_two_proofs_are_alike),
        cmocka_unit_test(pieces_of_any_size_will_do),
        cmocka_unit_test(a_hello_counts_once),
        cmocka_unit_test(a_host_has_no_word_for_strangers),
        cmocka_unit_test(a_caller_gives_its_proof_to_no_false_host),
        cmocka_unit_test(a_wrong_finish_is_refused),
        cmocka_unit_test(garbage_is_not_heard_out),
        cmocka_unit_test(leaving_at_any_byte_ends_it),
        cmocka_unit_test(a_full_socket_is_waited_for),
    };
    return sodium_init() < 0 ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
