/* byte_queue_test.c: what goes in at the end comes out at the start, however it was cut. */
#include "base/byte_queue.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>

#include <cmocka.h>

#define TOTAL 200000

static uint8_t byte_at(size_t i)
{
    return (uint8_t)(i * 7 + i / 253);
}

static size_t next(uint64_t *state, size_t most)
{
    *state = *state * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return (size_t)((*state >> 33) % most);
}

static void bytes_come_out_as_they_went_in(void **state)
{
    (void)state;
    byte_queue q = {.bytes = NULL};
    uint64_t random = 1;
    for (size_t in = 0, out = 0; out < TOTAL;) {
        size_t more = next(&random, 900);
        more = more < TOTAL - in ? more : TOTAL - in;
        uint8_t *to = byte_queue_room(&q, more + 1);
        assert_non_null(to);
        for (size_t i = 0; i < more; i++)
            to[i] = byte_at(in + i);
        in += more;
        q.end += more;
        assert_int_equal(byte_queue_used(&q), in - out);
        size_t less = next(&random, 1000);
        less = less < byte_queue_used(&q) ? less : byte_queue_used(&q);
        for (size_t i = 0; i < less; i++)
            assert_int_equal(q.bytes[q.start + i], byte_at(out + i));
        q.start += less;
        out += less;
    }
    byte_queue_free(&q);
    assert_null(q.bytes);
}

static void an_empty_one_needs_no_more_memory(void **state)
{
    (void)state;
    byte_queue q = {.bytes = NULL};
    for (int i = 0; i < 1000; i++) {
        assert_non_null(byte_queue_room(&q, 100));
        q.end += 100;
        q.start += 100;
    }
    assert_true(q.capacity < 1000);
    byte_queue_free(&q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_come_out_as_they_went_in),
        cmocka_unit_test(an_empty_one_needs_no_more_memory),
    };
    return cmocka_run_group_tests_name("byte_queue", tests, NULL, NULL);
}
