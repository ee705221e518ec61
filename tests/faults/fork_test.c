/* fork_test.c: data loaders that fork: the child is no part of the job, holds nothing of it open, and
 * is in nobody's way, neither while operations run nor when its parent dies.
 * ctest: not_asan threads timeout=120 */
#include "survivors.h"

#include <dirent.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define DESCRIPTORS_MOST 256
#define TARGET_MOST 128
#define FORKS 60

/* What the descriptors of this process stand for. */
typedef struct descriptors {
    int count;
    char targets[DESCRIPTORS_MOST][TARGET_MOST];
} descriptors;

static void list_descriptors(descriptors *list)
{
    list->count = 0;
    DIR *folder = opendir("/proc/self/fd");
    CHECK(folder != NULL);
    for (struct dirent *e; (e = readdir(folder)) != NULL;) {
        char target[TARGET_MOST] = "";
        if (readlinkat(dirfd(folder), e->d_name, target, sizeof target - 1) <= 0 ||
            strstr(target, "/proc/") == target)
            continue; /* the dots, and the folder itself */
        CHECK(list->count < DESCRIPTORS_MOST);
        memcpy(list->targets[list->count++], target, sizeof target);
    }
    closedir(folder);
}

/* In the child; exits with what is wrong. */
static void check_child(const descriptors *before)
{
    static descriptors now;
    float value = 1;
    const int64_t shape[] = {1};
    const rueda_tensor t = RUEDA_TENSOR("t", &value, RUEDA_F32, 1, shape);
    list_descriptors(&now);
    for (int i = 0; i < now.count; i++) {
        bool known = false;
        for (int b = 0; b < before->count; b++)
            known = known || strcmp(before->targets[b], now.targets[i]) == 0;
        if (!known)
            rank_fail(__FILE__, __LINE__, "a forked child has %s open", now.targets[i]);
    }
    CHECK_STATUS(rueda_allreduce(&t, NULL, NULL), RUEDA_ERR_STATE);
    CHECK_SAYS("forked");
    CHECK_STATUS(rueda_shutdown(), RUEDA_ERR_STATE);
    CHECK_SAYS("forked");
    CHECK_EQUAL(rueda_is_initialized(), 0);
    _exit(EXIT_SUCCESS);
}

static void fork_and_check(const descriptors *before)
{
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0)
        check_child(before);
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

static void run_allreduce(const char *name, int size, int64_t count)
{
    float *data = malloc((size_t)count * sizeof *data);
    for (int64_t i = 0; i < count; i++)
        data[i] = 1;
    const rueda_tensor t = RUEDA_TENSOR(name, data, RUEDA_F32, 1, &count);
    CHECK_OK(rueda_allreduce(&t, &RUEDA_OPTIONS(RUEDA_SUM), NULL));
    for (int64_t i = 0; i < count; i++)
        CHECK(data[i] == (float)size);
    free(data);
}

static void *work(void *size)
{
    for (int i = 0; i < 2 * FORKS; i++) {
        doing("operation %d", i);
        run_allreduce(i % 4 == 0 ? "large" : "small", *(const int *)size, i % 4 == 0 ? 300000 : 10);
    }
    return NULL;
}

/* One thread works, another one forks. */
static void fork_at_work(int rank, int size, const void *argument)
{
    (void)rank, (void)argument;
    static descriptors before;
    list_descriptors(&before);
    CHECK_OK(rueda_init(NULL));
    run_allreduce("first", size, 100000);
    fork_and_check(&before);
    pthread_t worker;
    CHECK_EQUAL(pthread_create(&worker, NULL, work, &size), 0);
    for (int i = 0; i < FORKS; i++)
        fork_and_check(&before);
    CHECK_EQUAL(pthread_join(worker, NULL), 0);
    fork_and_check(&before);
    CHECK_OK(rueda_shutdown());
    const pid_t child = fork(); /* afterwards it is a process like any other */
    if (child == 0) {
        CHECK_STATUS(rueda_barrier(0, NULL), RUEDA_ERR_STATE);
        CHECK_SAYS("rueda_init");
        _exit(EXIT_SUCCESS);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

static void loaders_may_fork_while_operations_run(void **state)
{
    (void)state;
    run_ranks(2, fork_at_work, NULL);
    run_ranks(3, fork_at_work, NULL);
}

/* A child with requests of its parent in its memory may let them go. */
static void fork_with_requests(int rank, int size, const void *argument)
{
    (void)rank, (void)argument;
    double value = 1;
    CHECK_OK(rueda_init(NULL));
    CHECK_OK(run_one("first"));
    if (rank == 0) {
        rueda_request *request = submit_one("pending", &value);
        const pid_t child = fork();
        if (child == 0) {
            CHECK_STATUS(rueda_wait(request, -1), RUEDA_ERR_STATE);
            CHECK_SAYS("forked");
            rueda_request_free(request);
            exit(EXIT_SUCCESS);
        }
        int status;
        CHECK(waitpid(child, &status, 0) == child && status == 0);
        meet();
        CHECK_OK(rueda_wait(request, -1));
        CHECK(value == size);
        rueda_request_free(request);
    } else {
        meet();
        CHECK_OK(run_one("pending"));
    }
    CHECK_OK(rueda_shutdown());
}

static void requests_stay_the_parents(void **state)
{
    (void)state;
    run_ranks(2, fork_with_requests, NULL);
}

/* Rank 1 dies, and its loader lives on until the others have noticed. */
static void outlive_the_parent(int rank, int size, const void *argument)
{
    (void)size, (void)argument;
    enum { LOADER, SURVIVORS };
    CHECK_OK(rueda_init(NULL));
    CHECK_OK(run_one("first"));
    meet();
    if (rank == 1) {
        const pid_t child = fork();
        if (child == 0) {
            prctl(PR_SET_PDEATHSIG, 0);
            for (;;)
                pause();
        }
        atomic_store(job_counter(LOADER), (int)child);
        raise(SIGKILL);
    }
    CHECK_STATUS(run_one("without rank 1"), RUEDA_ERR_PEER);
    CHECK_SAYS("rank 1 is lost");
    const pid_t loader = atomic_load(job_counter(LOADER));
    CHECK(kill(loader, 0) == 0);
    CHECK_OK(rueda_shutdown());
    if (atomic_fetch_add(job_counter(SURVIVORS), 1) == size - 2)
        CHECK(kill(loader, SIGKILL) == 0); /* the last one */
}

static void a_death_is_seen_while_a_child_of_the_dead_lives(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= 4; ranks++)
        run_job(&(job){.ranks = ranks, .body = outlive_the_parent, .killed = 1u << 1});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loaders_may_fork_while_operations_run),
        cmocka_unit_test(requests_stay_the_parents),
        cmocka_unit_test(a_death_is_seen_while_a_child_of_the_dead_lives),
    };
    return cmocka_run_group_tests_name("fork", tests, NULL, look_for_rest);
}
