/* timeline_test.c: start and stop around a driver that never waits.
 * ctest: threads timeout=120 */
#include "observe/timeline.h"

#include "observe/timeline_check.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define PLENTY (UINT64_C(1) << 40)

static const logger quiet = {LOG_ERROR, 0};
static const int64_t shape[] = {8};

static timeline_options options_for(const char *path)
{
    return (timeline_options){.path = path, .fresh = true, .max_bytes = PLENTY, .writers = 1};
}

static void tell(timeline *t, const char *name)
{
    const uint64_t now = world_now_ns(), ready[] = {now, 0, now};
    const uint16_t ranks[] = {0, 4, 9};
    const timeline_subject s = {name, (uint32_t)strlen(name), 0, "ALLREDUCE"};
    const timeline_work w = {.decided_ns = now,
                             .began_ns = now,
                             .ended_ns = world_now_ns(),
                             .dtype = RUEDA_F32,
                             .ndim = 1,
                             .shape = shape,
                             .engine = "shm",
                             .algorithm = "direct",
                             .tensors = 1};
    timeline_negotiated(t, &s, now, now, RUEDA_OK, ready, ranks, 3);
    timeline_done(t, &s, &w);
}

typedef struct place {
    char folder[64], path[80];
} place;

static place new_place(void)
{
    place p = {.folder = "/tmp/rueda-timeline-XXXXXX"};
    assert_non_null(mkdtemp(p.folder));
    snprintf(p.path, sizeof p.path, "%s/t.json", p.folder);
    return p;
}

/* Nothing but the timeline may be there. */
static void leave_place(const place *p)
{
    unlink(p->path);
    assert_int_equal(rmdir(p->folder), 0);
}

static check_timeline read_timeline(const place *p)
{
    check_timeline parsed;
    assert_true(check_parse(&parsed, check_read(p->path)));
    assert_null(check_nesting(&parsed, false));
    return parsed;
}

static void all_that_was_told_is_in_the_file(void **state)
{
    (void)state;
    const place p = new_place();
    timeline t;
    timeline_init(&t, 2, &quiet);
    assert_false(timeline_is_on(&t));
    assert_false(timeline_is_on(NULL));
    for (int turn = 0; turn < 3; turn++) {
        timeline_options options = options_for(p.path);
        options.mark_rounds = turn == 1;
        assert_int_equal(timeline_start(&t, &options), RUEDA_OK);
        assert_true(timeline_is_on(&t));
        assert_int_equal(timeline_start(&t, &options), RUEDA_ERR_STATE);
        for (int i = 0; i < 1000; i++) {
            timeline_round(&t, 0, (uint64_t)i);
            tell(&t, "tensor");
        }
        assert_int_equal(timeline_stop(&t), RUEDA_OK);
        assert_int_equal(timeline_stop(&t), RUEDA_OK);
        assert_false(timeline_is_on(&t));
        check_timeline parsed = read_timeline(&p);
        assert_int_equal(check_count(&parsed, 'B', "NEGOTIATE_ALLREDUCE"), 1000);
        assert_int_equal(check_count(&parsed, 'B', "SHM_ALLREDUCE"), 1000);
        assert_int_equal(check_count(&parsed, 'X', "0"), 1000);
        assert_int_equal(check_count(&parsed, 'X', "4"), 0); /* not known when */
        assert_int_equal(check_count(&parsed, 'X', "9"), 1000);
        assert_int_equal(check_count(&parsed, 'i', "CYCLE_START"), turn == 1 ? 1000 : 0);
        check_free(&parsed);
    }
    timeline_fini(&t);
    leave_place(&p);
}

static void the_driver_never_waits_and_drops_are_counted(void **state)
{
    (void)state;
    const place p = new_place();
    timeline t;
    timeline_init(&t, 0, &quiet);
    const timeline_options options = options_for(p.path);
    assert_int_equal(timeline_start(&t, &options), RUEDA_OK);
    const uint64_t notes = 400000; /* more than any writer formats in the time */
    for (uint64_t i = 0; i < notes / 2; i++)
        tell(&t, "a tensor with a long name, as the layers of networks have them");
    assert_int_equal(timeline_stop(&t), RUEDA_OK);
    const uint64_t dropped = atomic_load(&t.dropped);
    check_timeline parsed = read_timeline(&p);
    assert_int_equal(check_count(&parsed, 'B', "NEGOTIATE_ALLREDUCE") +
                         check_count(&parsed, 'B', "ALLREDUCE") + dropped,
                     notes);
    assert_true((dropped > 0) == (check_count(&parsed, 'i', "DROPPED") > 0));
    check_free(&parsed);
    timeline_fini(&t);
    leave_place(&p);
}

static void a_full_file_ends_the_timeline_in_good_order(void **state)
{
    (void)state;
    const place p = new_place();
    timeline t;
    timeline_init(&t, 0, &quiet);
    timeline_options options = options_for(p.path);
    options.max_bytes = 2000;
    assert_int_equal(timeline_start(&t, &options), RUEDA_OK);
    for (int i = 0; i < 100; i++)
        tell(&t, "tensor");
    assert_int_equal(timeline_stop(&t), RUEDA_ERR_SYSTEM);
    assert_non_null(strstr(status_text(), p.path));
    assert_int_equal(atomic_load(&t.dropped), 200);
    check_timeline parsed = read_timeline(&p);
    assert_int_equal(parsed.count, 1);
    check_free(&parsed);
    timeline_fini(&t);
    leave_place(&p);
}

static void a_timeline_that_cannot_be_written_does_not_start(void **state)
{
    (void)state;
    timeline t;
    timeline_init(&t, 0, &quiet);
    const timeline_options options = options_for("/nonexistent/t.json");
    assert_int_equal(timeline_start(&t, &options), RUEDA_ERR_SYSTEM);
    assert_false(timeline_is_on(&t));
    timeline_fini(&t);
}

/* The writer's first flush brings the name of the rank: it has had its turn, and could have written more. */
static void await_first_flush(const place *p)
{
    for (bool flushed = false; !flushed; world_yield()) {
        char *text = check_read(p->path);
        flushed = strstr(text, "thread_name") != NULL;
        free(text);
    }
}

static void notes_wait_for_the_time_of_rank_0(void **state)
{
    (void)state;
    const int64_t far_us = INT64_C(5000000000);
    const place p = new_place();
    timeline t;
    timeline_init(&t, 1, &quiet);
    timeline_options options = options_for(p.path);
    options.await_offset = true;
    const double began_us = (double)world_now_ns() / 1e3;
    assert_int_equal(timeline_start(&t, &options), RUEDA_OK);
    tell(&t, "early");
    await_first_flush(&p);
    timeline_set_offset(&t, far_us * 1000);
    assert_int_equal(timeline_stop(&t), RUEDA_OK);
    check_timeline parsed = read_timeline(&p);
    int timed = 0;
    for (size_t i = 0; i < parsed.count; i++) {
        if (parsed.events[i].ph == 'M')
            continue;
        assert_true(parsed.events[i].ts >= began_us + (double)far_us);
        timed++;
    }
    assert_true(timed > 0);
    check_free(&parsed);
    timeline_fini(&t);
    leave_place(&p);
}

/* ---- Other threads start and stop it --------------------------------------------------------- */

typedef struct show {
    timeline t;
    place p;
    _Atomic bool over;
} show;

static void *start_and_stop(void *argument)
{
    show *s = argument;
    const timeline_options options = options_for(s->p.path);
    for (int i = 0; i < 30; i++) {
        timeline_start(&s->t, &options); /* the other thread may have been first */
        timeline_set_offset(&s->t, i);
        timeline_stop(&s->t);
    }
    return NULL;
}

static void *drive(void *argument)
{
    show *s = argument;
    while (!atomic_load(&s->over)) {
        if (timeline_is_on(&s->t))
            tell(&s->t, "driven");
        else
            world_yield();
    }
    return NULL;
}

static void threads_start_and_stop_while_one_drives(void **state)
{
    (void)state;
    static show s;
    s.p = new_place();
    timeline_init(&s.t, 0, &quiet);
    pthread_t driver, others[2];
    assert_int_equal(pthread_create(&driver, NULL, drive, &s), 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&others[i], NULL, start_and_stop, &s), 0);
    for (int i = 0; i < 2; i++)
        pthread_join(others[i], NULL);
    atomic_store(&s.over, true);
    pthread_join(driver, NULL);
    timeline_stop(&s.t);
    check_timeline parsed = read_timeline(&s.p);
    check_free(&parsed);
    timeline_fini(&s.t);
    leave_place(&s.p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_that_was_told_is_in_the_file),
        cmocka_unit_test(the_driver_never_waits_and_drops_are_counted),
        cmocka_unit_test(a_full_file_ends_the_timeline_in_good_order),
        cmocka_unit_test(a_timeline_that_cannot_be_written_does_not_start),
        cmocka_unit_test(notes_wait_for_the_time_of_rank_0),
        cmocka_unit_test(threads_start_and_stop_while_one_drives),
    };
    return cmocka_run_group_tests_name("timeline", tests, NULL, NULL);
}
