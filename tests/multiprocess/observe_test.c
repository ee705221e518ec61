/* observe_test.c: the timelines of whole jobs: every operation, all ranks, start and stop.
 * ctest: threads timeout=240 */
#include "tensors.h"
#include "timelines.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- Operations ------------------------------------------------------------------------------ */

static void run_task(task_kind kind, const char *name)
{
    task t = {.kind = kind, .recipe = RECIPE(RUEDA_F32, RUEDA_SUM, 5), .count = 4, .width = 3};
    if (task_counts_rows(kind))
        t.count = ROWS_UNEVEN;
    snprintf(t.name, sizeof t.name, "%s", name);
    task_run(&t);
}

/* From rank 0 to rank 1 and back. */
static void pass_on(const char *name)
{
    float value = 1;
    const int64_t shape[] = {1};
    const rueda_tensor t = RUEDA_TENSOR(name, &value, RUEDA_F32, 1, shape);
    const int32_t rank = rueda_rank();
    if (rank == 0)
        CHECK_OK(rueda_send(&t, 1, NULL, NULL));
    if (rank < 2)
        CHECK_OK(rueda_recv(&t, 1 - rank, NULL, NULL));
    if (rank == 1)
        CHECK_OK(rueda_send(&t, 0, NULL, NULL));
}

static void run_every_operation(int rank, int size, const void *argument)
{
    (void)rank, (void)argument;
    CHECK_OK(rueda_init(NULL));
    for (int i = 0; i < 3; i++) {
        CHECK_OK(reduce("sum", RUEDA_SUM));
        CHECK_OK(reduce("adasum", RUEDA_ADASUM));
        run_task(TASK_ALLGATHER, "allgather");
        run_task(TASK_BROADCAST, "broadcast");
        run_task(TASK_ALLTOALL, "alltoall");
        run_task(TASK_REDUCESCATTER, "reducescatter");
        run_task(TASK_REDUCE, "reduce");
        run_task(TASK_GATHER, "gather");
        run_task(TASK_SCATTER, "scatter");
        CHECK_OK(rueda_barrier(RUEDA_GLOBAL_SET, NULL));
    }
    const int32_t all_but_last[] = {0, 1, 2};
    int32_t set;
    CHECK_OK(rueda_process_set_add(all_but_last, size - 1, &set));
    if (rueda_rank() < size - 1) {
        rueda_options options = RUEDA_OPTIONS(RUEDA_SUM);
        options.process_set = set;
        float value = 1;
        const int64_t shape[] = {1};
        const rueda_tensor t = RUEDA_TENSOR("sum", &value, RUEDA_F32, 1, shape);
        CHECK_OK(rueda_allreduce(&t, &options, NULL));
    }
    pass_on("passed on");
    CHECK_OK(rueda_process_set_remove(set));
    CHECK_OK(rueda_join(NULL));
    CHECK_OK(rueda_shutdown());
}

static void assert_operation(const check_timeline *t, const char *tensor, const char *op, int ranks)
{
    char negotiate[64], engine[64], rank_name[16];
    const unsigned pid = check_pid(t, tensor);
    if (pid == 0)
        fail_msg("no process for %s", tensor);
    snprintf(negotiate, sizeof negotiate, "NEGOTIATE_%s", op);
    snprintf(engine, sizeof engine, "SHM_%s", op);
    const size_t times = timelines_count(t, pid, 0, 'B', op);
    assert_in_range(times, 1, 3);
    assert_int_equal(timelines_count(t, pid, 0, 'B', negotiate), times);
    assert_int_equal(timelines_count(t, pid, 0, 'B', "QUEUE"), times);
    assert_int_equal(timelines_count(t, pid, 0, 'B', engine), times);
    for (int r = 0; r < ranks; r++) {
        snprintf(rank_name, sizeof rank_name, "%d", r);
        assert_int_equal(timelines_count(t, pid, 0, 'X', rank_name), times);
    }
}

static void every_operation_has_horovods_name(void **state)
{
    (void)state;
    const char *environment[] = {timelines_setting, "RUEDA_TIMELINE_MARK_CYCLES=1", NULL};
    run_job(&(job){.ranks = 3, .body = run_every_operation, .environment = environment});
    check_timeline t = timelines_read();
    assert_operation(&t, "sum", "ALLREDUCE", 3);
    assert_operation(&t, "adasum", "ADASUM", 3);
    assert_operation(&t, "allgather", "ALLGATHER", 3);
    assert_operation(&t, "broadcast", "BROADCAST", 3);
    assert_operation(&t, "alltoall", "ALLTOALL", 3);
    assert_operation(&t, "reducescatter", "REDUCESCATTER", 3);
    assert_operation(&t, "reduce", "REDUCE", 3);
    assert_operation(&t, "gather", "GATHER", 3);
    assert_operation(&t, "scatter", "SCATTER", 3);
    assert_operation(&t, "BARRIER.noname.0", "BARRIER", 3);
    assert_operation(&t, "ADD_PROCESS_SET.noname.0", "ADD_PROCESS_SET", 3);
    assert_operation(&t, "REMOVE_PROCESS_SET.noname.0", "REMOVE_PROCESS_SET", 3);
    assert_operation(&t, "sum (set 1)", "ALLREDUCE", 2);
    assert_int_equal(check_count(&t, 'B', "NEGOTIATE_JOIN"), 1);
    const unsigned pid = check_pid(&t, "passed on"); /* no rank but these two takes part in it */
    assert_int_equal(timelines_count(&t, pid, 0, 'B', "SEND"), 1);
    assert_int_equal(timelines_count(&t, pid, 0, 'B', "SHM_SEND"), 1);
    assert_int_equal(timelines_count(&t, pid, 0, 'B', "RECV"), 1);
    assert_true(check_count(&t, 'i', "CYCLE_START") > 5);
    assert_non_null(strstr(t.text, "\"args\": {\"dtype\": \"float32\", \"shape\": \"[2, 3]\"}"));
    check_free(&t);
}

/* When a rank had the tensor ready, in microseconds, as rank 0 tells it. */
static double ready_us(const check_timeline *t, const char *tensor, const char *rank)
{
    const unsigned pid = check_pid(t, tensor);
    for (size_t i = 0; i < t->count; i++) {
        const check_event *e = &t->events[i];
        if (e->pid == pid && e->tid == 0 && e->ph == 'X' && strcmp(e->name, rank) == 0)
            return e->ts;
    }
    fail_msg("rank %s was never ready with %s", rank, tensor);
    return 0;
}

#define LATE_MS 300

static void be_late(int rank, int size, const void *argument)
{
    (void)size;
    const int *late = argument;
    CHECK_OK(rueda_init(NULL));
    CHECK_OK(reduce("warm up", RUEDA_SUM));
    meet();
    if (rank == *late)
        nap_ms(LATE_MS);
    CHECK_OK(reduce("waited for", RUEDA_SUM));
    CHECK_OK(rueda_shutdown());
}

/* A rank that computes does not look at the others meanwhile; that they were ready is known anyway. */
static void a_late_rank_is_shown_whichever_it_is(void **state)
{
    (void)state;
    for (int late = 0; late < 2; late++) {
        const char *environment[] = {timelines_setting, NULL};
        char own[16], other[16];
        snprintf(own, sizeof own, "%d", late);
        snprintf(other, sizeof other, "%d", 1 - late);
        run_job(&(job){.ranks = 2, .body = be_late, .argument = &late, .environment = environment});
        check_timeline t = timelines_read();
        assert_true(ready_us(&t, "waited for", own) >=
                    ready_us(&t, "waited for", other) + LATE_MS * 1000 / 2);
        check_free(&t);
        remove(timelines_file);
    }
}

#define GROUP 40

static void run_a_group(int rank, int size, const void *argument)
{
    (void)rank, (void)size, (void)argument;
    static float data[GROUP][10];
    static char names[GROUP][32];
    const int64_t shape[] = {10};
    rueda_tensor tensors[GROUP];
    CHECK_OK(rueda_init(NULL));
    for (int i = 0; i < GROUP; i++) {
        snprintf(names[i], sizeof names[i], "layer.%d", i);
        tensors[i] = RUEDA_TENSOR(names[i], data[i], RUEDA_F32, 1, shape);
    }
    for (int i = 0; i < 5; i++)
        CHECK_OK(rueda_grouped_allreduce(tensors, GROUP, &RUEDA_OPTIONS(RUEDA_SUM), NULL));
    CHECK_OK(rueda_shutdown());
}

static void fused_tensors_have_events_of_their_own(void **state)
{
    (void)state;
    const char *environment[] = {timelines_setting, NULL};
    run_job(&(job){.ranks = 2, .body = run_a_group, .environment = environment});
    check_timeline t = timelines_read();
    for (int i = 0; i < GROUP; i++) {
        char name[32];
        snprintf(name, sizeof name, "layer.%d", i);
        const unsigned pid = check_pid(&t, name);
        assert_int_not_equal(pid, 0);
        assert_int_equal(timelines_count(&t, pid, 0, 'B', "ALLREDUCE"), 5);
        assert_int_equal(timelines_count(&t, pid, 0, 'B', "SHM_ALLREDUCE"), 5);
    }
    assert_non_null(strstr(t.text, "\"operation\": 4, \"tensors\": 40}"));
    check_free(&t);
}

static void disagree(int rank, int size, const void *argument)
{
    (void)size, (void)argument;
    CHECK_OK(rueda_init(NULL));
    CHECK_STATUS(reduce("disputed", rank == 0 ? RUEDA_SUM : RUEDA_MAX), RUEDA_ERR_MISMATCH);
    CHECK_OK(reduce("agreed", RUEDA_SUM));
    CHECK_OK(rueda_shutdown());
}

static void a_refused_tensor_ends_with_its_status(void **state)
{
    (void)state;
    const char *environment[] = {timelines_setting, NULL};
    run_job(&(job){.ranks = 2, .body = disagree, .environment = environment});
    check_timeline t = timelines_read();
    const unsigned pid = check_pid(&t, "disputed");
    assert_int_equal(timelines_count(&t, pid, 0, 'B', "NEGOTIATE_ALLREDUCE"), 1);
    assert_int_equal(timelines_count(&t, pid, 0, 'B', "ALLREDUCE"), 0);
    assert_non_null(strstr(t.text, "{\"status\": \"RUEDA_ERR_MISMATCH\"}"));
    check_free(&t);
}

/* ---- All ranks ------------------------------------------------------------------------------- */

static void run_some(int rank, int size, const void *argument)
{
    (void)rank, (void)size;
    CHECK_OK(rueda_init(NULL));
    for (int i = 0; i < *(const int *)argument; i++)
        CHECK_OK(reduce("shared", RUEDA_SUM));
    CHECK_OK(rueda_shutdown());
}

/* Of the nth operation: when the last rank had it ready, and when the first one was done. */
static void assert_one_clock(const check_timeline *t, unsigned pid, int ranks, size_t nth)
{
    double last_ready = 0, first_end = 1e300;
    for (int r = 0; r < ranks; r++) {
        size_t begun = 0, seen = 0;
        char own[16];
        snprintf(own, sizeof own, "%d", r);
        for (size_t i = 0; i < t->count; i++) {
            const check_event *e = &t->events[i];
            if (e->pid != pid || e->tid != r)
                continue;
            if (e->ph == 'X' && strcmp(e->name, own) == 0 && begun++ == nth && e->ts > last_ready)
                last_ready = e->ts;
            if (e->ph == 'E' && json_object_get(e->args, "dtype") != NULL && seen++ == nth &&
                e->ts < first_end)
                first_end = e->ts;
        }
    }
    assert_true(last_ready > 0);
    assert_true(last_ready <= first_end);
}

static void all_ranks_write_one_file_on_one_clock(void **state)
{
    (void)state;
    const char *environment[] = {timelines_setting, "RUEDA_TIMELINE_ALL_RANKS=1", NULL};
    run_job(
        &(job){.ranks = 4, .body = run_some, .argument = &(int){50}, .environment = environment});
    check_timeline t = timelines_read();
    const unsigned pid = check_pid(&t, "shared");
    for (int r = 0; r < 4; r++) {
        assert_int_equal(timelines_count(&t, pid, r, 'B', "NEGOTIATE_ALLREDUCE"), 50);
        assert_int_equal(timelines_count(&t, pid, r, 'B', "SHM_ALLREDUCE"), 50);
    }
    for (size_t nth = 0; nth < 50; nth++)
        assert_one_clock(&t, pid, 4, nth);
    check_free(&t);
}

/* ---- Start and stop -------------------------------------------------------------------------- */

static void call_in_every_state(int rank, int size, const void *argument)
{
    (void)size;
    char own[TIMELINES_ROOM + 16];
    snprintf(own, sizeof own, "%s.%d", (const char *)argument, rank);
    CHECK_STATUS(rueda_timeline_start(own, 0), RUEDA_ERR_STATE);
    CHECK_STATUS(rueda_timeline_stop(), RUEDA_ERR_STATE);
    CHECK_OK(rueda_init(NULL));
    CHECK_OK(rueda_timeline_stop());
    CHECK_STATUS(rueda_timeline_start(NULL, 0), RUEDA_ERR_ARGUMENT);
    if (rank == 0) {
        CHECK_STATUS(rueda_timeline_start("", 0), RUEDA_ERR_ARGUMENT);
        CHECK_STATUS(rueda_timeline_start("/nonexistent/t.json", 0), RUEDA_ERR_SYSTEM);
        CHECK_SAYS("/nonexistent/t.json");
    }
    CHECK_OK(reduce("before", RUEDA_SUM));
    CHECK_OK(rueda_timeline_start(own, 0));
    CHECK_STATUS(rueda_timeline_start(own, 0), rank == 0 ? RUEDA_ERR_STATE : RUEDA_OK);
    CHECK_OK(reduce("during", RUEDA_SUM));
    CHECK_OK(rueda_timeline_stop());
    CHECK_OK(reduce("after", RUEDA_SUM));
    CHECK_OK(rueda_shutdown());
    CHECK(rank == 0 || !is_there(own));
}

static void a_timeline_starts_and_stops_at_any_time(void **state)
{
    (void)state;
    const char *environment[] = {"HOROVOD_TIMELINE=DYNAMIC", NULL};
    run_job(&(job){.ranks = 2,
                   .body = call_in_every_state,
                   .argument = timelines_file,
                   .environment = environment});
    assert_false(is_there("DYNAMIC"));
    assert_int_equal(rename(timelines_beside(".0"), timelines_file), 0);
    check_timeline t = timelines_read();
    assert_int_equal(check_pid(&t, "before"), 0);
    assert_int_equal(timelines_count(&t, check_pid(&t, "during"), 0, 'B', "ALLREDUCE"), 1);
    assert_int_equal(check_pid(&t, "after"), 0);
    check_free(&t);
}

static void start_twice(int rank, int size, const void *argument)
{
    run_some(rank, size, argument);
    run_some(rank, size, argument);
}

static void a_new_generation_has_a_file_of_its_own(void **state)
{
    (void)state;
    const char *environment[] = {timelines_setting, NULL};
    run_job(
        &(job){.ranks = 2, .body = start_twice, .argument = &(int){3}, .environment = environment});
    for (int i = 0; i < 2; i++) {
        check_timeline t = timelines_read();
        assert_int_equal(check_count(&t, 'B', "ALLREDUCE"), 3);
        check_free(&t);
        assert_true(i == 1 || rename(timelines_beside(".2"), timelines_file) == 0);
    }
}

static void start_where_nothing_can_be_written(int rank, int size, const void *argument)
{
    (void)size, (void)argument;
    if (rank == 0) {
        CHECK_STATUS(rueda_init(NULL), RUEDA_ERR_CONFIG);
        CHECK_SAYS("RUEDA_TIMELINE=/nonexistent/t.json");
        setenv("RUEDA_TIMELINE", "", 1);
    }
    CHECK_OK(rueda_init(NULL));
    CHECK_OK(rueda_shutdown());
}

static void a_bad_path_is_refused_at_init(void **state)
{
    (void)state;
    const char *environment[] = {"RUEDA_TIMELINE=/nonexistent/t.json", NULL};
    run_job(
        &(job){.ranks = 2, .body = start_where_nothing_can_be_written, .environment = environment});
}

static void *start_and_stop(void *argument)
{
    for (int i = 0; i < 10; i++) {
        rueda_timeline_start(argument, i % 2); /* another thread may have been first */
        rueda_timeline_stop();
    }
    say_over();
    return NULL;
}

static void start_and_stop_meanwhile(int rank, int size, const void *argument)
{
    (void)rank, (void)size;
    pthread_t callers[2];
    CHECK_OK(rueda_init(NULL));
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&callers[i], NULL, start_and_stop, (void *)argument) == 0);
    reduce_until_over();
    for (int i = 0; i < 2; i++)
        pthread_join(callers[i], NULL);
    CHECK_OK(rueda_shutdown());
}

static void threads_start_and_stop_while_operations_run(void **state)
{
    (void)state;
    const char *all[] = {"RUEDA_TIMELINE_ALL_RANKS=1", NULL};
    run_job(&(job){.ranks = 2, .body = start_and_stop_meanwhile, .argument = timelines_file});
    check_timeline t = timelines_read();
    check_free(&t);
    run_job(&(job){.ranks = 2,
                   .body = start_and_stop_meanwhile,
                   .argument = timelines_file,
                   .environment = all});
    t = timelines_read();
    check_free(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(every_operation_has_horovods_name),
        IN_FOLDER(a_late_rank_is_shown_whichever_it_is),
        IN_FOLDER(fused_tensors_have_events_of_their_own),
        IN_FOLDER(a_refused_tensor_ends_with_its_status),
        IN_FOLDER(all_ranks_write_one_file_on_one_clock),
        IN_FOLDER(a_timeline_starts_and_stops_at_any_time),
        IN_FOLDER(a_new_generation_has_a_file_of_its_own),
        IN_FOLDER(a_bad_path_is_refused_at_init),
        IN_FOLDER(threads_start_and_stop_while_operations_run),
    };
    return cmocka_run_group_tests_name("observe", tests, NULL, NULL);
}
