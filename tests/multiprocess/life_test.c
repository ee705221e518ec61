/* life_test.c: start, shutdown and start again; calls outside of a job's life; settings that differ.
 * ctest: not_asan timeout=180 */
#include "tensors.h"

#include <dirent.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* Entries of a folder whose name has this part. */
static int count_named(const char *folder, const char *part)
{
    DIR *open = opendir(folder);
    int count = 0;
    for (struct dirent *e; open != NULL && (e = readdir(open)) != NULL;)
        count += strstr(e->d_name, part) != NULL;
    if (open != NULL)
        closedir(open);
    return count;
}

static int count_entries(const char *folder)
{
    return count_named(folder, "");
}

static void run_one_task(const char *name)
{
    task t = {.recipe = RECIPE(RUEDA_F32, RUEDA_SUM, 5), .count = 99};
    snprintf(t.name, sizeof t.name, "%s", name);
    task_run(&t);
}

/* Neither descriptors nor threads nor mappings pile up. */
static void start_again_and_again(int rank, int size, const void *argument)
{
    (void)rank, (void)argument;
    const int threads = count_entries("/proc/self/task");
    int descriptors = 0, mappings = 0;
    for (int i = 0; i < 100; i++) {
        doing("generation %d", i);
        CHECK_OK(rueda_init(NULL));
        CHECK_EQUAL(rueda_size(), size);
        run_one_task("again");
        CHECK_OK(rueda_shutdown());
        if (i == 5) {
            descriptors = count_entries("/proc/self/fd");
            mappings = count_entries("/proc/self/map_files");
        }
    }
    CHECK_EQUAL(count_entries("/proc/self/fd"), descriptors);
    /* a thread that was joined may be listed for another moment */
    doing("waiting for the last thread to be gone");
    while (count_entries("/proc/self/task") != threads)
        sched_yield();
    CHECK(count_entries("/proc/self/map_files") <= mappings + 5);
}

static void a_process_may_start_a_hundred_times(void **state)
{
    (void)state;
    run_ranks(1, start_again_and_again, NULL);
    run_ranks(2, start_again_and_again, NULL);
    run_ranks(4, start_again_and_again, NULL);
}

static void check_refused_outside(void)
{
    float data = 1;
    const int64_t shape[] = {1};
    const rueda_tensor t = RUEDA_TENSOR("t", &data, RUEDA_F32, 1, shape);
    int32_t set = 0;
    double value;
    CHECK_STATUS(rueda_allreduce(&t, NULL, NULL), RUEDA_ERR_STATE);
    CHECK_SAYS("rueda_init");
    CHECK_STATUS(rueda_grouped_allreduce(&t, 1, NULL, NULL), RUEDA_ERR_STATE);
    CHECK_STATUS(rueda_allgather(&t, NULL, NULL), RUEDA_ERR_STATE);
    CHECK_STATUS(rueda_broadcast(&t, NULL, NULL), RUEDA_ERR_STATE);
    CHECK_STATUS(rueda_alltoall(&t, NULL, NULL), RUEDA_ERR_STATE);
    CHECK_STATUS(rueda_reducescatter(&t, NULL, NULL), RUEDA_ERR_STATE);
    CHECK_STATUS(rueda_reduce(&t, NULL, NULL), RUEDA_ERR_STATE);
    CHECK_STATUS(rueda_gather(&t, NULL, NULL), RUEDA_ERR_STATE);
    CHECK_STATUS(rueda_scatter(&t, NULL, NULL), RUEDA_ERR_STATE);
    CHECK_STATUS(rueda_barrier(0, NULL), RUEDA_ERR_STATE);
    CHECK_STATUS(rueda_join(NULL), RUEDA_ERR_STATE);
    CHECK_STATUS(rueda_process_set_add(&set, 1, &set), RUEDA_ERR_STATE);
    CHECK_STATUS(rueda_process_set_remove(1), RUEDA_ERR_STATE);
    CHECK_STATUS(rueda_shutdown(), RUEDA_ERR_STATE);
    CHECK_STATUS(rueda_orthogonality(NULL, &value), RUEDA_ERR_STATE);
    CHECK_STATUS(rueda_get_stats(&(rueda_stats){.struct_size = sizeof(rueda_stats)}),
                 RUEDA_ERR_STATE);
    CHECK(rueda_alloc(8) == NULL);
    rueda_free(&data); /* not ours: ignored */
}

static void check_unknown_outside(void)
{
    CHECK_EQUAL(rueda_is_initialized(), 0);
    CHECK_EQUAL(rueda_rank(), -1);
    CHECK_EQUAL(rueda_size(), -1);
    CHECK_EQUAL(rueda_local_rank(), -1);
    CHECK_EQUAL(rueda_local_size(), -1);
    CHECK_EQUAL(rueda_cross_rank(), -1);
    CHECK_EQUAL(rueda_cross_size(), -1);
    CHECK_EQUAL(rueda_last_joined(), -1);
    CHECK_EQUAL(rueda_process_set_size(0), -1);
    CHECK_EQUAL(rueda_process_set_rank(0), -1);
    CHECK_EQUAL(rueda_process_set_ranks(0, NULL, 0), -1);
    CHECK(strcmp(rueda_version(), "?") != 0 && rueda_error() != NULL);
}

static void call_outside(int rank, int size, const void *argument)
{
    (void)argument;
    CHECK(strcmp(rueda_error(), "") == 0);
    check_refused_outside();
    check_unknown_outside();
    CHECK_OK(rueda_init(NULL));
    CHECK_STATUS(rueda_init(NULL), RUEDA_ERR_STATE);
    CHECK_EQUAL(rueda_is_initialized(), 1);
    CHECK(rueda_rank() == rank && rueda_size() == size);
    CHECK(rueda_local_rank() == rank && rueda_local_size() == size);
    CHECK(rueda_cross_rank() == 0 && rueda_cross_size() == 1 && rueda_is_homogeneous() == 1);
    run_one_task("inside");
    CHECK_OK(rueda_shutdown());
    check_refused_outside();
    check_unknown_outside();
}

static void calls_outside_of_a_job_are_refused(void **state)
{
    (void)state;
    run_ranks(1, call_outside, NULL);
    run_ranks(2, call_outside, NULL);
}

static void start_alone(int rank, int size, const void *argument)
{
    (void)rank, (void)size, (void)argument;
    unsetenv("RUEDA_RANK");
    unsetenv("RUEDA_SIZE");
    unsetenv("RUEDA_LOCAL_RANK");
    unsetenv("RUEDA_LOCAL_SIZE");
    unsetenv("RUEDA_JOB");
    CHECK_OK(rueda_init(NULL));
    CHECK(rueda_rank() == 0 && rueda_size() == 1);
    run_one_task("alone");
    CHECK_OK(rueda_join(NULL));
    CHECK_EQUAL(rueda_last_joined(), 0);
    CHECK_OK(rueda_shutdown());
}

static void a_process_without_a_launcher_is_a_job_of_one(void **state)
{
    (void)state;
    run_ranks(2, start_alone, NULL); /* two of them do not meet */
}

/* ---- Settings -------------------------------------------------------------------------------- */

static void differ_in_a_setting(int rank, int size, const void *argument)
{
    (void)size, (void)argument;
    setenv("RUEDA_SLOT_BYTES", rank == 1 ? "64K" : "128K", 1);
    CHECK_STATUS(rueda_init(NULL), RUEDA_ERR_CONFIG);
    CHECK_SAYS("RUEDA_SLOT_BYTES");
    CHECK_SAYS("rank 1");
    CHECK_SAYS("64K");
    CHECK_SAYS("128K");
    CHECK_EQUAL(rueda_is_initialized(), 0);
    setenv("RUEDA_SLOT_BYTES", "64K", 1);
    CHECK_OK(rueda_init(NULL));
    run_one_task("alike now");
    CHECK_OK(rueda_shutdown());
}

static void settings_that_must_be_equal_are_compared(void **state)
{
    (void)state;
    run_ranks(2, differ_in_a_setting, NULL);
    run_ranks(4, differ_in_a_setting, NULL);
}

static void set_nonsense(int rank, int size, const void *argument)
{
    (void)rank, (void)size, (void)argument;
    static const char *const wrong[][2] = {
        {"RUEDA_ALGORITHM", "magic"}, {"RUEDA_KERNEL", "abacus"}, {"RUEDA_TRANSPORT", "pigeon"},
        {"RUEDA_LOG_LEVEL", "loud"},  {"RUEDA_CHANNELS", "0"},    {"RUEDA_RANK", "9"}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        setenv(wrong[i][0], wrong[i][1], 1);
        CHECK_STATUS(rueda_init(NULL), RUEDA_ERR_CONFIG);
        CHECK_SAYS(wrong[i][0]);
        CHECK_SAYS(wrong[i][1]);
        unsetenv(wrong[i][0]);
    }
    CHECK_OK(rueda_init(NULL));
    CHECK_OK(rueda_shutdown());
}

static void nonsense_in_a_setting_is_refused_at_init(void **state)
{
    (void)state;
    run_ranks(1, set_nonsense, NULL);
}

/* Settings that are right by themselves, and cannot be done together or here. */
typedef struct contradiction {
    const char *set[2][2], *says;
} contradiction;

static void set_contradiction(int rank, int size, const void *argument)
{
    (void)size, (void)argument;
    const contradiction cases[] = {
        {{{"RUEDA_INSECURE", "1"}, {"RUEDA_ENCRYPT", "1"}}, "RUEDA_INSECURE=1"},
        {{{"RUEDA_DETERMINISTIC", "1"}, {"RUEDA_ALGORITHM", "ring"}}, "RUEDA_ALGORITHM=ring"},
        {{{"RUEDA_ALGORITHM", "native"}}, "RUEDA_TRANSPORT=mpi"},
        {{{"RUEDA_ALGORITHM", "direct"}, {"RUEDA_TRANSPORT", "tcp"}}, "shared memory"},
        {{{"RUEDA_TRANSPORT", "shm"}, {"RUEDA_HOST", rank == 0 ? "a" : "b"}}, "several hosts"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const contradiction *c = &cases[i];
        doing("asking for %s=%s", c->set[0][0], c->set[0][1]);
        for (int v = 0; v < 2 && c->set[v][0] != NULL; v++)
            setenv(c->set[v][0], c->set[v][1], 1);
        CHECK_STATUS(rueda_init(NULL), RUEDA_ERR_CONFIG);
        CHECK_SAYS(c->says);
        CHECK_SAYS(c->set[0][1]);
        for (int v = 0; v < 2 && c->set[v][0] != NULL; v++)
            unsetenv(c->set[v][0]);
    }
    CHECK_OK(rueda_init(NULL));
    run_one_task("afterwards");
    CHECK_OK(rueda_shutdown());
}

static void what_a_job_cannot_do_is_refused_at_init(void **state)
{
    (void)state;
    run_ranks(2, set_contradiction, NULL);
}

/* One rank corrects its setting while the others already wait for it. */
static void correct_a_setting(int rank, int size, const void *argument)
{
    (void)argument;
    if (rank == size - 1) {
        setenv("RUEDA_KERNEL", "abacus", 1);
        CHECK_STATUS(rueda_init(NULL), RUEDA_ERR_CONFIG);
        unsetenv("RUEDA_KERNEL");
    }
    for (int i = 0; i < 2; i++) {
        CHECK_OK(rueda_init(NULL));
        run_one_task("corrected");
        CHECK_OK(rueda_shutdown());
    }
}

static void a_rank_may_correct_its_settings(void **state)
{
    (void)state;
    run_ranks(1, correct_a_setting, NULL);
    run_ranks(3, correct_a_setting, NULL);
}

/* Rank `*argument` never comes. */
static void miss_a_rank(int rank, int size, const void *argument)
{
    (void)size;
    const int missing = *(const int *)argument;
    char text[16];
    snprintf(text, sizeof text, " %d", missing);
    if (rank != missing) {
        CHECK_STATUS(rueda_init(NULL), RUEDA_ERR_TIMEOUT);
        CHECK_SAYS("waited");
        CHECK_SAYS(text);
        CHECK_SAYS("RUEDA_START_TIMEOUT");
    }
}

static void a_missing_rank_is_named(void **state)
{
    (void)state;
    static const char *const soon[] = {"RUEDA_START_TIMEOUT=1", NULL};
    run_job(&(job){.ranks = 3, .body = miss_a_rank, .argument = &(int){2}, .environment = soon});
    run_job(&(job){.ranks = 2, .body = miss_a_rank, .argument = &(int){0}, .environment = soon});
}

/* Rank 1 gives up before rank 2 comes: the others are told, and wait no longer. */
static void lose_patience(int rank, int size, const void *argument)
{
    (void)size, (void)argument;
    if (rank == 1)
        setenv("RUEDA_START_TIMEOUT", "1", 1);
    if (rank != 2)
        CHECK_STATUS(rueda_init(NULL), RUEDA_ERR_TIMEOUT);
    if (rank != 2)
        CHECK_SAYS("rank 1 waited 1 s");
    meet();
}

static void a_rank_that_gave_up_is_not_waited_for(void **state)
{
    (void)state;
    static const char *const late[] = {"RUEDA_START_TIMEOUT=600", NULL};
    run_job(&(job){.ranks = 3, .body = lose_patience, .environment = late});
}

/* A data loader forks: its copy is not part of the job, and the job goes on. */
static void fork_a_child(int rank, int size, const void *argument)
{
    (void)rank, (void)size, (void)argument;
    CHECK_OK(rueda_init(NULL));
    run_one_task("before");
    const pid_t child = fork();
    if (child == 0) {
        CHECK_STATUS(rueda_barrier(0, NULL), RUEDA_ERR_STATE);
        CHECK_SAYS("forked");
        CHECK_STATUS(rueda_init(NULL), RUEDA_ERR_STATE);
        CHECK_EQUAL(rueda_rank(), -1);
        _exit(EXIT_SUCCESS);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    run_one_task("after");
    CHECK_OK(rueda_shutdown());
}

static void a_forked_child_is_not_part_of_the_job(void **state)
{
    (void)state;
    run_ranks(2, fork_a_child, NULL);
}

static void nothing_is_left_behind(void **state)
{
    (void)state;
    run_ranks(2, call_outside, NULL);
    assert_int_equal(count_named("/dev/shm", "rueda"), 0); /* others may use the folder, too */
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);      /* no child */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_process_may_start_a_hundred_times),
        cmocka_unit_test(calls_outside_of_a_job_are_refused),
        cmocka_unit_test(a_process_without_a_launcher_is_a_job_of_one),
        cmocka_unit_test(settings_that_must_be_equal_are_compared),
        cmocka_unit_test(nonsense_in_a_setting_is_refused_at_init),
        cmocka_unit_test(what_a_job_cannot_do_is_refused_at_init),
        cmocka_unit_test(a_rank_may_correct_its_settings),
        cmocka_unit_test(a_missing_rank_is_named),
        cmocka_unit_test(a_rank_that_gave_up_is_not_waited_for),
        cmocka_unit_test(a_forked_child_is_not_part_of_the_job),
        cmocka_unit_test(nothing_is_left_behind),
    };
    return cmocka_run_group_tests_name("life", tests, NULL, NULL);
}
