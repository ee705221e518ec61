/* signature_test.c: descriptions of tensors: their wire form, and what counts as a disagreement. */
#include "queue/signature.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define ROOM 4096

static signature sample(void)
{
    signature s = {.kind = SIGNATURE_ALLTOALL,
                   .dtype = RUEDA_BF16,
                   .op = RUEDA_MAX,
                   .ndim = 3,
                   .mapped = true,
                   .root = -3,
                   .priority = -7,
                   .group_size = 5,
                   .group = UINT64_C(0x1234567890abcdef),
                   .prescale = 0.1,
                   .postscale = -2,
                   .shape = {4, 5, INT64_C(1) << 40},
                   .list_count = 2};
    s.list = malloc(2 * sizeof *s.list);
    s.list[0] = 1;
    s.list[1] = 3;
    return s;
}

static void a_description_survives_the_wire(void **state)
{
    (void)state;
    uint8_t wire[ROOM];
    for (size_t length = 0; length <= 9; length++) {
        signature s = sample(), back;
        const char *name;
        size_t name_length, taken;
        signature_encode(&s, "some name", length, wire);
        const size_t bytes = signature_encoded_bytes(&s, length);
        assert_int_equal(bytes % 8, 0);
        assert_int_equal(signature_decode(&back, &name, &name_length, wire, sizeof wire, &taken),
                         RUEDA_OK);
        assert_int_equal(taken, bytes);
        assert_true(signature_repeats(&s, &back));
        assert_int_equal(back.priority, s.priority);
        assert_int_equal(name_length, length);
        assert_memory_equal(name, "some name", length);
        signature_fini(&s);
        signature_fini(&back);
    }
}

static void a_description_that_is_cut_off_is_refused(void **state)
{
    (void)state;
    uint8_t wire[ROOM];
    signature s = sample(), back;
    const char *name;
    size_t length, taken;
    signature_encode(&s, "name", 4, wire);
    const size_t bytes = signature_encoded_bytes(&s, 4);
    for (size_t i = 0; i < bytes; i++) {
        uint8_t *cut = malloc(i + 1); /* so that a sanitizer sees a byte too many */
        memcpy(cut, wire, i);
        assert_int_equal(signature_decode(&back, &name, &length, cut, i, &taken),
                         RUEDA_ERR_INTERNAL);
        free(cut);
    }
    signature_fini(&s);
}

static uint32_t random_state = 12345;
static uint32_t next_random(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 17;
    random_state ^= random_state << 5;
    return random_state;
}

/* Whatever the bytes are, it is refused or lies within them and within the limits. */
static void garbage_does_no_harm(void **state)
{
    (void)state;
    for (int i = 0; i < 200000; i++) {
        const size_t bytes = next_random() % 160;
        uint8_t *wire = malloc(bytes + 1);
        signature good = sample(), back;
        const char *name;
        size_t length, taken;
        if (bytes >= signature_encoded_bytes(&good, 4)) {
            memset(wire, 0, bytes);
            signature_encode(&good, "name", 4, wire);
            for (uint32_t k = next_random() % 4; k < 4; k++)
                wire[next_random() % bytes] = (uint8_t)next_random();
        } else {
            for (size_t k = 0; k < bytes; k++)
                wire[k] = (uint8_t)next_random();
        }
        if (signature_decode(&back, &name, &length, wire, bytes, &taken) == RUEDA_OK) {
            assert_true(taken <= bytes);
            assert_true(back.kind < SIGNATURE_KIND_COUNT && back.dtype < RUEDA_DTYPE_COUNT);
            assert_true(back.ndim <= RUEDA_MAX_DIMS && length <= RUEDA_MAX_NAME);
            assert_true((const uint8_t *)name + length <= wire + bytes);
            signature_fini(&back);
        }
        signature_fini(&good);
        free(wire);
    }
}

static void copies_own_their_list(void **state)
{
    (void)state;
    signature s = sample(), copy;
    assert_int_equal(signature_copy(&copy, &s), RUEDA_OK);
    assert_ptr_not_equal(copy.list, s.list);
    assert_true(signature_repeats(&s, &copy));
    s.list[1] = 9;
    assert_false(signature_repeats(&s, &copy));
    signature_fini(&s);
    signature_fini(&copy);
    signature_fini(&copy); /* twice is allowed */
}

static void elements_and_rows_are_counted(void **state)
{
    (void)state;
    signature s = {.ndim = 3, .shape = {4, 5, 6}};
    assert_int_equal(signature_elements(&s), 120);
    assert_int_equal(signature_row_elements(&s), 30);
    s.ndim = 0;
    assert_int_equal(signature_elements(&s), 1);
    s.ndim = 1;
    s.shape[0] = 0;
    assert_int_equal(signature_elements(&s), 0);
    assert_int_equal(signature_row_elements(&s), 1);
}

/* Only the first dimension of gathered tensors, splits and memory are a rank's own. */
static void what_is_a_ranks_own_does_not_conflict(void **state)
{
    (void)state;
    signature a = sample(), b = sample();
    b.mapped = false;
    b.priority = 100;
    b.shape[0] = 77;
    b.list[0] = 42;
    assert_int_equal(signature_conflict("t", &a, 0, &b, 1), RUEDA_OK);
    assert_false(signature_repeats(&a, &b));
    a.kind = b.kind = SIGNATURE_ALLREDUCE;
    assert_int_equal(signature_conflict("t", &a, 0, &b, 1), RUEDA_ERR_MISMATCH);
    assert_non_null(strstr(status_text(), "[77, 5, 1099511627776]"));
    signature_fini(&a);
    signature_fini(&b);
}

static void a_long_shape_does_not_overflow_the_sentence(void **state)
{
    (void)state;
    signature a = {.ndim = RUEDA_MAX_DIMS}, b = {.ndim = RUEDA_MAX_DIMS};
    for (int i = 0; i < RUEDA_MAX_DIMS; i++)
        a.shape[i] = b.shape[i] = INT64_MAX - i;
    b.shape[3] = 0;
    assert_int_equal(signature_conflict("t", &a, 0, &b, 1), RUEDA_ERR_MISMATCH);
    assert_non_null(strstr(status_text(), "9223372036854775807"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_description_survives_the_wire),
        cmocka_unit_test(a_description_that_is_cut_off_is_refused),
        cmocka_unit_test(garbage_does_no_harm),
        cmocka_unit_test(copies_own_their_list),
        cmocka_unit_test(elements_and_rows_are_counted),
        cmocka_unit_test(what_is_a_ranks_own_does_not_conflict),
        cmocka_unit_test(a_long_shape_does_not_overflow_the_sentence),
    };
    return cmocka_run_group_tests_name("signature", tests, NULL, NULL);
}
