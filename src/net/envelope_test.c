/* envelope_test.c: envelopes open once, in order, unaltered, and not otherwise, encrypted or only authenticated. */
#include "net/bytes.h"
#include "net/envelope.h"
#include "net/testing.h"

#include <stdlib.h>

static const uint8_t key[NET_KEY_BYTES] = {1, 2, 3}, other_key[NET_KEY_BYTES] = {1, 2, 4};
static const size_t sizes[] = {1, 2, 15, 16, 17, 1000, ENVELOPE_PLAIN - 1, ENVELOPE_PLAIN};
#define SIZES (sizeof sizes / sizeof sizes[0])

static uint8_t plain[ENVELOPE_PLAIN], content[ENVELOPE_PLAIN], second[ENVELOPE_PLAIN];

/* A cipher, and whether it encrypts or only authenticates. */
typedef struct way {
    proof_cipher cipher;
    bool encrypts;
} way;

static bool has_cipher(proof_cipher cipher)
{
    return cipher != PROOF_AES256GCM || crypto_aead_aes256gcm_is_available() == 1;
}

static void in_all_ways(void (*test)(way w))
{
    for (size_t i = 0; i < sizeof plain; i++)
        plain[i] = (uint8_t)(i * 7 + i / 256);
    for (proof_cipher cipher = PROOF_AES256GCM; cipher <= PROOF_CHACHA20; cipher++) {
        if (!has_cipher(cipher)) {
            print_message("this processor has no AES instructions: only ChaCha20 is tested\n");
            continue;
        }
        test((way){cipher, false});
        test((way){cipher, true});
    }
}

#define TEST_IN_ALL_WAYS(name, function)                                                           \
    static void name(void **state)                                                                 \
    {                                                                                              \
        (void)state;                                                                               \
        in_all_ways(function);                                                                     \
    }

static void start(way w, envelope_direction *out, envelope_direction *in)
{
    envelope_start(out, w.cipher, w.encrypts, key);
    envelope_start(in, w.cipher, w.encrypts, key);
}

/* An envelope as it would have travelled, its content in `to`. */
static envelope_frame seal_to(envelope_direction *d, size_t bytes, uint8_t *to)
{
    envelope_frame frame;
    const uint8_t *travels = envelope_seal(d, plain, bytes, to, &frame);
    assert_ptr_equal(travels, d->encrypts ? to : plain);
    memmove(to, travels, bytes);
    return frame;
}

static void open_what_was_sealed(way w)
{
    envelope_direction out, in;
    start(w, &out, &in);
    for (size_t i = 0; i < SIZES; i++) {
        const envelope_frame frame = seal_to(&out, sizes[i], content);
        assert_int_equal(envelope_length(frame.header), sizes[i]);
        if (sizes[i] >= 16)
            assert_int_equal(memcmp(content, plain, 16) != 0, w.encrypts);
        assert_true(envelope_open(&in, &frame, content));
        assert_memory_equal(content, plain, sizes[i]);
    }
}
TEST_IN_ALL_WAYS(envelopes_open_again, open_what_was_sealed)

static void seal_in_place(way w)
{
    envelope_direction out, in;
    start(w, &out, &in);
    for (size_t i = 0; i < SIZES; i++) {
        envelope_frame frame;
        memcpy(content, plain, sizes[i]);
        assert_ptr_equal(envelope_seal(&out, content, sizes[i], content, &frame), content);
        assert_true(envelope_open(&in, &frame, content));
        assert_memory_equal(content, plain, sizes[i]);
    }
}
TEST_IN_ALL_WAYS(envelopes_are_sealed_and_opened_in_place, seal_in_place)

#define ALTERED 40

static void alter_every_bit(way w)
{
    envelope_direction out, in;
    start(w, &out, &in);
    const envelope_frame frame = seal_to(&out, ALTERED, second);
    for (size_t bit = 0; bit < 8 * (sizeof frame + ALTERED); bit++) {
        envelope_frame altered = frame;
        const uint8_t flip = (uint8_t)(1 << bit % 8);
        memcpy(content, second, ALTERED);
        memset(content + ALTERED, 0, sizeof content - ALTERED);
        if (bit / 8 < sizeof frame)
            ((uint8_t *)&altered)[bit / 8] ^= flip;
        else
            content[bit / 8 - sizeof frame] ^= flip;
        assert_true(envelope_length(altered.header) == 0 || !envelope_open(&in, &altered, content));
    }
    assert_true(envelope_open(&in, &frame, second)); /* the failures have not moved it on */
    assert_memory_equal(second, plain, ALTERED);
}
TEST_IN_ALL_WAYS(no_bit_can_be_altered, alter_every_bit)

static bool opens(envelope_direction *in, const envelope_frame *frame, const uint8_t *bytes)
{
    memcpy(content, bytes, 100);
    return envelope_open(in, frame, content);
}

static void change_the_order(way w)
{
    static uint8_t first[100];
    envelope_direction out, in;
    start(w, &out, &in);
    const envelope_frame a = seal_to(&out, 100, first), b = seal_to(&out, 100, second);
    assert_memory_not_equal(a.tag, b.tag, ENVELOPE_TAG); /* the same bytes look different */
    assert_false(opens(&in, &b, second));
    assert_true(opens(&in, &a, first));
    assert_false(opens(&in, &a, first));
    assert_true(opens(&in, &b, second));
}
TEST_IN_ALL_WAYS(envelopes_cannot_be_repeated_dropped_or_swapped, change_the_order)

static void use_another_key(way w)
{
    envelope_direction out, in;
    start(w, &out, &in);
    envelope_start(&in, w.cipher, w.encrypts, other_key);
    const envelope_frame frame = seal_to(&out, 100, second);
    assert_false(opens(&in, &frame, second));
    envelope_start(&in, w.cipher, !w.encrypts, key);
    assert_false(opens(&in, &frame, second));
    if (!has_cipher(PROOF_AES256GCM))
        return;
    envelope_start(&in, w.cipher == PROOF_AES256GCM ? PROOF_CHACHA20 : PROOF_AES256GCM, w.encrypts,
                   key);
    assert_false(opens(&in, &frame, second));
}
TEST_IN_ALL_WAYS(another_key_cipher_or_use_opens_nothing, use_another_key)

/* The tag is that of the standard over an empty message, so that other programs can check it. */
static void what_is_authenticated_has_the_usual_tag(void **state)
{
    (void)state;
    envelope_direction out;
    envelope_frame frame;
    uint8_t nonce[12] = {[8] = 100}, tag[ENVELOPE_TAG];
    envelope_start(&out, PROOF_CHACHA20, false, key);
    for (uint8_t i = 0; i < 3; i++) {
        nonce[0] = i;
        envelope_seal(&out, plain, 100, content, &frame);
        crypto_aead_chacha20poly1305_ietf_encrypt_detached(second, tag, NULL, NULL, 0, plain, 100,
                                                           NULL, nonce, key);
        assert_memory_equal(frame.tag, tag, sizeof tag);
    }
}

static void change_keys(way w)
{
    envelope_direction out, in;
    uint8_t expected[NET_KEY_BYTES], label[16] = "rueda next key";
    start(w, &out, &in);
    out.key_bytes = in.key_bytes = 250;
    memcpy(expected, key, sizeof expected);
    for (int i = 1; i <= 21; i++) {
        const envelope_frame frame = seal_to(&out, 100, second);
        assert_true(opens(&in, &frame, second));
        assert_memory_equal(content, plain, 100);
        uint8_t last[NET_KEY_BYTES];
        memcpy(last, expected, sizeof last);
        if (i % 3 == 0) /* 100 and 200 bytes are not enough, 300 are */
            crypto_generichash(expected, sizeof expected, label, sizeof label, last, sizeof last);
        assert_memory_equal(out.key, expected, sizeof expected);
        assert_memory_equal(in.key, expected, sizeof expected);
    }
    in.key_bytes = 10; /* who counts differently reads nothing more */
    envelope_frame frame = seal_to(&out, 100, second);
    assert_true(opens(&in, &frame, second));
    frame = seal_to(&out, 100, second);
    assert_false(opens(&in, &frame, second));
}
TEST_IN_ALL_WAYS(keys_change_after_their_bytes, change_keys)

static void a_key_serves_for_64_gib(void **state)
{
    (void)state;
    envelope_direction d;
    envelope_start(&d, PROOF_CHACHA20, false, key);
    assert_int_equal(d.key_bytes, UINT64_C(64) * 1024 * 1024 * 1024);
}

static void lengths_are_bounded(void **state)
{
    (void)state;
    static const uint32_t bad[] = {0, ENVELOPE_PLAIN + 1, 1u << 24, UINT32_MAX, 0x80000000u};
    uint8_t header[ENVELOPE_HEADER];
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        bytes_put32(header, bad[i]);
        assert_int_equal(envelope_length(header), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(envelopes_open_again),
        cmocka_unit_test(envelopes_are_sealed_and_opened_in_place),
        cmocka_unit_test(no_bit_can_be_altered),
        cmocka_unit_test(envelopes_cannot_be_repeated_dropped_or_swapped),
        cmocka_unit_test(another_key_cipher_or_use_opens_nothing),
        cmocka_unit_test(what_is_authenticated_has_the_usual_tag),
        cmocka_unit_test(keys_change_after_their_bytes),
        cmocka_unit_test(a_key_serves_for_64_gib),
        cmocka_unit_test(lengths_are_bounded),
    };
    return sodium_init() < 0 ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
