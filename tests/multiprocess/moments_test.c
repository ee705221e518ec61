/* moments_test.c: what can be seen of a job in the middle of its work, when it hangs, and after its end: the
 * timeline at every moment, the trace of a job that breaks.
 * ctest: threads timeout=600 */
#include "timelines.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define LARGE 4000000 /* floats: takes long enough to be interrupted */

/* ---- At every moment ------------------------------------------------------------------------- */

static void *look_at_random_moments(void *argument)
{
    dice d = {7};
    for (int looks = 0; looks < 40; looks++) {
        char *text = check_read(argument);
        doing("look %d at the file", looks);
        CHECK(text != NULL && check_is_array(text));
        free(text);
        nap_ms((unsigned)roll_below(&d, 40));
    }
    say_over();
    return NULL;
}

static void be_looked_at(int rank, int size, const void *argument)
{
    (void)size;
    pthread_t reader;
    CHECK_OK(rueda_init(NULL));
    if (rank == 0)
        CHECK(pthread_create(&reader, NULL, look_at_random_moments, (void *)argument) == 0);
    reduce_until_over();
    if (rank == 0)
        pthread_join(reader, NULL);
    CHECK_OK(rueda_shutdown());
}

static void the_file_is_json_at_every_moment(void **state)
{
    (void)state;
    const char *one[] = {timelines_setting, NULL},
               *all[] = {timelines_setting, "RUEDA_TIMELINE_ALL_RANKS=1", NULL};
    run_job(
        &(job){.ranks = 2, .body = be_looked_at, .argument = timelines_file, .environment = one});
    check_timeline t = timelines_read();
    check_free(&t);
    run_job(
        &(job){.ranks = 3, .body = be_looked_at, .argument = timelines_file, .environment = all});
    t = timelines_read();
    check_free(&t);
}

static void *die_at_a_random_moment(void *argument)
{
    nap_ms(*(const unsigned *)argument);
    kill(getpid(), SIGKILL);
    return NULL;
}

static void work_until_killed(int rank, int size, const void *argument)
{
    (void)rank, (void)size;
    pthread_t killer;
    CHECK_OK(rueda_init(NULL));
    CHECK(pthread_create(&killer, NULL, die_at_a_random_moment, (void *)argument) == 0);
    for (int i = 1;; i++) {
        reduce("until the end", RUEDA_SUM); /* fails if the other one was killed first */
        if (i % 50 == 0)
            nap_ms(1);
    }
}

static void a_killed_job_leaves_json(void **state)
{
    (void)state;
    const char *environment[] = {timelines_setting, "RUEDA_TIMELINE_ALL_RANKS=1", NULL};
    dice d = {1};
    for (int i = 0; i < 12; i++) {
        const unsigned ms = 90 + (unsigned)roll_below(&d, 200);
        run_job(&(job){.ranks = 2,
                       .body = work_until_killed,
                       .argument = &ms,
                       .environment = environment,
                       .killed = 3});
        check_timeline t;
        assert_true(check_parse(&t, check_read(timelines_file)));
        assert_null(check_nesting(&t, true));
        check_free(&t);
    }
}

/* ---- Tensors that wait, jobs that break ------------------------------------------------------ */

static void come_late(int rank, int size, const void *argument)
{
    (void)size;
    static float data[10];
    rueda_request *request = NULL;
    CHECK_OK(rueda_init(NULL));
    if (rank == 0) {
        request = submit("late", data, 10);
        for (bool shown = false; !shown;) {
            CHECK_STATUS(rueda_wait(request, 100), RUEDA_PENDING);
            char *text = check_read(argument);
            CHECK(text != NULL && check_is_array(text));
            shown = strstr(text, "\"name\": \"late\"") != NULL;
            free(text);
        }
    }
    meet();
    if (rank != 0)
        request = submit("late", data, 10);
    CHECK_OK(rueda_wait(request, -1));
    rueda_request_free(request);
    CHECK_OK(rueda_shutdown());
}

static void a_tensor_that_waits_long_is_shown_meanwhile(void **state)
{
    (void)state;
    const char *environment[] = {timelines_setting, NULL};
    run_job(&(job){
        .ranks = 2, .body = come_late, .argument = timelines_file, .environment = environment});
    check_timeline t = timelines_read();
    assert_int_equal(check_count(&t, 'B', "NEGOTIATE_ALLREDUCE"), 1);
    assert_int_equal(check_count(&t, 'B', "ALLREDUCE"), 1);
    check_free(&t);
}

static void lose_a_rank(int rank, int size, const void *argument)
{
    (void)size, (void)argument;
    float *data = calloc(LARGE, sizeof *data);
    capture_stderr();
    CHECK_OK(rueda_init(NULL));
    CHECK_OK(reduce("whole", RUEDA_SUM));
    rueda_request *request = submit("cut", data, LARGE);
    if (rank == 1) {
        rueda_wait(request, 1);
        kill(getpid(), SIGKILL);
    }
    CHECK_STATUS(rueda_wait(request, -1), RUEDA_ERR_PEER);
    rueda_request_free(request);
    if (getenv("RUEDA_TRACE_FILE") == NULL)
        CHECK(strstr(captured_stderr(), "allreduce by direct: phase 0 tick") != NULL);
    else
        CHECK(strstr(captured_stderr(), "records of the trace are in") != NULL);
    CHECK_OK(rueda_shutdown());
    free(data);
}

static void a_lost_rank_is_seen_in_trace_and_timeline(void **state)
{
    (void)state;
    char trace_is_file[TIMELINES_ROOM + 32];
    snprintf(trace_is_file, sizeof trace_is_file, "RUEDA_TRACE_FILE=%.100s/trace",
             timelines_folder);
    const char *environment[] = {timelines_setting, "RUEDA_TRACE=512", trace_is_file, NULL};
    run_job(&(job){.ranks = 2, .body = lose_a_rank, .environment = environment, .killed = 1u << 1});
    check_timeline t = timelines_read();
    assert_non_null(strstr(t.text, "\"status\": \"RUEDA_ERR_PEER\""));
    check_free(&t);
    char path[TIMELINES_ROOM];
    snprintf(path, sizeof path, "%.100s/trace.0", timelines_folder);
    char *trace = check_read(path);
    assert_non_null(trace);
    assert_non_null(strstr(trace, "generation 1 set 0 operation 0, allreduce by direct: phase 0"));
    assert_non_null(strstr(trace, "the operation ends"));
    assert_non_null(strstr(trace, "operation 1, allreduce by direct: phase 0 tick 0 steps 1 to 8 "
                                  "done, PUBLISH"));
    assert_non_null(strstr(trace, "AWAIT, for rank 1 of the set"));
    free(trace);
    /* without a timelines_file, in the log */
    const char *log_only[] = {"RUEDA_TRACE=512", NULL};
    run_job(&(job){.ranks = 2, .body = lose_a_rank, .environment = log_only, .killed = 1u << 1});
}

static void end_well(int rank, int size, const void *argument)
{
    (void)rank, (void)size;
    capture_stderr();
    CHECK_OK(rueda_init(NULL));
    for (int i = 0; i < *(const int *)argument; i++)
        CHECK_OK(reduce("good", RUEDA_SUM));
    CHECK_OK(rueda_shutdown());
    CHECK(strcmp(captured_stderr(), "") == 0);
}

static void a_job_that_ends_well_tells_no_trace(void **state)
{
    (void)state;
    const char *environment[] = {"RUEDA_TRACE=100", timelines_setting, NULL};
    run_job(
        &(job){.ranks = 2, .body = end_well, .argument = &(int){500}, .environment = environment});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(the_file_is_json_at_every_moment),
        IN_FOLDER(a_killed_job_leaves_json),
        IN_FOLDER(a_tensor_that_waits_long_is_shown_meanwhile),
        IN_FOLDER(a_lost_rank_is_seen_in_trace_and_timeline),
        IN_FOLDER(a_job_that_ends_well_tells_no_trace),
    };
    return cmocka_run_group_tests_name("moments", tests, NULL, NULL);
}
