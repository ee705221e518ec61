/* observe_test.c: the timeline of whole jobs, and the trace when one breaks.
 * ctest: threads timeout=480 */
#include "tensors.h"

#include "observe/timeline_check.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define LARGE 4000000 /* floats: takes long enough to be interrupted */
#define ROOM 160

/* ---- A folder of its own for each test ------------------------------------------------------- */

static char folder[] = "/tmp/rueda-observe-XXXXXX";
static char file[ROOM], timeline_is_file[ROOM + 32];

static int make_folder(void **state)
{
    (void)state;
    strcpy(folder + strlen(folder) - 6, "XXXXXX");
    if (mkdtemp(folder) == NULL)
        return -1;
    snprintf(file, sizeof file, "%s/t.json", folder);
    snprintf(timeline_is_file, sizeof timeline_is_file, "RUEDA_TIMELINE=%s", file);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    char command[ROOM];
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}

static const char *beside(const char *suffix)
{
    static char path[ROOM + 16];
    snprintf(path, sizeof path, "%s%s", file, suffix);
    return path;
}

static bool is_there(const char *path)
{
    return access(path, F_OK) == 0;
}

/* What a job has left must be whole, paired, and nothing else. */
static check_timeline read_timeline(void)
{
    check_timeline t;
    assert_true(check_parse(&t, check_read(file)));
    const char *wrong = check_nesting(&t, false);
    if (wrong != NULL)
        fail_msg("%s", wrong);
    assert_false(is_there(beside(".part")));
    return t;
}

static size_t count_on(const check_timeline *t, unsigned pid, int tid, char ph, const char *name)
{
    size_t count = 0;
    for (size_t i = 0; i < t->count; i++) {
        const check_event *e = &t->events[i];
        count += e->pid == pid && (tid < 0 || e->tid == tid) && e->ph == ph &&
                 strcmp(e->name, name) == 0;
    }
    return count;
}

/* ---- Operations ------------------------------------------------------------------------------ */

static rueda_status reduce(const char *name, rueda_op op)
{
    float values[6] = {1, 2, 3, 4, 5, 6};
    const int64_t shape[] = {2, 3};
    const rueda_tensor t = RUEDA_TENSOR(name, values, RUEDA_F32, 2, shape);
    return rueda_allreduce(&t, &RUEDA_OPTIONS(op), NULL);
}

static rueda_request *submit(const char *name, float *data, int64_t count)
{
    const rueda_tensor t = RUEDA_TENSOR(name, data, RUEDA_F32, 1, &count);
    rueda_request *request;
    CHECK_OK(rueda_allreduce(&t, &RUEDA_OPTIONS(RUEDA_SUM), &request));
    return request;
}

static void run_task(task_kind kind, const char *name)
{
    task t = {.kind = kind, .recipe = RECIPE(RUEDA_F32, RUEDA_SUM, 5), .count = 4, .width = 3};
    if (kind == TASK_ALLGATHER || kind == TASK_ALLTOALL)
        t.count = ROWS_UNEVEN;
    snprintf(t.name, sizeof t.name, "%s", name);
    task_run(&t);
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
        CHECK_OK(rueda_barrier(RUEDA_GLOBAL_SET, NULL));
    }
    const int32_t all_but_last[] = {0, 1, 2};
    int32_t set;
    CHECK_OK(rueda_add_process_set(all_but_last, size - 1, &set));
    if (rueda_rank() < size - 1) {
        rueda_options options = RUEDA_OPTIONS(RUEDA_SUM);
        options.process_set = set;
        float value = 1;
        const int64_t shape[] = {1};
        const rueda_tensor t = RUEDA_TENSOR("sum", &value, RUEDA_F32, 1, shape);
        CHECK_OK(rueda_allreduce(&t, &options, NULL));
    }
    CHECK_OK(rueda_remove_process_set(set));
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
    const size_t times = count_on(t, pid, 0, 'B', op);
    assert_in_range(times, 1, 3);
    assert_int_equal(count_on(t, pid, 0, 'B', negotiate), times);
    assert_int_equal(count_on(t, pid, 0, 'B', "QUEUE"), times);
    assert_int_equal(count_on(t, pid, 0, 'B', engine), times);
    for (int r = 0; r < ranks; r++) {
        snprintf(rank_name, sizeof rank_name, "%d", r);
        assert_int_equal(count_on(t, pid, 0, 'X', rank_name), times);
    }
}

static void every_operation_has_horovods_name(void **state)
{
    (void)state;
    const char *environment[] = {timeline_is_file, "RUEDA_TIMELINE_MARK_CYCLES=1", NULL};
    run_job(&(job){.ranks = 3, .body = run_every_operation, .environment = environment});
    check_timeline t = read_timeline();
    assert_operation(&t, "sum", "ALLREDUCE", 3);
    assert_operation(&t, "adasum", "ADASUM", 3);
    assert_operation(&t, "allgather", "ALLGATHER", 3);
    assert_operation(&t, "broadcast", "BROADCAST", 3);
    assert_operation(&t, "alltoall", "ALLTOALL", 3);
    assert_operation(&t, "reducescatter", "REDUCESCATTER", 3);
    assert_operation(&t, "BARRIER.noname.0", "BARRIER", 3);
    assert_operation(&t, "ADD_PROCESS_SET.noname.0", "ADD_PROCESS_SET", 3);
    assert_operation(&t, "REMOVE_PROCESS_SET.noname.0", "REMOVE_PROCESS_SET", 3);
    assert_operation(&t, "sum (set 1)", "ALLREDUCE", 2);
    assert_int_equal(check_count(&t, 'B', "NEGOTIATE_JOIN"), 1);
    assert_true(check_count(&t, 'i', "CYCLE_START") > 5);
    assert_non_null(strstr(t.text, "\"args\": {\"dtype\": \"float32\", \"shape\": \"[2, 3]\"}"));
    check_free(&t);
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
    const char *environment[] = {timeline_is_file, NULL};
    run_job(&(job){.ranks = 2, .body = run_a_group, .environment = environment});
    check_timeline t = read_timeline();
    for (int i = 0; i < GROUP; i++) {
        char name[32];
        snprintf(name, sizeof name, "layer.%d", i);
        const unsigned pid = check_pid(&t, name);
        assert_int_not_equal(pid, 0);
        assert_int_equal(count_on(&t, pid, 0, 'B', "ALLREDUCE"), 5);
        assert_int_equal(count_on(&t, pid, 0, 'B', "SHM_ALLREDUCE"), 5);
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
    const char *environment[] = {timeline_is_file, NULL};
    run_job(&(job){.ranks = 2, .body = disagree, .environment = environment});
    check_timeline t = read_timeline();
    const unsigned pid = check_pid(&t, "disputed");
    assert_int_equal(count_on(&t, pid, 0, 'B', "NEGOTIATE_ALLREDUCE"), 1);
    assert_int_equal(count_on(&t, pid, 0, 'B', "ALLREDUCE"), 0);
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
            if (e->ph == 'E' && memmem(e->line, e->length, "dtype", 5) != NULL && seen++ == nth &&
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
    const char *environment[] = {timeline_is_file, "RUEDA_TIMELINE_ALL_RANKS=1", NULL};
    run_job(
        &(job){.ranks = 4, .body = run_some, .argument = &(int){50}, .environment = environment});
    check_timeline t = read_timeline();
    const unsigned pid = check_pid(&t, "shared");
    for (int r = 0; r < 4; r++) {
        assert_int_equal(count_on(&t, pid, r, 'B', "NEGOTIATE_ALLREDUCE"), 50);
        assert_int_equal(count_on(&t, pid, r, 'B', "SHM_ALLREDUCE"), 50);
    }
    for (size_t nth = 0; nth < 50; nth++)
        assert_one_clock(&t, pid, 4, nth);
    check_free(&t);
}

/* ---- Start and stop -------------------------------------------------------------------------- */

static void call_in_every_state(int rank, int size, const void *argument)
{
    (void)size;
    char own[ROOM + 16];
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
    run_job(&(job){
        .ranks = 2, .body = call_in_every_state, .argument = file, .environment = environment});
    assert_false(is_there("DYNAMIC"));
    assert_int_equal(rename(beside(".0"), file), 0);
    check_timeline t = read_timeline();
    assert_int_equal(check_pid(&t, "before"), 0);
    assert_int_equal(count_on(&t, check_pid(&t, "during"), 0, 'B', "ALLREDUCE"), 1);
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
    const char *environment[] = {timeline_is_file, NULL};
    run_job(
        &(job){.ranks = 2, .body = start_twice, .argument = &(int){3}, .environment = environment});
    for (int i = 0; i < 2; i++) {
        check_timeline t = read_timeline();
        assert_int_equal(check_count(&t, 'B', "ALLREDUCE"), 3);
        check_free(&t);
        assert_true(i == 1 || rename(beside(".2"), file) == 0);
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

static _Atomic bool over;

static void nap_ms(unsigned ms)
{
    nanosleep(&(struct timespec){ms / 1000, (long)(ms % 1000) * 1000000L}, NULL);
}

/* Operations until rank 0 says that it is over; not so many that the file takes long to read. */
static void reduce_until_over(void)
{
    for (uint8_t more = 1; more != 0;) {
        for (int i = 0; i < 10; i++)
            CHECK_OK(reduce("busy", RUEDA_SUM));
        nap_ms(5);
        more = !atomic_load(&over);
        const int64_t shape[] = {1};
        const rueda_tensor t = RUEDA_TENSOR("more", &more, RUEDA_U8, 1, shape);
        CHECK_OK(rueda_broadcast(&t, NULL, NULL));
    }
}

static void *start_and_stop(void *argument)
{
    for (int i = 0; i < 10; i++) {
        rueda_timeline_start(argument, i % 2); /* another thread may have been first */
        rueda_timeline_stop();
    }
    atomic_store(&over, true);
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
    run_job(&(job){.ranks = 2, .body = start_and_stop_meanwhile, .argument = file});
    check_timeline t = read_timeline();
    check_free(&t);
    run_job(
        &(job){.ranks = 2, .body = start_and_stop_meanwhile, .argument = file, .environment = all});
    t = read_timeline();
    check_free(&t);
}

/* ---- At every moment ------------------------------------------------------------------------- */

static void *look_at_random_moments(void *argument)
{
    dice d = {7};
    for (int looks = 0; looks < 60; looks++) {
        char *text = check_read(argument);
        doing("look %d at the file", looks);
        CHECK(text != NULL && check_is_array(text));
        free(text);
        nap_ms((unsigned)roll_below(&d, 40));
    }
    atomic_store(&over, true);
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
    const char *one[] = {timeline_is_file, NULL},
               *all[] = {timeline_is_file, "RUEDA_TIMELINE_ALL_RANKS=1", NULL};
    run_job(&(job){.ranks = 2, .body = be_looked_at, .argument = file, .environment = one});
    check_timeline t = read_timeline();
    check_free(&t);
    run_job(&(job){.ranks = 3, .body = be_looked_at, .argument = file, .environment = all});
    t = read_timeline();
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
    for (;;)
        reduce("until the end", RUEDA_SUM); /* fails if the other one was killed first */
}

static void a_killed_job_leaves_json(void **state)
{
    (void)state;
    const char *environment[] = {timeline_is_file, "RUEDA_TIMELINE_ALL_RANKS=1", NULL};
    dice d = {1};
    for (int i = 0; i < 12; i++) {
        const unsigned ms = 90 + (unsigned)roll_below(&d, 200);
        run_job(&(job){.ranks = 2,
                       .body = work_until_killed,
                       .argument = &ms,
                       .environment = environment,
                       .killed = 3});
        check_timeline t;
        assert_true(check_parse(&t, check_read(file)));
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
    const char *environment[] = {timeline_is_file, NULL};
    run_job(&(job){.ranks = 2, .body = come_late, .argument = file, .environment = environment});
    check_timeline t = read_timeline();
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
    char trace_is_file[ROOM + 32];
    snprintf(trace_is_file, sizeof trace_is_file, "RUEDA_TRACE_FILE=%s/trace", folder);
    const char *environment[] = {timeline_is_file, "RUEDA_TRACE=512", trace_is_file, NULL};
    run_job(&(job){.ranks = 2, .body = lose_a_rank, .environment = environment, .killed = 1u << 1});
    check_timeline t = read_timeline();
    assert_non_null(strstr(t.text, "\"status\": \"RUEDA_ERR_PEER\""));
    check_free(&t);
    char path[ROOM];
    snprintf(path, sizeof path, "%s/trace.0", folder);
    char *trace = check_read(path);
    assert_non_null(trace);
    assert_non_null(strstr(trace, "generation 1 set 0 operation 0, allreduce by direct: phase 0"));
    assert_non_null(strstr(trace, "the operation ends"));
    assert_non_null(strstr(trace, "operation 1, allreduce by direct: phase 0 tick 0 steps 0 to 7 "
                                  "done, PUBLISH"));
    assert_non_null(strstr(trace, "AWAIT, for rank 1 of the set"));
    free(trace);
    /* without a file, in the log */
    const char *log_only[] = {"RUEDA_TRACE=512", NULL};
    run_job(&(job){.ranks = 2, .body = lose_a_rank, .environment = log_only, .killed = 1u << 1});
}

static void end_well(int rank, int size, const void *argument)
{
    capture_stderr();
    run_some(rank, size, argument);
    CHECK(strcmp(captured_stderr(), "") == 0);
}

static void a_job_that_ends_well_tells_no_trace(void **state)
{
    (void)state;
    const char *environment[] = {"RUEDA_TRACE=100", timeline_is_file, NULL};
    run_job(
        &(job){.ranks = 2, .body = end_well, .argument = &(int){500}, .environment = environment});
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(every_operation_has_horovods_name),
        IN_FOLDER(fused_tensors_have_events_of_their_own),
        IN_FOLDER(a_refused_tensor_ends_with_its_status),
        IN_FOLDER(all_ranks_write_one_file_on_one_clock),
        IN_FOLDER(a_timeline_starts_and_stops_at_any_time),
        IN_FOLDER(a_new_generation_has_a_file_of_its_own),
        IN_FOLDER(a_bad_path_is_refused_at_init),
        IN_FOLDER(threads_start_and_stop_while_operations_run),
        IN_FOLDER(the_file_is_json_at_every_moment),
        IN_FOLDER(a_killed_job_leaves_json),
        IN_FOLDER(a_tensor_that_waits_long_is_shown_meanwhile),
        IN_FOLDER(a_lost_rank_is_seen_in_trace_and_timeline),
        IN_FOLDER(a_job_that_ends_well_tells_no_trace),
    };
    return cmocka_run_group_tests_name("observe", tests, NULL, NULL);
}
