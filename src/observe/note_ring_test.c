/* note_ring_test.c: notes come out whole, in order, and none twice; also between two threads.
 * ctest: threads */
#include "observe/note_ring.h"
#include "world/world.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

typedef struct note {
    note_head head;
    uint32_t length;
    uint64_t number;
    uint8_t bytes[];
} note;

static size_t length_of(uint64_t number)
{
    return (size_t)(number * 37 % 200);
}

static bool put(note_ring *r, uint64_t number)
{
    const size_t length = length_of(number);
    note *n = (note *)note_ring_reserve(r, (uint32_t)(sizeof *n + length));
    if (n == NULL)
        return false;
    n->number = number;
    n->length = (uint32_t)length;
    memset(n->bytes, (int)(number & 0xff), length);
    note_ring_publish(r, &n->head);
    return true;
}

/* Takes one and checks it; false: there is none. */
static bool take(note_ring *r, uint64_t expected)
{
    const note *n = (const note *)note_ring_peek(r);
    if (n == NULL)
        return false;
    assert_int_equal(n->number, expected);
    assert_int_equal(n->length, length_of(expected));
    for (uint32_t i = 0; i < n->length; i++)
        assert_int_equal(n->bytes[i], expected & 0xff);
    note_ring_take(r, &n->head);
    return true;
}

static void notes_come_out_in_order(void **state)
{
    (void)state;
    note_ring r = {0};
    assert_int_equal(note_ring_init(&r, 4096), RUEDA_OK);
    uint64_t in = 0, out = 0;
    assert_false(take(&r, 0));
    for (int turn = 0; turn < 1000; turn++) {
        for (int i = 0; i < turn % 17 && put(&r, in); i++)
            in++;
        for (int i = 0; i < turn % 13 && take(&r, out); i++)
            out++;
    }
    while (take(&r, out))
        out++;
    assert_int_equal(in, out);
    assert_true(in > 1000);
    note_ring_fini(&r);
}

static void a_full_ring_refuses_and_goes_on(void **state)
{
    (void)state;
    note_ring r = {0};
    assert_int_equal(note_ring_init(&r, 1024), RUEDA_OK);
    uint64_t in = 0;
    while (put(&r, in))
        in++;
    assert_in_range(in, 4, 60);
    assert_false(put(&r, in));
    for (uint64_t out = 0; out < in; out++)
        assert_true(take(&r, out));
    assert_true(put(&r, in));
    assert_true(take(&r, in));
    assert_null(note_ring_reserve(&r, 2000)); /* larger than the ring */
    note_ring_fini(&r);
}

static void half_full_is_told_once(void **state)
{
    (void)state;
    note_ring r = {0};
    assert_int_equal(note_ring_init(&r, 1024), RUEDA_OK);
    int told = 0;
    for (note_head *n; (n = note_ring_reserve(&r, 64)) != NULL;)
        told += note_ring_publish(&r, n);
    assert_int_equal(told, 1);
    note_ring_fini(&r);
}

#define BUSY_NOTES 200000

static void *put_many(void *argument)
{
    for (uint64_t i = 0; i < BUSY_NOTES;) {
        if (put(argument, i))
            i++;
        else
            world_yield();
    }
    return NULL;
}

static void two_threads_share_a_ring(void **state)
{
    (void)state;
    note_ring r = {0};
    assert_int_equal(note_ring_init(&r, 8192), RUEDA_OK);
    pthread_t writer;
    assert_int_equal(pthread_create(&writer, NULL, put_many, &r), 0);
    for (uint64_t out = 0; out < BUSY_NOTES;) {
        if (take(&r, out))
            out++;
        else
            world_yield();
    }
    pthread_join(writer, NULL);
    assert_null(note_ring_peek(&r));
    note_ring_fini(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(notes_come_out_in_order),
        cmocka_unit_test(a_full_ring_refuses_and_goes_on),
        cmocka_unit_test(half_full_is_told_once),
        cmocka_unit_test(two_threads_share_a_ring),
    };
    return cmocka_run_group_tests_name("note_ring", tests, NULL, NULL);
}
