/* descriptors_test.c: a rank that may open only so many files: what rueda_init says is true.
 * ctest: not_asan waits timeout=240 */
#include "survivors.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#define RANKS 3
#define SPARE_MOST 16 /* descriptors that the victim has left, at most */
#define WAIT_S 4      /* for the others: much more than a start takes here */

typedef struct trial {
    int victim, spare;
} trial;

/* Returns how many there may be otherwise. */
static rlim_t leave_descriptors(int spare)
{
    struct rlimit limit;
    const int first = dup(0);
    CHECK(first >= 0 && close(first) == 0 && getrlimit(RLIMIT_NOFILE, &limit) == 0);
    const rlim_t before = limit.rlim_cur;
    limit.rlim_cur = (rlim_t)(first + spare);
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    return before;
}

/* Sanitizers open files at the end. */
static void give_back_descriptors(rlim_t count)
{
    struct rlimit limit;
    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    limit.rlim_cur = count;
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
}

/* Whoever says that it has waited has; the victim, and who knows of it, name what is missing. */
static void judge_sentence(int rank, bool is_victim, double seconds)
{
    const char *said = rueda_error();
    char waited[40];
    snprintf(waited, sizeof waited, "rank %d waited", rank);
    doing("judging, after %.2f s: %s", seconds, said);
    CHECK(strstr(said, "two") == NULL); /* nobody has come twice */
    CHECK(strstr(said, waited) == NULL || seconds >= WAIT_S);
    CHECK(!is_victim || strstr(said, "Too many open files") != NULL ||
          strstr(said, "ulimit -n") != NULL);
}

static void start_poor(int rank, int size, const void *argument)
{
    const trial *t = argument;
    (void)size;
    setenv("RUEDA_START_TIMEOUT", "4", 1); /* WAIT_S */
    setenv("RUEDA_LOG_LEVEL", "error", 1);
    const rlim_t before = rank == t->victim ? leave_descriptors(t->spare) : 0;
    const uint64_t start = clock_ns();
    const rueda_status status = rueda_init(NULL);
    const double seconds = 1e-9 * (double)(clock_ns() - start);
    if (status != RUEDA_OK)
        judge_sentence(rank, rank == t->victim, seconds);
    else
        rueda_shutdown(); /* which may say that the victim was lost later */
    if (rank == t->victim)
        give_back_descriptors(before);
}

static bool try_poor(int number)
{
    const trial t = {number % 2, number / 2};
    return try_job(&(job){.ranks = RANKS, .body = start_poor, .argument = &t}, NULL);
}

static void what_is_said_without_descriptors_is_true(void **state)
{
    (void)state;
    assert_true(run_side_by_side(2 * (SPARE_MOST + 1), try_poor));
}

/* So that the test above cannot pass because nothing ever starts. */
static void enough_descriptors_are_enough(void **state)
{
    (void)state;
    run_ranks(RANKS, start_poor, &(trial){0, 200});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_said_without_descriptors_is_true),
        cmocka_unit_test(enough_descriptors_are_enough),
    };
    return cmocka_run_group_tests_name("descriptors", tests, NULL, look_for_rest);
}
