/* proof_test.c: what the messages of the proof say, and that no byte of them can be changed. The
 * layout of the wire is written down here a second time, in plain numbers. */
#include "net/bytes.h"
#include "net/testing.h"

#include <sodium.h>

static const proof_chance chance_a = {.nonce = {1, 2, 3}, .secret = {11, 12}},
                          chance_b = {.nonce = {4, 5, 6}, .secret = {21, 22}};

/* Both ends, and what they said. */
typedef struct talk {
    net_identity caller, host;
    net_purpose purpose;
    proof_transcript said;
} talk;

static talk start_talk(bool encrypt)
{
    return (talk){.caller = test_identity(TEST_CALLER, encrypt),
                  .host = test_identity(TEST_HOST, encrypt),
                  .purpose = test_purpose()};
}

/* A proof that goes well. */
static talk whole_talk(bool encrypt)
{
    talk t = start_talk(encrypt);
    net_purpose seen;
    proof_make_hello(&t.caller, &t.purpose, true, &chance_a, &t.said);
    assert_int_equal(proof_check_hello(&t.host, &t.said, &seen), PROOF_GOOD);
    assert_true(test_same_purpose(&seen, &t.purpose));
    proof_make_answer(&t.host, true, &chance_b, &t.said);
    assert_int_equal(proof_check_answer(&t.caller, &t.said), PROOF_GOOD);
    proof_make_finish(&t.caller, &t.said);
    assert_int_equal(proof_check_finish(&t.host, &t.said), PROOF_GOOD);
    return t;
}

/* The MAC over a label of 16 bytes and the beginning of the transcript, calculated in one piece. */
static void expect_mac(const talk *t, const char *label, size_t bytes, uint8_t *mac, size_t room)
{
    uint8_t covered[16 + sizeof(proof_transcript)] = {0};
    memcpy(covered, label, strlen(label));
    memcpy(covered + 16, &t->said, bytes);
    crypto_generichash(mac, room, covered, 16 + bytes, t->host.key, NET_KEY_BYTES);
}

static void assert_mac(const talk *t, const char *label, size_t at)
{
    uint8_t mac[32];
    expect_mac(t, label, at, mac, sizeof mac);
    assert_memory_equal((const uint8_t *)&t->said + at, mac, sizeof mac);
}

static void the_layout_of_the_wire_is_fixed(void **state)
{
    (void)state;
    const talk t = whole_talk(true);
    const uint8_t *hello = t.said.hello, *answer = t.said.answer;
    uint8_t public[32];
    assert_int_equal(sizeof t.said, 192 + 112 + 32);
    assert_memory_equal(hello, "rueda-h\n", 8);
    assert_int_equal(bytes_get32(hello + 8), 6);
    assert_int_equal(bytes_get32(hello + 12), 3); /* encrypt, AES */
    uint8_t job[32], name[3 + 16] = "job";        /* and no instance yet */
    crypto_generichash(job, sizeof job, name, sizeof name, NULL, 0);
    assert_memory_equal(hello + 16, job, 32);
    assert_int_equal(bytes_get64(hello + 48), 3);
    assert_int_equal(bytes_get64(hello + 56), t.purpose.epoch);
    assert_int_equal(bytes_get32(hello + 64), 7);
    assert_int_equal(bytes_get32(hello + 68), TEST_CALLER);
    assert_int_equal(bytes_get32(hello + 72), TEST_HOST);
    assert_int_equal(bytes_get32(hello + 76), 11);
    assert_int_equal(bytes_get32(hello + 80), 13);
    assert_memory_equal(hello + 84, "\0\0\0\0\0\0\0\0\0\0\0", 12);
    assert_memory_equal(hello + 96, chance_a.nonce, 32);
    crypto_scalarmult_base(public, chance_a.secret);
    assert_memory_equal(hello + 128, public, 32);
    assert_mac(&t, "rueda hello", 160);
    assert_memory_equal(answer, "rueda-a\n", 8);
    assert_int_equal(bytes_get32(answer + 8), 6);
    assert_int_equal(bytes_get32(answer + 12), PROOF_AES256GCM);
    assert_memory_equal(answer + 16, chance_b.nonce, 32);
    crypto_scalarmult_base(public, chance_b.secret);
    assert_memory_equal(answer + 48, public, 32);
    assert_mac(&t, "rueda answer", 192 + 80);
    assert_mac(&t, "rueda finish", 304);
}

/* What a change of one bit at this byte of a hello comes to. */
static proof_verdict verdict_of_byte(size_t at)
{
    if (at < 8)
        return PROOF_GARBAGE;
    if (at < 12)
        return PROOF_WRONG_VERSION;
    if (at >= 16 && at < 48)
        return PROOF_WRONG_JOB;
    return at >= 48 && at < 56 ? PROOF_WRONG_GENERATION : PROOF_WRONG_KEY;
}

static void every_bit_of_a_hello_counts(void **state)
{
    (void)state;
    talk t = whole_talk(false);
    net_purpose seen;
    for (size_t bit = 0; bit < 8 * sizeof t.said.hello; bit++) {
        t.said.hello[bit / 8] ^= (uint8_t)(1 << bit % 8);
        const proof_verdict verdict = proof_check_hello(&t.host, &t.said, &seen);
        if (verdict != verdict_of_byte(bit / 8))
            fail_msg("bit %zu of byte %zu: verdict %d", bit % 8, bit / 8, verdict);
        t.said.hello[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    assert_int_equal(proof_check_hello(&t.host, &t.said, &seen), PROOF_GOOD);
}

static void every_bit_of_an_answer_counts(void **state)
{
    (void)state;
    talk t = whole_talk(true);
    for (size_t bit = 0; bit < 8 * offsetof(proof_transcript, finish); bit++) {
        uint8_t *byte = (uint8_t *)&t.said + bit / 8;
        const size_t at = bit / 8 - (bit / 8 < PROOF_HELLO ? 0 : PROOF_HELLO);
        proof_verdict expected = PROOF_WRONG_KEY;
        if (bit / 8 >= PROOF_HELLO && at < PROOF_PREFIX)
            expected = at < 8 ? PROOF_GARBAGE : PROOF_WRONG_VERSION;
        *byte ^= (uint8_t)(1 << bit % 8);
        assert_int_equal(proof_check_answer(&t.caller, &t.said), expected);
        *byte ^= (uint8_t)(1 << bit % 8);
    }
}

static void every_bit_before_and_of_the_finish_counts(void **state)
{
    (void)state;
    talk t = whole_talk(false);
    for (size_t bit = 0; bit < 8 * sizeof t.said; bit++) {
        uint8_t *byte = (uint8_t *)&t.said + bit / 8;
        *byte ^= (uint8_t)(1 << bit % 8);
        assert_int_equal(proof_check_finish(&t.host, &t.said), PROOF_WRONG_KEY);
        *byte ^= (uint8_t)(1 << bit % 8);
    }
}

static void identities_must_agree(void **state)
{
    (void)state;
    static const struct {
        size_t offset;
        proof_verdict verdict;
    } table[] = {{offsetof(net_identity, key), PROOF_WRONG_KEY},
                 {offsetof(net_identity, key) + NET_KEY_BYTES - 1, PROOF_WRONG_KEY},
                 {offsetof(net_identity, job), PROOF_WRONG_JOB},
                 {offsetof(net_identity, job) + 3, PROOF_WRONG_JOB},
                 {offsetof(net_identity, instance), PROOF_WRONG_JOB},
                 {offsetof(net_identity, instance) + NET_INSTANCE_BYTES - 1, PROOF_WRONG_JOB},
                 {offsetof(net_identity, generation), PROOF_WRONG_GENERATION},
                 {offsetof(net_identity, generation) + 7, PROOF_WRONG_GENERATION},
                 {offsetof(net_identity, rank), PROOF_WRONG_PURPOSE},
                 {offsetof(net_identity, encrypt), PROOF_WRONG_PURPOSE}};
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        talk t = start_talk(true);
        net_purpose seen = {.role = 99};
        ((uint8_t *)&t.host)[table[i].offset] ^= 1;
        proof_make_hello(&t.caller, &t.purpose, true, &chance_a, &t.said);
        assert_int_equal(proof_check_hello(&t.host, &t.said, &seen), table[i].verdict);
        assert_int_equal(seen.role, 99); /* set only on success */
    }
}

static void the_longest_job_name_is_whole(void **state)
{
    (void)state;
    talk t = start_talk(false);
    net_purpose seen;
    memset(t.caller.job, 'x', sizeof t.caller.job); /* no terminating zero */
    memset(t.host.job, 'x', sizeof t.host.job);
    proof_make_hello(&t.caller, &t.purpose, true, &chance_a, &t.said);
    assert_int_equal(proof_check_hello(&t.host, &t.said, &seen), PROOF_GOOD);
    t.host.job[sizeof t.host.job - 1] = 'y';
    assert_int_equal(proof_check_hello(&t.host, &t.said, &seen), PROOF_WRONG_JOB);
}

/* What somebody who has the key may say and what not. */
static void fields_are_checked_behind_a_right_mac_too(void **state)
{
    (void)state;
    talk t = start_talk(false);
    net_purpose seen;
    for (size_t at = 12; at < 96; at++) {
        proof_make_hello(&t.caller, &t.purpose, true, &chance_a, &t.said);
        t.said.hello[at] ^= 0x10;
        expect_mac(&t, "rueda hello", 160, t.said.hello + 160, 32);
        proof_verdict expected = PROOF_GOOD;
        if (at < 16 || at >= 84)
            expected = PROOF_GARBAGE; /* unknown flags, bytes that must be zero */
        else if (at < 56)
            expected = verdict_of_byte(at);
        else if (at >= 72 && at < 76)
            expected = PROOF_WRONG_PURPOSE;
        if (proof_check_hello(&t.host, &t.said, &seen) != expected)
            fail_msg("byte %zu", at);
    }
    t = whole_talk(true);
    for (uint32_t cipher = 0; cipher < 10; cipher++) {
        bytes_put32(t.said.answer + 12, cipher);
        expect_mac(&t, "rueda answer", 192 + 80, t.said.answer + 80, 32);
        const bool offered = cipher == PROOF_AES256GCM || cipher == PROOF_CHACHA20;
        assert_int_equal(proof_check_answer(&t.caller, &t.said),
                         offered ? PROOF_GOOD : PROOF_GARBAGE);
    }
}

static void messages_cannot_stand_for_each_other(void **state)
{
    (void)state;
    talk t = whole_talk(false);
    net_purpose seen;
    /* the host's MAC sent back as the caller's */
    memcpy(t.said.finish, t.said.answer + 80, PROOF_MAC);
    assert_int_equal(proof_check_finish(&t.host, &t.said), PROOF_WRONG_KEY);
    /* a hello sent back as an answer, and the other way round */
    t = whole_talk(false);
    memcpy(t.said.answer, t.said.hello, PROOF_ANSWER);
    assert_int_equal(proof_check_answer(&t.caller, &t.said), PROOF_GARBAGE);
    t = whole_talk(false);
    memcpy(t.said.hello, t.said.answer, PROOF_ANSWER);
    assert_int_equal(proof_check_hello(&t.host, &t.said, &seen), PROOF_GARBAGE);
    /* a hello sent back to its own rank */
    t = whole_talk(false);
    assert_int_equal(proof_check_hello(&t.caller, &t.said, &seen), PROOF_WRONG_PURPOSE);
}

static void recorded_messages_prove_nothing(void **state)
{
    (void)state;
    static const proof_chance fresh = {.nonce = {9}};
    /* to the host, which answers with another nonce now */
    talk t = whole_talk(false);
    proof_make_answer(&t.host, true, &fresh, &t.said);
    assert_int_equal(proof_check_finish(&t.host, &t.said), PROOF_WRONG_KEY);
    /* to the caller, whose hello has another nonce now */
    t = whole_talk(false);
    proof_make_hello(&t.caller, &t.purpose, true, &fresh, &t.said);
    assert_int_equal(proof_check_answer(&t.caller, &t.said), PROOF_WRONG_KEY);
}

static void strangers_are_known_by_their_first_bytes(void **state)
{
    (void)state;
    talk t = whole_talk(false);
    for (size_t bytes = 0; bytes <= PROOF_HELLO; bytes++)
        assert_int_equal(proof_check_prefix(&t.said, bytes), PROOF_GOOD);
    t.said.hello[3] ^= 1;
    for (size_t bytes = 0; bytes <= PROOF_HELLO; bytes++)
        assert_int_equal(proof_check_prefix(&t.said, bytes),
                         bytes < 4 ? PROOF_GOOD : PROOF_GARBAGE);
    t.said.hello[3] ^= 1;
    t.said.hello[8]++;
    for (size_t bytes = 0; bytes <= PROOF_HELLO; bytes++)
        assert_int_equal(proof_check_prefix(&t.said, bytes),
                         bytes < PROOF_PREFIX ? PROOF_GOOD : PROOF_WRONG_VERSION);
}

static proof_session session_of(const talk *t, bool is_host)
{
    proof_session session;
    assert_true(proof_derive(is_host ? &t->host : &t->caller, &t->said,
                             is_host ? &chance_b : &chance_a, is_host, &session));
    return session;
}

/* The hash over the label, all that was said and the secret of X25519, calculated in one piece. */
static void expect_keys(const talk *t, uint8_t keys[64])
{
    uint8_t covered[16 + sizeof t->said + 32] = "rueda session";
    memcpy(covered + 16, &t->said, sizeof t->said);
    assert_int_equal(
        crypto_scalarmult(covered + 16 + sizeof t->said, chance_a.secret, t->said.answer + 48), 0);
    crypto_generichash(keys, 64, covered, sizeof covered, t->host.key, NET_KEY_BYTES);
}

static void sessions_follow_from_all_that_was_said(void **state)
{
    (void)state;
    const talk t = whole_talk(true);
    uint8_t keys[64];
    const proof_session caller = session_of(&t, false), host = session_of(&t, true);
    assert_int_equal(caller.cipher, PROOF_AES256GCM);
    assert_memory_equal(caller.to_host, host.to_host, NET_KEY_BYTES);
    assert_memory_equal(caller.to_caller, host.to_caller, NET_KEY_BYTES);
    assert_memory_not_equal(caller.to_host, caller.to_caller, NET_KEY_BYTES);
    expect_keys(&t, keys);
    assert_memory_equal(caller.to_host, keys, 32);
    assert_memory_equal(caller.to_caller, keys + 32, 32);
    for (size_t i = 0; i < sizeof t.said; i++) {
        talk changed = t;
        ((uint8_t *)&changed.said)[i] ^= 1;
        const proof_session other = session_of(&changed, true);
        assert_memory_not_equal(other.to_host, host.to_host, NET_KEY_BYTES);
    }
}

/* Who has the job's key and all that was said, but neither secret, does not get the keys. */
static void the_key_and_a_record_do_not_open_a_session(void **state)
{
    (void)state;
    const talk t = whole_talk(true);
    const proof_session session = session_of(&t, true);
    proof_session guess;
    for (uint8_t i = 0; i < 50; i++) {
        const proof_chance other = {.secret = {i, 7}};
        assert_true(proof_derive(&t.host, &t.said, &other, i % 2, &guess));
        assert_memory_not_equal(guess.to_host, session.to_host, NET_KEY_BYTES);
        assert_memory_not_equal(guess.to_caller, session.to_caller, NET_KEY_BYTES);
    }
}

/* Points of X25519 with which every secret gives zero. */
static void a_public_key_that_is_none_is_refused(void **state)
{
    (void)state;
    talk t = whole_talk(false);
    proof_session session;
    memset(t.said.hello + 128, 0, 32);
    assert_false(proof_derive(&t.host, &t.said, &chance_b, true, &session));
    assert_true(proof_derive(&t.caller, &t.said, &chance_a, false, &session));
    memset(t.said.answer + 48, 0, 32);
    assert_false(proof_derive(&t.caller, &t.said, &chance_a, false, &session));
}

static void aes_is_chosen_where_both_have_it_and_a_key(void **state)
{
    (void)state;
    for (int i = 0; i < 16; i++) {
        const bool encrypt = i & 1, caller_has = i & 2, host_has = i & 4, has_key = i & 8;
        talk t = start_talk(encrypt);
        if (!has_key) {
            memset(t.caller.key, 0, sizeof t.caller.key);
            memset(t.host.key, 0, sizeof t.host.key);
        }
        net_purpose seen;
        proof_make_hello(&t.caller, &t.purpose, caller_has, &chance_a, &t.said);
        assert_int_equal(proof_check_hello(&t.host, &t.said, &seen), PROOF_GOOD);
        proof_make_answer(&t.host, host_has, &chance_b, &t.said);
        assert_int_equal(proof_check_answer(&t.caller, &t.said), PROOF_GOOD);
        const proof_session session = session_of(&t, false);
        const proof_cipher best = caller_has && host_has ? PROOF_AES256GCM : PROOF_CHACHA20;
        assert_int_equal(session.cipher, has_key ? best : PROOF_PLAIN);
        assert_int_equal(session.encrypts, encrypt);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_layout_of_the_wire_is_fixed),
        cmocka_unit_test(every_bit_of_a_hello_counts),
        cmocka_unit_test(every_bit_of_an_answer_counts),
        cmocka_unit_test(every_bit_before_and_of_the_finish_counts),
        cmocka_unit_test(identities_must_agree),
        cmocka_unit_test(the_longest_job_name_is_whole),
        cmocka_unit_test(fields_are_checked_behind_a_right_mac_too),
        cmocka_unit_test(messages_cannot_stand_for_each_other),
        cmocka_unit_test(recorded_messages_prove_nothing),
        cmocka_unit_test(strangers_are_known_by_their_first_bytes),
        cmocka_unit_test(sessions_follow_from_all_that_was_said),
        cmocka_unit_test(the_key_and_a_record_do_not_open_a_session),
        cmocka_unit_test(a_public_key_that_is_none_is_refused),
        cmocka_unit_test(aes_is_chosen_where_both_have_it_and_a_key),
    };
    return sodium_init() < 0 ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
