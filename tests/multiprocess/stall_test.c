/* stall_test.c: the report of tensors that some ranks do not submit names those ranks and no others.
 * ctest: timeout=180 */
#include "tensors.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define WARN 2 /* seconds, in the environment below */
#define RANKS 4

/* One that is not submitted by some ranks (bits), and how the report calls them. */
typedef struct stalled {
    const char *name;
    unsigned missing;
    const char *text;
} stalled;

static const stalled all[] = {
    {"without 1", 1u << 1, "'without 1' (Missing ranks: 1)"},
    {"seen before, without 1", 1u << 1, "'seen before, without 1' (Missing ranks: 1)"},
    {"without 0", 1u << 0, "'without 0' (Missing ranks: 0)"},
    {"seen before, without 0 and 2", 5u, "'seen before, without 0 and 2' (Missing ranks: 0 2)"},
    {"only on 3", 7u, "'only on 3' (Missing ranks: 0 1 2)"},
};
#define COUNT (sizeof all / sizeof all[0])

static rueda_request *submit(const char *name)
{
    static float values[64];
    static size_t used;
    const int64_t shape[] = {1};
    const rueda_tensor t = RUEDA_TENSOR(name, &values[used++ % 64], RUEDA_F32, 1, shape);
    rueda_request *request;
    CHECK_OK(rueda_allreduce(&t, &RUEDA_OPTIONS(RUEDA_SUM), &request));
    return request;
}

static void finish(rueda_request *request)
{
    CHECK_OK(rueda_wait(request, -1));
    rueda_request_free(request);
}

static void run(const char *name)
{
    finish(submit(name));
}

/* The seconds that a line of the report tells. */
static long seconds_of(const char *line)
{
    const char *said = strstr(line, "for more than ");
    CHECK(said != NULL);
    return strtol(said + strlen("for more than "), NULL, 10);
}

/* Lines of this rank's stderr that report the tensor; *first: those of the first period. All that name it
 * must name the same ranks. */
static int count_reports(const stalled *s, int *first)
{
    int reports = 0;
    char quoted[64], *state = NULL;
    static char text[16384];
    snprintf(text, sizeof text, "%s", captured_stderr());
    snprintf(quoted, sizeof quoted, "'%s'", s->name);
    *first = 0;
    for (char *line = strtok_r(text, "\n", &state); line != NULL;
         line = strtok_r(NULL, "\n", &state)) {
        if (strstr(line, quoted) == NULL)
            continue;
        CHECK(strstr(line, "One or more tensors were submitted to be reduced, gathered or "
                           "broadcasted by subset of ranks") != NULL);
        if (strstr(line, s->text) == NULL || strstr(line, "does not answer") != NULL)
            rank_fail(__FILE__, __LINE__, "not \"%s\" but: %s", s->text, line);
        reports++;
        *first += seconds_of(line) < 2 * WARN;
    }
    return reports;
}

/* Until all have been reported by someone. Counters: reports of each, and behind them those of the first
 * period. */
static void await_reports(rueda_request *some)
{
    int told[COUNT] = {0}, told_first[COUNT] = {0};
    for (bool done = false; !done;) {
        if (some != NULL)
            CHECK_STATUS(rueda_wait(some, 50), RUEDA_PENDING);
        else
            usleep(50000); /* this rank has submitted nothing: it computes */
        done = true;
        for (size_t i = 0; i < COUNT; i++) {
            int first;
            const int reports = count_reports(&all[i], &first);
            atomic_fetch_add(job_counter((int)i), reports - told[i]);
            atomic_fetch_add(job_counter((int)(COUNT + i)), first - told_first[i]);
            told[i] = reports;
            told_first[i] = first;
            done = done && atomic_load(job_counter((int)i)) > 0;
        }
    }
}

static void hold_back(int rank, int size, const void *argument)
{
    (void)size, (void)argument;
    rueda_request *requests[COUNT] = {NULL}, *some = NULL;
    capture_stderr();
    CHECK_OK(rueda_init(NULL));
    run("seen before, without 1");
    run("seen before, without 0 and 2");
    meet();
    /* what comes first opens a round; all that comes after it stays with its rank */
    for (size_t i = 0; i < COUNT; i++) {
        if ((all[i].missing >> rank & 1) != 0)
            continue;
        requests[i] = some = submit(all[i].name);
        CHECK_STATUS(rueda_wait(some, 20), RUEDA_PENDING);
    }
    doing("wait for the reports");
    await_reports(some);
    meet();
    for (size_t i = 0; i < COUNT; i++) {
        CHECK(atomic_load(job_counter((int)(COUNT + i))) <= 1); /* one speaks for all */
        finish(requests[i] != NULL ? requests[i] : submit(all[i].name));
    }
    CHECK_OK(rueda_shutdown());
}

static const char *const soon[] = {"RUEDA_STALL_WARN=2", NULL};

static void only_ranks_that_have_not_submitted_are_missing(void **state)
{
    (void)state;
    run_job(&(job){.ranks = RANKS, .body = hold_back, .environment = soon});
}

/* ---- Time ------------------------------------------------------------------------------------ */

static void hold_back_long(int rank, int size, const void *argument)
{
    (void)size, (void)argument;
    rueda_request *request = NULL;
    capture_stderr();
    CHECK_OK(rueda_init(NULL));
    if (rank == 0) {
        request = submit("late");
        const char *first = NULL, *second = NULL;
        doing("wait for two reports");
        while (second == NULL) {
            CHECK_STATUS(rueda_wait(request, 50), RUEDA_PENDING);
            first = strstr(captured_stderr(), "for more than");
            second = first == NULL ? NULL : strstr(first + 1, "for more than");
        }
        CHECK(seconds_of(first) >= 1 && seconds_of(second) > seconds_of(first));
    }
    meet();
    finish(rank == 0 ? request : submit("late"));
    CHECK_OK(rueda_shutdown());
}

static void the_next_report_tells_the_new_time(void **state)
{
    (void)state;
    static const char *const at_once[] = {"RUEDA_STALL_WARN=1", NULL};
    run_job(&(job){.ranks = 2, .body = hold_back_long, .environment = at_once});
}

/* ---- Ranks that do not run ------------------------------------------------------------------- */

static void stop_one(int rank, int size, const void *argument)
{
    (void)size, (void)argument;
    rueda_request *request = NULL;
    capture_stderr();
    CHECK_OK(rueda_init(NULL));
    run("warm up");
    if (rank == 2) {
        atomic_store(job_counter(0), (int)getpid());
        raise(SIGSTOP);
    } else if (rank == 0) {
        while (atomic_load(job_counter(0)) == 0)
            usleep(1000);
        request = submit("late");
        doing("wait for the report");
        while (strstr(captured_stderr(), "'late'") == NULL)
            CHECK_STATUS(rueda_wait(request, 50), RUEDA_PENDING);
        if (strstr(captured_stderr(), "'late' (Missing ranks: 1); rank 2 does not answer") == NULL)
            rank_fail(__FILE__, __LINE__, "it says: %s", captured_stderr());
        kill(atomic_load(job_counter(0)), SIGCONT);
    }
    meet();
    finish(rank == 0 ? request : submit("late"));
    CHECK_OK(rueda_shutdown());
}

static void a_rank_that_does_not_run_is_said_not_to_answer(void **state)
{
    (void)state;
    run_job(&(job){.ranks = 3, .body = stop_one, .environment = soon});
}

/* ---- The end --------------------------------------------------------------------------------- */

/* Rank 3 has joined and so lacks nothing. */
static void end_by_a_stall(int rank, int size, const void *argument)
{
    (void)size, (void)argument;
    rueda_request *request = NULL;
    CHECK_OK(rueda_init(NULL));
    if (rank == 3)
        CHECK_OK(rueda_join(&request));
    else if (rank != 1)
        request = submit("never on 1");
    else
        meet();
    if (request != NULL) {
        CHECK_STATUS(rueda_wait(request, -1), RUEDA_ERR_STALLED);
        CHECK_SAYS("have not submitted 'never on 1' (Missing ranks: 1)");
        rueda_request_free(request);
        meet();
    }
    CHECK_OK(rueda_shutdown());
}

static void the_last_sentence_names_the_missing_rank_only(void **state)
{
    (void)state;
    static const char *const ends[] = {"RUEDA_STALL_WARN=0", "RUEDA_STALL_END=1", NULL};
    run_job(&(job){.ranks = RANKS, .body = end_by_a_stall, .environment = ends});
}

/* Warnings come more often than ranks wait for an answer, and from a rank that sets no end as well. */
static void end_among_warnings(int rank, int size, const void *argument)
{
    if (rank == 0)
        setenv("RUEDA_STALL_END", "0", 1);
    end_by_a_stall(rank, size, argument);
}

static void warnings_do_not_put_the_end_off(void **state)
{
    (void)state;
    static const char *const ends[] = {"RUEDA_STALL_WARN=1", "RUEDA_STALL_END=2", NULL};
    run_job(&(job){.ranks = RANKS, .body = end_among_warnings, .environment = ends});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_ranks_that_have_not_submitted_are_missing),
        cmocka_unit_test(the_next_report_tells_the_new_time),
        cmocka_unit_test(a_rank_that_does_not_run_is_said_not_to_answer),
        cmocka_unit_test(the_last_sentence_names_the_missing_rank_only),
        cmocka_unit_test(warnings_do_not_put_the_end_off),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
