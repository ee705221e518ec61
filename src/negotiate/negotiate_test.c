/* negotiate_test.c: one rank negotiating with itself: order, groups and the cache. What takes several
 * ranks is in tests/multiprocess. */
#include "base/zero_alloc.h"
#include "negotiate/negotiate.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

typedef struct fixture {
    config settings;
    segment segment;
    control job;
    control_members members;
    uint16_t ranks[1];
    queue queue;
    negotiation negotiation;
} fixture;

static void open_fixture(fixture *f, int64_t capacity)
{
    memset(f, 0, sizeof *f);
    assert_int_equal(config_load(&f->settings, NULL), RUEDA_OK);
    f->settings.cache_capacity = capacity;
    assert_int_equal(segment_create(&f->segment, &f->settings, 1, 1), RUEDA_OK);
    assert_int_equal(segment_commit_set(&f->segment, 0, 0), RUEDA_OK);
    f->job = (control){.segment = &f->segment};
    f->members = (control_members){&f->job, 0, 1, 0, f->ranks, 0};
    assert_int_equal(queue_init(&f->queue), RUEDA_OK);
    assert_int_equal(negotiation_init(&f->negotiation, &f->members, &f->queue, (uint32_t)capacity),
                     RUEDA_OK);
}

static void close_fixture(fixture *f)
{
    negotiation_fini(&f->negotiation);
    queue_fini(&f->queue);
    segment_close(&f->segment);
}

static void submit(fixture *f, const char *name, int32_t priority, uint32_t group_size)
{
    entry *e = zero_alloc(sizeof *e);
    assert_non_null(e);
    e->signature = (signature){.kind = SIGNATURE_ALLREDUCE,
                               .dtype = RUEDA_F32,
                               .op = RUEDA_SUM,
                               .ndim = 1,
                               .priority = priority,
                               .group = group_size > 0 ? 7 : 0,
                               .group_size = group_size,
                               .prescale = 1,
                               .postscale = 1,
                               .shape = {4}};
    assert_int_equal(queue_submit(&f->queue, &e, &name, 1), RUEDA_OK);
}

/* Runs one round with the mail taken so far; gives what it decided, and ends it as an operation
 * would. */
static uint32_t decide_taken(fixture *f, char names[][16])
{
    negotiation_result result = {0};
    bool moved = false, complete = false;
    assert_int_equal(negotiation_progress(&f->negotiation, false, &moved, &complete, &result),
                     RUEDA_OK);
    assert_true(complete || f->negotiation.waiting == 0);
    for (uint32_t i = 0; i < result.count; i++) {
        record *r = result.decided[i];
        snprintf(names[i], 16, "%s", r->name);
        entry *e = r->launching;
        queue_finish(&f->queue, e);
        entry_free(e);
        if (r->cache.bit < 0)
            negotiation_settle(&f->negotiation, r);
    }
    return result.count;
}

static uint32_t run_round(fixture *f, char names[][16])
{
    negotiation_take_mail(&f->negotiation);
    return decide_taken(f, names);
}

static void larger_priority_goes_first(void **state)
{
    (void)state;
    fixture f;
    char names[8][16];
    open_fixture(&f, 64);
    for (int again = 0; again < 2; again++) { /* described in full, then by a bit */
        submit(&f, "last layer", 1, 0);
        submit(&f, "first layer", 9, 0);
        submit(&f, "middle", 5, 0);
        submit(&f, "other middle", 5, 0);
        assert_int_equal(run_round(&f, names), 4);
        assert_string_equal(names[0], "first layer");
        assert_string_equal(names[1], "middle");
        assert_string_equal(names[2], "other middle");
        assert_string_equal(names[3], "last layer");
    }
    assert_int_equal(f.negotiation.announcements, 4);
    close_fixture(&f);
}

static void a_group_waits_for_its_last_tensor(void **state)
{
    (void)state;
    fixture f;
    char names[8][16];
    open_fixture(&f, 64);
    for (int again = 0; again < 2; again++) {
        submit(&f, "a", 0, 3);
        submit(&f, "alone", 0, 0);
        submit(&f, "b", 0, 3);
        assert_int_equal(run_round(&f, names), 1);
        assert_string_equal(names[0], "alone");
        submit(&f, "c", 0, 3);
        assert_int_equal(run_round(&f, names), 3);
    }
    close_fixture(&f);
}

/* A tensor that comes every round keeps its bit while others pass through. */
static void the_cache_keeps_what_comes_again(void **state)
{
    (void)state;
    enum { ROUNDS = 200, CAPACITY = 8 };
    fixture f;
    char names[8][16];
    open_fixture(&f, CAPACITY);
    for (int i = 0; i < ROUNDS; i++) {
        char passing[16];
        snprintf(passing, sizeof passing, "new.%d", i);
        submit(&f, "steady", 0, 0);
        submit(&f, passing, 0, 0);
        assert_int_equal(run_round(&f, names), 2);
        assert_true(f.negotiation.used <= CAPACITY);
    }
    assert_int_equal(f.negotiation.announcements, ROUNDS + 1);
    assert_true(f.queue.record_count <= CAPACITY);
    close_fixture(&f);
}

/* "x" loses its bit and comes again: `early` before this rank has seen that, so that its record
 * lives on, or after. Ranks differ in this, and must still keep the same cache. */
static uint64_t digest_when_submitted(bool early)
{
    fixture f;
    char names[8][16];
    open_fixture(&f, 2);
    submit(&f, "x", 0, 0);
    run_round(&f, names);
    submit(&f, "y", 0, 0);
    run_round(&f, names);
    submit(&f, "z", 0, 0);
    negotiation_take_mail(&f.negotiation);
    if (early)
        submit(&f, "x", 0, 0);
    assert_int_equal(decide_taken(&f, names), 1);
    if (!early)
        submit(&f, "x", 0, 0);
    assert_int_equal(run_round(&f, names), 1);
    for (const char *const *next = (const char *const[]){"v", "w", NULL}; *next != NULL; next++) {
        submit(&f, *next, 0, 0);
        assert_int_equal(run_round(&f, names), 1);
    }
    const uint64_t digest = f.negotiation.digest;
    close_fixture(&f);
    return digest;
}

static void the_cache_does_not_depend_on_local_timing(void **state)
{
    (void)state;
    assert_true(digest_when_submitted(true) == digest_when_submitted(false));
}

static void without_a_cache_everything_is_described(void **state)
{
    (void)state;
    fixture f;
    char names[8][16];
    open_fixture(&f, 0);
    for (int i = 0; i < 10; i++) {
        submit(&f, "same", 0, 0);
        assert_int_equal(run_round(&f, names), 1);
    }
    assert_int_equal(f.negotiation.announcements, 10);
    assert_int_equal(f.queue.record_count, 0);
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(larger_priority_goes_first),
        cmocka_unit_test(a_group_waits_for_its_last_tensor),
        cmocka_unit_test(the_cache_keeps_what_comes_again),
        cmocka_unit_test(the_cache_does_not_depend_on_local_timing),
        cmocka_unit_test(without_a_cache_everything_is_described),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
