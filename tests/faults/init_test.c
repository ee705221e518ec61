/* init_test.c: ranks die inside rueda_init, in each of its phases.
 *
 * The others may wait for them much longer than this test runs. All the same rueda_init, or what follows
 * it where all had met already, ends at once on all of them, with the same sentence, which names one of
 * the dead.
 * ctest: not_asan waits timeout=120 */
#include "survivors.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define RANKS_MOST 11 /* rank 1 has two children in the control tree then */
#define TRIAL_SECONDS 30
#define FIRST_PORT 20000
#define PORT_COUNT 10000

/* Those in which a rank is known to another, so that its death can be seen; not all ways of starting have
 * all of them. */
static const char *const PHASES[] = {"invited", "called", "card",  "verdict",
                                     "linked",  "memory", "ready", "joined"};
#define PHASE_COUNT ((int)(sizeof PHASES / sizeof *PHASES))

static const struct crew {
    int ranks;
    unsigned long long victims; /* bits */
} CREWS[] = {{2, 1 << 0},          {2, 1 << 1},  {4, 1 << 0},  {4, 1 << 2},
             {4, 1 << 1 | 1 << 3}, {11, 1 << 1}, {11, 1 << 10}};
#define CREW_COUNT ((int)(sizeof CREWS / sizeof *CREWS))

typedef struct trial {
    const struct crew *crew;
    const char *phase;
    saying *sayings; /* in shared memory */
} trial;

/* The first thing that fails is noted. */
static void live(int rank, int size, const void *argument)
{
    (void)size;
    const trial *t = argument;
    char fault[64];
    snprintf(fault, sizeof fault, "kill:rank=%d:init=%s", rank, t->phase);
    if ((t->crew->victims >> rank & 1) != 0)
        setenv("RUEDA_FAULT", fault, 1);
    meet(); /* who comes much later, when all is over, cannot know */
    doing("rueda_init, victims die when they are %s", t->phase);
    rueda_status status = rueda_init(NULL);
    const bool joined = status == RUEDA_OK;
    if (joined)
        status = run_one("first");
    say(&t->sayings[rank], status);
    if (joined)
        CHECK_OK(rueda_shutdown());
}

/* A victim that the job did not bring into this phase may have lived on as a survivor. */
static bool check(const trial *t, unsigned long long died)
{
    for (int r = 0; r < t->crew->ranks; r++) {
        char name[32];
        snprintf(name, sizeof name, "rank %d is lost", r);
        const saying *any = &t->sayings[__builtin_ctzll(~died)];
        if ((died >> r & 1) != 0 && strstr(any->sentence, name) != NULL)
            return all_say(t->sayings, t->crew->ranks, died, RUEDA_ERR_PEER, name);
    }
    return all_say(t->sayings, t->crew->ranks, died, died == 0 ? RUEDA_OK : RUEDA_ERR_PEER,
                   died == 0 ? "" : "a rank that died");
}

static bool run_trial(const trial *t, int number, bool by_address)
{
    char where[64];
    unsigned long long died = 0;
    snprintf(where, sizeof where, "RUEDA_MEET=127.0.0.1:%d",
             FIRST_PORT + (int)((unsigned)getpid() * 97u + (unsigned)number) % PORT_COUNT);
    const char *const environment[] = {"RUEDA_START_TIMEOUT=600", "RUEDA_HEARTBEAT=0",
                                       by_address ? where : NULL, "RUEDA_INSECURE=1", NULL};
    const job j = {.ranks = t->crew->ranks,
                   .body = live,
                   .argument = t,
                   .environment = environment,
                   .seconds = TRIAL_SECONDS,
                   .may_die = t->crew->victims};
    const bool well = try_job(&j, &died) && check(t, died);
    if (!well)
        fprintf(stderr, "%d ranks, those of %llx die when they are %s%s\n", t->crew->ranks,
                t->crew->victims, t->phase, by_address ? "; they meet at an address" : "");
    return well;
}

/* The number gives crew, phase and how they meet. */
static bool run_number(int number)
{
    trial t = {.crew = &CREWS[number % CREW_COUNT],
               .phase = PHASES[number / CREW_COUNT % PHASE_COUNT],
               .sayings = shared_take(RANKS_MOST * sizeof(saying))};
    const bool well = run_trial(&t, number, number >= CREW_COUNT * PHASE_COUNT);
    shared_give(t.sayings, RANKS_MOST * sizeof(saying));
    return well;
}

static void a_death_in_any_phase_of_init_ends_it_for_all(void **state)
{
    (void)state;
    const int ways = uses_network() ? 2 : 1;
    assert_true(run_side_by_side(ways * CREW_COUNT * PHASE_COUNT, run_number));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_death_in_any_phase_of_init_ends_it_for_all),
    };
    return cmocka_run_group_tests_name("init", tests, NULL, look_for_rest);
}
