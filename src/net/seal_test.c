/* seal_test.c: a stream of envelopes between two ends, with somebody on the line who changes what passes;
 * authenticated and encrypted, with both ciphers. */
#include "base/dump_testing.h"
#include "net/envelope.h"
#include "net/testing.h"

#include <errno.h>
#include <stdlib.h>

#define SMALL ((size_t)100) /* bytes in an envelope of most tests */
#define SMALL_ENVELOPE (ENVELOPE_HEADER + SMALL + ENVELOPE_TAG)

/* `near` seals what `far` opens; between their sockets sits the test. */
typedef struct line {
    seal *near, *far;
    int out[2],
        in[2]; /* near writes out[0], the test reads out[1]; it writes in[0], far reads in[1] */
} line;

/* What the tests are run with. */
static proof_cipher cipher;
static bool encrypts;

static line make_line_with_keys(uint64_t key_bytes)
{
    const proof_session session = {
        .cipher = cipher, .encrypts = encrypts, .to_host = {1}, .to_caller = {2}};
    line l;
    l.near = seal_make(&session, false, key_bytes);
    l.far = seal_make(&session, true, key_bytes);
    assert_true(l.near != NULL && l.far != NULL);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, l.out), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, l.in), 0);
    return l;
}

static line make_line(void)
{
    return make_line_with_keys(ENVELOPE_KEY_BYTES);
}

static void close_line(line *l)
{
    seal_free(l->near);
    seal_free(l->far);
    for (int i = 0; i < 2; i++) {
        close(l->out[i]);
        close(l->in[i]);
    }
}

static void send_text(line *l, const void *bytes, size_t count)
{
    const struct iovec part = {(void *)bytes, count};
    assert_int_equal(seal_send(l->near, l->out[0], &part, 1), count);
    assert_false(seal_waits(l->near));
}

static void pass(line *l, const uint8_t *bytes, size_t count)
{
    assert_int_equal(write(l->in[0], bytes, count), count);
}

/* `envelopes` sealed envelopes of SMALL bytes; envelope i is full of the letter 'a' + i. */
static void seal_letters(line *l, int envelopes, uint8_t *sealed)
{
    uint8_t plain[SMALL];
    for (int i = 0; i < envelopes; i++) {
        memset(plain, 'a' + i, sizeof plain);
        send_text(l, plain, sizeof plain);
        assert_int_equal(read(l->out[1], sealed + i * SMALL_ENVELOPE, SMALL_ENVELOPE),
                         SMALL_ENVELOPE);
    }
}

/* `genuine` envelopes come out, then it fails for good. */
static void assert_breaks_after(line *l, int genuine)
{
    uint8_t got[1000];
    bool ended;
    if (genuine > 0) {
        assert_int_equal(seal_receive(l->far, l->in[1], got, sizeof got, &ended), genuine * SMALL);
        for (size_t i = 0; i < (size_t)genuine * SMALL; i++)
            assert_int_equal(got[i], 'a' + i / SMALL);
    }
    for (int again = 0; again < 3; again++) {
        memset(got, 'z', sizeof got);
        assert_int_equal(seal_receive(l->far, l->in[1], got, sizeof got, &ended), -1);
        assert_int_equal(errno, EBADMSG);
    }
}

static void altered_bytes_break_the_stream(void **state)
{
    (void)state;
    for (size_t at = 0; at < 2 * SMALL_ENVELOPE; at++) {
        /* a greater length in the header is only found out when that much has come */
        if (at % SMALL_ENVELOPE < 2)
            continue;
        line l = make_line();
        uint8_t sealed[3 * SMALL_ENVELOPE];
        seal_letters(&l, 3, sealed);
        sealed[at] ^= 0x80;
        pass(&l, sealed, sizeof sealed);
        assert_breaks_after(&l, (int)(at / SMALL_ENVELOPE));
        close_line(&l);
    }
}

static void altered_lengths_break_the_stream(void **state)
{
    (void)state;
    static const uint8_t lengths[][3] = {
        {0, 0, 0}, {SMALL - 1, 0, 0}, {SMALL + 1, 0, 0}, {1, 0, 0}, {1, 0, 1}};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        line l = make_line();
        uint8_t sealed[2 * SMALL_ENVELOPE];
        seal_letters(&l, 2, sealed);
        memcpy(sealed, lengths[i], 3);
        pass(&l, sealed, sizeof sealed);
        assert_breaks_after(&l, 0);
        close_line(&l);
    }
}

static void envelopes_out_of_order_break_the_stream(void **state)
{
    (void)state;
    static const struct {
        int order[4], genuine;
    } table[] = {{{0, 2, 1, 3}, 1}, {{0, 0, 1, 2}, 1}, {{1, 2, 3, 0}, 0},
                 {{0, 1, 3, 3}, 2}, {{0, 1, 2, 2}, 3}, {{3, 2, 1, 0}, 0}};
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        line l = make_line();
        uint8_t sealed[4 * SMALL_ENVELOPE];
        seal_letters(&l, 4, sealed);
        for (int r = 0; r < 4; r++)
            pass(&l, sealed + table[i].order[r] * SMALL_ENVELOPE, SMALL_ENVELOPE);
        assert_breaks_after(&l, table[i].genuine);
        close_line(&l);
    }
}

static void own_envelopes_sent_back_break_the_stream(void **state)
{
    (void)state;
    line l = make_line();
    uint8_t sealed[SMALL_ENVELOPE], got[SMALL];
    bool ended;
    seal_letters(&l, 1, sealed);
    assert_int_equal(write(l.out[1], sealed, sizeof sealed), sizeof sealed);
    assert_int_equal(seal_receive(l.near, l.out[0], got, sizeof got, &ended), -1);
    assert_int_equal(errno, EBADMSG);
    close_line(&l);
}

static void a_cut_envelope_is_never_delivered(void **state)
{
    (void)state;
    for (size_t bytes = 0; bytes < SMALL_ENVELOPE; bytes++) {
        line l = make_line();
        uint8_t sealed[SMALL_ENVELOPE], got[SMALL];
        bool ended = true;
        seal_letters(&l, 1, sealed);
        pass(&l, sealed, bytes);
        assert_int_equal(seal_receive(l.far, l.in[1], got, sizeof got, &ended), 0);
        assert_false(ended);
        shutdown(l.in[0], SHUT_WR);
        assert_int_equal(seal_receive(l.far, l.in[1], got, sizeof got, &ended), 0);
        assert_true(ended);
        close_line(&l);
    }
}

/* The caller's buffer may have any size, and the pieces on the line too. */
static void bytes_arrive_in_pieces(void **state)
{
    (void)state;
    line l = make_line();
    uint8_t sealed[5 * SMALL_ENVELOPE], got[5 * SMALL];
    seal_letters(&l, 5, sealed);
    size_t passed = 0, done = 0;
    for (size_t step = 1; done < sizeof got; step = step % 61 + 7) {
        const size_t rest = sizeof sealed - passed, now = step < rest ? step : rest;
        pass(&l, sealed + passed, now);
        passed += now;
        bool ended;
        const size_t room = sizeof got - done, want = step * 3 % 50 + 1;
        const ssize_t received =
            seal_receive(l.far, l.in[1], got + done, want < room ? want : room, &ended);
        assert_true(received >= 0 && !ended);
        done += (size_t)received;
    }
    for (size_t i = 0; i < sizeof got; i++)
        assert_int_equal(got[i], 'a' + i / SMALL);
    close_line(&l);
}

static void parts_are_gathered(void **state)
{
    (void)state;
    static uint8_t plain[3 * ENVELOPE_PLAIN], got[3 * ENVELOPE_PLAIN], sealed[4 * ENVELOPE_BYTES];
    for (size_t i = 0; i < sizeof plain; i++)
        plain[i] = (uint8_t)(i * 13 + i / 251);
    /* cuts around the borders of envelopes, with empty parts between */
    static const size_t cuts[] = {0,
                                  0,
                                  1,
                                  33,
                                  33,
                                  ENVELOPE_PLAIN - 1,
                                  ENVELOPE_PLAIN,
                                  ENVELOPE_PLAIN,
                                  2 * ENVELOPE_PLAIN + 5,
                                  3 * ENVELOPE_PLAIN,
                                  3 * ENVELOPE_PLAIN};
    struct iovec parts[10];
    for (int i = 0; i < 10; i++)
        parts[i] = (struct iovec){plain + cuts[i], cuts[i + 1] - cuts[i]};
    line l = make_line();
    size_t taken = 0, passed = 0, done = 0;
    struct iovec *first = parts;
    while (done < sizeof got) {
        ssize_t sent = taken < sizeof plain
                           ? seal_send(l.near, l.out[0], first, (int)(parts + 10 - first))
                           : 0;
        assert_true(sent >= 0 && seal_push(l.near, l.out[0]));
        taken += (size_t)sent;
        for (; first < parts + 10 && (size_t)sent >= first->iov_len; first++)
            sent -= (ssize_t)first->iov_len;
        if (sent > 0)
            *first =
                (struct iovec){(uint8_t *)first->iov_base + sent, first->iov_len - (size_t)sent};
        const ssize_t carried = read(l.out[1], sealed + passed, sizeof sealed - passed);
        if (carried > 0)
            pass(&l, sealed + passed, (size_t)carried);
        passed += carried > 0 ? (size_t)carried : 0;
        bool ended;
        const ssize_t received =
            seal_receive(l.far, l.in[1], got + done, sizeof got - done, &ended);
        assert_true(received >= 0);
        done += (size_t)received;
    }
    assert_int_equal(taken, sizeof plain);
    assert_memory_equal(got, plain, sizeof plain);
    close_line(&l);
}

static void nothing_is_sent_for_nothing(void **state)
{
    (void)state;
    line l = make_line();
    const struct iovec parts[2] = {{NULL, 0}, {NULL, 0}};
    assert_int_equal(seal_send(l.near, l.out[0], parts, 2), 0);
    assert_int_equal(seal_send(l.near, l.out[0], parts, 0), 0);
    uint8_t byte;
    assert_int_equal(read(l.out[1], &byte, 1), -1);
    close_line(&l);
}

static void one_envelope_waits_at_most(void **state)
{
    (void)state;
    line l = make_line();
    static uint8_t plain[1 << 22];
    const struct iovec part = {plain, sizeof plain};
    const ssize_t taken = seal_send(l.near, l.out[0], &part, 1);
    assert_true(taken > 0 && taken < (ssize_t)sizeof plain);
    assert_true(seal_waits(l.near));
    assert_int_equal(seal_send(l.near, l.out[0], &part, 1), 0);
    close(l.out[1]);
    assert_int_equal(seal_send(l.near, l.out[0], &part, 1), -1); /* and no SIGPIPE */
    l.out[1] = dup(l.out[0]);
    close_line(&l);
}

/* Keys change on the way, at other places than envelopes of the caller end. */
static void streams_outlive_their_keys(void **state)
{
    (void)state;
    static uint8_t plain[300 * 1000], got[sizeof plain], sealed[2 * sizeof plain];
    line l = make_line_with_keys(5000);
    for (size_t i = 0; i < sizeof plain; i++)
        plain[i] = (uint8_t)(i * 17 + i / 253);
    for (size_t done = 0, bytes; done < sizeof plain; done += bytes) {
        bool ended;
        bytes = (done * 7 + 1) % 3001;
        bytes = bytes < sizeof plain - done ? bytes : sizeof plain - done;
        if (bytes == 0)
            bytes = 1;
        send_text(&l, plain + done, bytes);
        const ssize_t carried = read(l.out[1], sealed, sizeof sealed);
        pass(&l, sealed, (size_t)carried);
        assert_int_equal(seal_receive(l.far, l.in[1], got + done, sizeof got - done, &ended),
                         bytes);
    }
    assert_memory_equal(got, plain, sizeof plain);
    close_line(&l);
}

/* Of an envelope that is not genuine the caller gets nothing, also if it was received to its own memory. */
static void a_large_envelope_is_delivered_whole_or_not_at_all(void **state)
{
    (void)state;
    static uint8_t plain[ENVELOPE_PLAIN], got[2 * ENVELOPE_PLAIN], sealed[ENVELOPE_BYTES];
    for (int altered = 0; altered < 2; altered++) {
        line l = make_line();
        bool ended;
        memset(plain, 5, sizeof plain);
        send_text(&l, plain, sizeof plain);
        assert_int_equal(read(l.out[1], sealed, sizeof sealed), sizeof sealed);
        sealed[ENVELOPE_HEADER + 40000] ^= (uint8_t)altered;
        pass(&l, sealed, 50000);
        assert_int_equal(seal_receive(l.far, l.in[1], got, sizeof got, &ended), 0);
        pass(&l, sealed + 50000, sizeof sealed - 50000);
        /* elsewhere than before, and with less room than the envelope needs */
        const ssize_t first = seal_receive(l.far, l.in[1], got + 7, 1000, &ended);
        assert_int_equal(first, altered ? -1 : 1000);
        assert_int_equal(seal_receive(l.far, l.in[1], got + 1007, sizeof plain, &ended),
                         altered ? -1 : (ssize_t)sizeof plain - 1000);
        if (!altered)
            assert_memory_equal(got + 7, plain, sizeof plain);
        close_line(&l);
    }
}

static void core_dumps_leave_keys_out(void **state)
{
    (void)state;
    uint8_t masked[NET_KEY_BYTES];
    proof_session *session = os_secret_alloc(sizeof *session);
    assert_non_null(session);
    *session = (proof_session){.cipher = cipher, .encrypts = encrypts};
    randombytes_buf(session->to_host, NET_KEY_BYTES);
    for (int i = 0; i < NET_KEY_BYTES; i++)
        masked[i] = session->to_host[i] ^ DUMP_MASK;
    seal *s = seal_make(session, false, ENVELOPE_KEY_BYTES);
    assert_non_null(s);
    assert_false(dump_has(masked, sizeof masked));
    seal_free(s);
    os_secret_free(session, sizeof *session);
}

static int run_all(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(core_dumps_leave_keys_out),
        cmocka_unit_test(altered_bytes_break_the_stream),
        cmocka_unit_test(altered_lengths_break_the_stream),
        cmocka_unit_test(envelopes_out_of_order_break_the_stream),
        cmocka_unit_test(own_envelopes_sent_back_break_the_stream),
        cmocka_unit_test(a_cut_envelope_is_never_delivered),
        cmocka_unit_test(bytes_arrive_in_pieces),
        cmocka_unit_test(parts_are_gathered),
        cmocka_unit_test(nothing_is_sent_for_nothing),
        cmocka_unit_test(one_envelope_waits_at_most),
        cmocka_unit_test(streams_outlive_their_keys),
        cmocka_unit_test(a_large_envelope_is_delivered_whole_or_not_at_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(void)
{
    dump_begin();
    int failed = sodium_init() < 0;
    for (int way = 0; way < 4 && failed == 0; way++) {
        cipher = way / 2 == 0 ? PROOF_CHACHA20 : PROOF_AES256GCM;
        encrypts = way % 2 == 1;
        if (cipher == PROOF_CHACHA20 || crypto_aead_aes256gcm_is_available() == 1)
            failed += run_all();
    }
    return failed;
}
