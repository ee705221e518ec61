/* heard_test.c: what was heard is known again, also when there is much of it. */
#include "net/heard.h"

#include "net/bytes.h"
#include "net/testing.h"

static const uint8_t *nonce_of(uint64_t number, uint8_t nonce[PROOF_NONCE])
{
    memset(nonce, 0, PROOF_NONCE);
    bytes_put64(nonce, (number + 1) * UINT64_C(0x9e3779b97f4a7c15)
                           << 1); /* the lowest bit is not used */
    return nonce;
}

static void each_is_new_once(void **state)
{
    (void)state;
    heard h = {0};
    uint8_t nonce[PROOF_NONCE];
    const uint64_t many = 100000;
    for (uint64_t i = 0; i < many; i++)
        assert_true(heard_note(&h, nonce_of(i, nonce)));
    for (uint64_t i = 0; i < many; i++)
        assert_false(heard_note(&h, nonce_of(i, nonce)));
    assert_int_equal(h.count, many);
    heard_clear(&h);
    assert_true(heard_note(&h, nonce_of(0, nonce)));
    heard_clear(&h);
}

static void it_never_grows_beyond_its_limit(void **state)
{
    (void)state;
    heard h = {0};
    uint8_t nonce[PROOF_NONCE];
    for (uint64_t i = 0; i < HEARD_MOST + 10; i++)
        assert_true(heard_note(&h, nonce_of(i, nonce)));
    assert_int_equal(h.places, 2 * HEARD_MOST);
    assert_int_equal(h.count, 10); /* it began anew */
    assert_false(heard_note(&h, nonce_of(HEARD_MOST + 9, nonce)));
    heard_clear(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_is_new_once),
        cmocka_unit_test(it_never_grows_beyond_its_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
