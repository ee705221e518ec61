/* shortage_test.c: every call by which the library asks the system for memory, threads or descriptors fails
 * once.
 *
 * A trial is a job that runs a scenario while the n-th such call fails: in one rank or in all, and that call
 * alone or all that follow as well. No rank may crash or hang, or get a wrong result: what it asked for
 * works, if need be at the second try, or ends with an error that names the rank that ran short. Then all
 * shut down and begin anew, until a life of the job is as it should be. No descriptor is left.
 * Jobs have two ranks, or TEST_RANKS; with TEST_RANKS_ON_HOST (see harness.c) four. TEST_EVERY_CALL=1 makes no
 * choice among the trials. TEST_TRIAL="scenario form n" runs one, by hand.
 * ctest: timeout=600 */
#include "fail_nth.h"
#include "scenarios.h"
#include "survivors.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define RANKS_MOST 4
#define LIVES_MOST 6
#define TRIAL_SECONDS 60
#define CALLS_MOST 100000 /* no scenario needs so many */
#define SAMPLE 14         /* where a call in so many is tried … */
#define SAMPLE_MIXED 97   /* … and where ranks are on several hosts */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SLOWNESS 5 /* of a sanitizer */
#else
#define SLOWNESS 1
#endif

typedef enum victims { FIRST, LAST, ALL } victims;

static const struct form {
    const char *name;
    victims victims;
    bool onwards;
} forms[] = {{"first", FIRST, false},      {"last", LAST, false},
             {"all", ALL, false},          {"first-onwards", FIRST, true},
             {"last-onwards", LAST, true}, {"all-onwards", ALL, true}};
#define FORM_COUNT ((int)(sizeof forms / sizeof *forms))

/* Shared with the ranks. */
typedef struct trial {
    const scenario *scenario;
    const struct form *form;
    long n;
    int ranks;
    bool armed[RANKS_MOST];
    fail_nth_note notes[RANKS_MOST];
    _Atomic int failed_lives[RANKS_MOST];
    _Atomic bool well[RANKS_MOST]; /* the last life of the rank was as it should be */
} trial;

static bool is_victim(const trial *t, int rank)
{
    const victims v = t->form->victims;
    return v == ALL || (v == FIRST ? rank == 0 : rank == t->ranks - 1);
}

/* ---- In a rank ---- */

static int count_open(void)
{
    int count = 0;
    DIR *folder = opendir("/proc/self/fd");
    for (; readdir(folder) != NULL;)
        count++;
    closedir(folder);
    return count;
}

/* An error is right if something has failed, and who is not the one that ran short names it. */
static void judge(const trial *t, int rank, rueda_status status)
{
    static const rueda_status proper[] = {RUEDA_ERR_MEMORY, RUEDA_ERR_SYSTEM, RUEDA_ERR_PEER,
                                          RUEDA_ERR_SHUTDOWN, RUEDA_ERR_TIMEOUT};
    bool is_proper = false, named = false, happened = false;
    for (size_t i = 0; i < sizeof proper / sizeof *proper; i++)
        is_proper = is_proper || status == proper[i];
    for (int r = 0; r < t->ranks; r++) {
        char name[24];
        snprintf(name, sizeof name, "rank %d", r);
        happened = happened || t->notes[r].failed;
        named = named || (is_victim(t, r) && (r == rank || strstr(rueda_error(), name) != NULL));
    }
    if (!is_proper || !named || !happened)
        rank_fail(__FILE__, __LINE__, "%s: %s", rueda_status_name(status), rueda_error());
}

/* A call that could not even be submitted may be repeated; in a job that is broken it fails again. */
static bool take_step(const trial *t, int number, int rank)
{
    rueda_status status = RUEDA_OK;
    for (int tries = 0; tries < 2; tries++) {
        doing("step %d, try %d", number, tries);
        status = t->scenario->steps[number](rank, t->ranks);
        if (status == RUEDA_OK)
            return true;
        judge(t, rank, status);
        if (t->form->onwards)
            break;
    }
    return false;
}

/* Whether the steps of a life went well; rueda_init has been called. */
static bool take_steps(const trial *t, int rank)
{
    bool well = true;
    for (int i = 0; well && i < SCENARIO_STEPS && t->scenario->steps[i] != NULL; i++)
        well = take_step(t, i, rank);
    doing("rueda_shutdown");
    CHECK_OK(rueda_shutdown());
    return well;
}

/* Whether all others have ended this life well, too; false: some rank has not, or begins anew because of one. */
static bool all_well(trial *t, const int *failed_before)
{
    for (int r = 0; r < t->ranks; r++) {
        doing("end, waiting for rank %d", r);
        while (!atomic_load(&t->well[r])) {
            if (atomic_load(&t->failed_lives[r]) != failed_before[r])
                return false;
            sleep_ms(1);
        }
    }
    return true;
}

static void arm(trial *t, int rank)
{
    if (is_victim(t, rank) && !t->armed[rank])
        fail_nth_arm(t->n, t->form->onwards, &t->notes[rank]);
    t->armed[rank] = true;
}

/* From rueda_init to rueda_shutdown; whether it was the last, on all ranks. */
static bool live_once(trial *t, int rank)
{
    int failed_before[RANKS_MOST];
    doing("rueda_init");
    atomic_store(&t->well[rank], false);
    const rueda_status status = rueda_init(NULL);
    if (status != RUEDA_OK) {
        judge(t, rank, status);
        return false;
    }
    arm(t, rank);
    for (int r = 0; r < t->ranks; r++)
        failed_before[r] = atomic_load(&t->failed_lives[r]);
    if (!take_steps(t, rank)) {
        atomic_fetch_add(&t->failed_lives[rank], 1);
        return false;
    }
    atomic_store(&t->well[rank], true);
    if (all_well(t, failed_before))
        return true;
    atomic_fetch_add(&t->failed_lives[rank], 1);
    return false;
}

static void live(int rank, int size, const void *argument)
{
    (void)size;
    trial *t = (trial *)argument;
    if (getenv("TEST_TRIAL") == NULL)
        capture_stderr(); /* the library may complain */
    meet();
    const int open_before = count_open();
    if (t->scenario->with_init)
        arm(t, rank);
    for (int lives = 1; !live_once(t, rank); lives++) {
        if (t->form->onwards || t->ranks > 2)
            fail_nth_disarm(); /* there is memory again */
        if (lives == LIVES_MOST)
            rank_fail(__FILE__, __LINE__, "still not well: %s", rueda_error());
    }
    fail_nth_disarm();
    CHECK_EQUAL(count_open(), open_before);
}

/* ---- The trials ---- */

static void report(const trial *t)
{
    fprintf(stderr, "TEST_TRIAL='%s %s %ld'\n", t->scenario->name, t->form->name, t->n);
    for (int r = 0; r < t->ranks; r++) {
        if (t->notes[r].failed)
            fprintf(stderr, "in rank %d this failed: %s, addr2line -fie shortage_test 0x%lx\n", r,
                    t->notes[r].call, t->notes[r].where);
    }
}

/* *reached: the scenario has an n-th call. */
static bool try_call(trial *t, long n, bool *reached)
{
    /* that nobody can be let in may pass, so it is borne until the time is up */
    const char *environment[SCENARIO_SETTINGS + 3] = {t->form->onwards ? "RUEDA_START_TIMEOUT=10"
                                                                       : "RUEDA_START_TIMEOUT=600",
                                                      "RUEDA_HEARTBEAT=0"};
    for (int i = 0; i < SCENARIO_SETTINGS; i++)
        environment[2 + i] = t->scenario->settings[i];
    t->n = n;
    memset(t->notes, 0, sizeof t->notes);
    memset(t->armed, 0, sizeof t->armed);
    for (int r = 0; r < t->ranks; r++) {
        atomic_store(&t->failed_lives[r], 0);
        atomic_store(&t->well[r], false);
    }
    snprintf(scenario_timeline, sizeof scenario_timeline, "/tmp/rueda-shortage-%d.json",
             (int)getpid());
    const job j = {.ranks = t->ranks,
                   .body = live,
                   .argument = t,
                   .environment = environment,
                   .seconds = TRIAL_SECONDS};
    const bool well = try_job(&j, NULL);
    unlink(scenario_timeline);
    *reached = false;
    for (int r = 0; r < t->ranks; r++)
        *reached = *reached || t->notes[r].failed;
    if (!well)
        report(t);
    return well;
}

static int count_ranks(const scenario *s)
{
    const char *given = getenv("TEST_RANKS");
    const int usual = getenv("TEST_RANKS_ON_HOST") == NULL ? 2 : RANKS_MOST;
    const int count = given != NULL ? atoi(given) : usual;
    return count > s->ranks ? count : s->ranks;
}

/* Which of the calls are tried. */
static long stride_of(const trial *t)
{
    if (getenv("TEST_EVERY_CALL") != NULL)
        return 1;
    const bool usual = t->form->victims != ALL && !t->form->onwards && uses_memory_only();
    const long sample = getenv("TEST_RANKS_ON_HOST") != NULL ? SAMPLE_MIXED : SAMPLE;
    return t->scenario->stride * (usual ? 1 : sample) * SLOWNESS;
}

/* The number gives scenario and form. */
static bool run_number(int number)
{
    trial *t = shared_take(sizeof *t);
    *t = (trial){.scenario = &scenarios[number / FORM_COUNT],
                 .form = &forms[number % FORM_COUNT],
                 .ranks = count_ranks(&scenarios[number / FORM_COUNT])};
    bool well = true, reached = true;
    const long stride = stride_of(t);
    for (long n = 1 + number % stride; well && reached && n < CALLS_MOST; n += stride)
        well = try_call(t, n, &reached);
    if (well && reached)
        fprintf(stderr, "%s %s needs more than %d calls\n", t->scenario->name, t->form->name,
                CALLS_MOST);
    shared_give(t, sizeof *t);
    return well && !reached;
}

static void a_call_that_fails_is_an_error_or_harmless(void **state)
{
    (void)state;
    assert_true(run_side_by_side(scenario_count * FORM_COUNT, run_number));
}

/* TEST_TRIAL="scenario form n" */
static void run_one_trial(const char *text)
{
    char name[32], form[32];
    long n;
    bool reached;
    trial *t = shared_take(sizeof *t);
    assert_int_equal(sscanf(text, "%31s %31s %ld", name, form, &n), 3);
    *t = (trial){.scenario = NULL};
    for (int i = 0; i < scenario_count; i++)
        t->scenario = strcmp(scenarios[i].name, name) == 0 ? &scenarios[i] : t->scenario;
    for (int i = 0; i < FORM_COUNT; i++)
        t->form = strcmp(forms[i].name, form) == 0 ? &forms[i] : t->form;
    assert_true(t->scenario != NULL && t->form != NULL);
    t->ranks = count_ranks(t->scenario);
    const bool well = try_call(t, n, &reached);
    if (well)
        report(t);
    assert_true(well);
}

static void one_trial(void **state)
{
    (void)state;
    if (getenv("TEST_TRIAL") == NULL)
        skip();
    run_one_trial(getenv("TEST_TRIAL"));
}

int main(void)
{
    const struct CMUnitTest all[] = {cmocka_unit_test(a_call_that_fails_is_an_error_or_harmless)};
    const struct CMUnitTest one[] = {cmocka_unit_test(one_trial)};
    return getenv("TEST_TRIAL") == NULL
               ? cmocka_run_group_tests_name("shortage", all, NULL, look_for_rest)
               : cmocka_run_group_tests_name("shortage", one, NULL, look_for_rest);
}
