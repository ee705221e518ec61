/* record_test.c: sealed records open once, in order, unaltered, and not otherwise. */
#include "net/bytes.h"
#include "net/record.h"
#include "net/testing.h"

#include <stdlib.h>

static const uint8_t key[NET_KEY_BYTES] = {1, 2, 3}, other_key[NET_KEY_BYTES] = {1, 2, 4};
static const size_t sizes[] = {1, 2, 15, 16, 17, 1000, RECORD_PLAIN - 1, RECORD_PLAIN};
#define SIZES (sizeof sizes / sizeof sizes[0])

static uint8_t plain[RECORD_PLAIN], opened[RECORD_PLAIN], record[RECORD_BYTES],
    second[RECORD_BYTES];

static bool has_cipher(proof_cipher cipher)
{
    return cipher != PROOF_AES256GCM || crypto_aead_aes256gcm_is_available() == 1;
}

typedef void cipher_test(proof_cipher cipher);

static void with_both(cipher_test *test)
{
    for (size_t i = 0; i < sizeof plain; i++)
        plain[i] = (uint8_t)(i * 7 + i / 256);
    for (proof_cipher cipher = PROOF_AES256GCM; cipher <= PROOF_CHACHA20; cipher++) {
        if (has_cipher(cipher))
            test(cipher);
        else
            print_message("this processor has no AES instructions: only ChaCha20 is tested\n");
    }
}

static void start(proof_cipher cipher, record_direction *out, record_direction *in)
{
    record_start(out, cipher, key);
    record_start(in, cipher, key);
}

static void open_what_was_sealed(proof_cipher cipher)
{
    record_direction out, in;
    start(cipher, &out, &in);
    for (size_t i = 0; i < SIZES; i++) {
        assert_int_equal(record_seal(&out, plain, sizes[i], record),
                         RECORD_HEADER + sizes[i] + RECORD_TAG);
        assert_int_equal(record_length(record), sizes[i]);
        if (sizes[i] >= 16)
            assert_memory_not_equal(record + RECORD_HEADER, plain, 16);
        memset(opened, 0, sizeof opened);
        assert_true(record_open(&in, record, opened));
        assert_memory_equal(opened, plain, sizes[i]);
    }
}

static void records_open_again(void **state)
{
    (void)state;
    with_both(open_what_was_sealed);
}

static void seal_in_place(proof_cipher cipher)
{
    record_direction out, in;
    start(cipher, &out, &in);
    for (size_t i = 0; i < SIZES; i++) {
        memcpy(record + RECORD_HEADER, plain, sizes[i]);
        record_seal(&out, record + RECORD_HEADER, sizes[i], record);
        assert_true(record_open(&in, record, record + RECORD_HEADER));
        assert_memory_equal(record + RECORD_HEADER, plain, sizes[i]);
    }
}

static void records_are_sealed_and_opened_in_place(void **state)
{
    (void)state;
    with_both(seal_in_place);
}

static void alter_every_bit(proof_cipher cipher)
{
    record_direction out, in;
    start(cipher, &out, &in);
    const size_t bytes = record_seal(&out, plain, 40, record);
    for (size_t bit = 0; bit < 8 * bytes; bit++) {
        record[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_true(record_length(record) == 0 || !record_open(&in, record, opened));
        record[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    assert_true(record_open(&in, record, opened)); /* the failures have changed nothing */
}

static void no_bit_can_be_altered(void **state)
{
    (void)state;
    memset(record, 0, sizeof record);
    with_both(alter_every_bit);
}

static void change_the_order(proof_cipher cipher)
{
    record_direction out, in;
    start(cipher, &out, &in);
    record_seal(&out, plain, 100, record);
    record_seal(&out, plain, 100, second);
    assert_memory_not_equal(record, second, 100); /* the same bytes look different */
    assert_false(record_open(&in, second, opened));
    assert_true(record_open(&in, record, opened));
    assert_false(record_open(&in, record, opened));
    assert_true(record_open(&in, second, opened));
}

static void records_cannot_be_repeated_dropped_or_swapped(void **state)
{
    (void)state;
    with_both(change_the_order);
}

static void use_another_key(proof_cipher cipher)
{
    record_direction out, in;
    start(cipher, &out, &in);
    record_start(&in, cipher, other_key);
    record_seal(&out, plain, 100, record);
    assert_false(record_open(&in, record, opened));
    if (!has_cipher(PROOF_AES256GCM))
        return;
    record_start(&in, cipher == PROOF_AES256GCM ? PROOF_CHACHA20 : PROOF_AES256GCM, key);
    assert_false(record_open(&in, record, opened));
}

static void another_key_or_cipher_opens_nothing(void **state)
{
    (void)state;
    with_both(use_another_key);
}

static void lengths_are_bounded(void **state)
{
    (void)state;
    static const uint32_t bad[] = {0, RECORD_PLAIN + 1, 1u << 24, UINT32_MAX, 0x80000000u};
    uint8_t header[RECORD_HEADER];
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        bytes_put32(header, bad[i]);
        assert_int_equal(record_length(header), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_open_again),
        cmocka_unit_test(records_are_sealed_and_opened_in_place),
        cmocka_unit_test(no_bit_can_be_altered),
        cmocka_unit_test(records_cannot_be_repeated_dropped_or_swapped),
        cmocka_unit_test(another_key_or_cipher_opens_nothing),
        cmocka_unit_test(lengths_are_bounded),
    };
    return sodium_init() < 0 ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
