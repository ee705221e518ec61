/* launcher_test.c: launch_job as job files use it: steps, hooks, variables and labels of single ranks.
 * Effects are left in files, since ranks are processes. */
#include "cli/launcher.h"
#include "world/world.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define RANKS 8

static char folder[] = "/tmp/rueda-launcher-XXXXXX";

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) == NULL || chdir(folder) != 0;
}

static int remove_folder(void **state)
{
    (void)state;
    char command[sizeof folder + 16];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

static launch_step shell(const char *line, const char *label)
{
    static char *words[8][4];
    static int next;
    char **command = words[next++ % 8];
    command[0] = "sh";
    command[1] = "-c";
    command[2] = (char *)line;
    command[3] = NULL;
    return (launch_step){.command = command, .label = label};
}

/* Reads what the ranks wrote; stderr of the launcher goes to a file, too. */
static void read_file(const char *name, char *text, size_t size)
{
    FILE *file = fopen(name, "r");
    assert_non_null(file);
    text[fread(text, 1, size - 1, file)] = '\0';
    fclose(file);
}

static int launch_quietly(const launch_options *options)
{
    fflush(stderr);
    const int saved = dup(STDERR_FILENO), file = open("err", O_WRONLY | O_CREAT | O_TRUNC, 0600);
    dup2(file, STDERR_FILENO);
    close(file);
    const int code = launch_job(options);
    dup2(saved, STDERR_FILENO);
    close(saved);
    return code;
}

typedef struct seen {
    int steps_started, steps_ended, started, ended, failed;
    uint64_t last_end_ns,
        barrier_ns; /* from the end of a step's last rank to the next one's first */
} seen;

static void step_started(void *context, size_t step)
{
    assert_int_equal(((seen *)context)->steps_started++, step);
}

static void step_ended(void *context, size_t step)
{
    assert_int_equal(((seen *)context)->steps_ended++, step);
}

static void rank_started(void *context, size_t step, int rank, const char *host, int pid)
{
    seen *s = context;
    assert_in_range(rank, 0, RANKS - 1);
    assert_string_equal(host, "localhost");
    assert_true(pid > 0);
    s->started++;
    if (step > 0 && s->started == (int)step * RANKS + 1)
        s->barrier_ns += world_now_ns() - s->last_end_ns;
}

static void rank_ended(void *context, size_t step, int rank, const launch_end *end)
{
    seen *s = context;
    (void)step;
    (void)rank;
    s->ended++;
    s->failed += end->exit_code != 0;
    s->last_end_ns = world_now_ns();
}

static launch_options job(const launch_step *steps, size_t count, seen *s)
{
    return (launch_options){.ranks = RANKS,
                            .steps = steps,
                            .step_count = count,
                            .hooks = {s, step_started, rank_started, rank_ended, step_ended}};
}

/* Every rank of a step must find what all ranks of the step before have done, the slowest too. */
static void a_step_waits_for_all_ranks(void **state)
{
    (void)state;
    seen s = {0};
    const launch_step steps[] = {
        shell("sleep 0.$RUEDA_RANK; touch one.$RUEDA_RANK", NULL),
        shell("[ $(ls one.* | wc -l) = 8 ] && touch two.$RUEDA_RANK", NULL),
        shell("[ $(ls two.* | wc -l) = 8 ] && echo $RUEDA_JOB $RUEDA_KEY >three.$RUEDA_RANK", NULL),
    };
    const launch_options options = job(steps, 3, &s);
    assert_int_equal(launch_job(&options), 0);
    assert_int_equal(s.steps_started, 3);
    assert_int_equal(s.steps_ended, 3);
    assert_int_equal(s.started, 3 * RANKS);
    assert_int_equal(s.ended, 3 * RANKS);
    printf("from one step to the next: %.1f ms\n", (double)s.barrier_ns / 2e6);
    char first[256], last[256];
    read_file("three.0", first, sizeof first);
    read_file("three.7", last, sizeof last);
    assert_string_equal(first, last);
    assert_int_equal(strlen(first), 32 + 1 + 64 + 1);
}

static void a_failed_step_is_the_last_and_named(void **state)
{
    (void)state;
    seen s = {0};
    char text[4096];
    launch_rank extra[RANKS] = {{0}};
    extra[5].label = "worker 2";
    const launch_step steps[] = {shell("true", "line 1: true"),
                                 shell("[ $RUEDA_RANK != 5 ] || exit 9; sleep 60", "line 2: fail"),
                                 shell("touch never", "line 3: never")};
    launch_options options = job(steps, 3, &s);
    options.rank_extra = extra;
    assert_int_equal(launch_quietly(&options), 9);
    assert_int_equal(s.steps_started, 2);
    assert_int_equal(s.steps_ended, 1);
    assert_int_equal(s.failed, RANKS); /* the others were asked to end */
    assert_int_not_equal(access("never", F_OK), 0);
    read_file("err", text, sizeof text);
    assert_non_null(strstr(text, "rueda run: rank 5, worker 2 (pid "));
    assert_non_null(strstr(text, " exited with 9 in line 2: fail\n"));
}

static void ranks_have_variables_of_their_own(void **state)
{
    (void)state;
    char *all[] = {"SHARED=all", "RUEDA_RANK=77", NULL};
    char *zero[] = {"GPU=0", NULL}, *one[] = {"GPU=1", "SHARED=mine", NULL};
    const launch_rank extra[2] = {{.environment = zero}, {.environment = one}};
    const launch_step steps[] = {shell("echo $RUEDA_RANK $GPU $SHARED >own.$RUEDA_RANK", NULL)};
    const launch_options options = {
        .ranks = 2, .steps = steps, .step_count = 1, .environment = all, .rank_extra = extra};
    char text[64];
    assert_int_equal(launch_job(&options), 0);
    read_file("own.0", text, sizeof text);
    assert_string_equal(text, "0 0 all\n");
    read_file("own.1", text, sizeof text);
    assert_string_equal(text, "1 1 mine\n");
}

static void limits_of_memory_and_cores_hold(void **state)
{
    (void)state;
    const launch_step steps[] = {
        shell("grep -q rueda- /proc/self/cgroup && echo group >data || ulimit -d >data;"
              "echo $OMP_NUM_THREADS >threads; nproc >cpus",
              NULL)};
    const launch_options options = {.ranks = 1,
                                    .steps = steps,
                                    .step_count = 1,
                                    .worker = {.cpus = 1, .memory_bytes = INT64_C(64) << 20},
                                    .bind = LAUNCH_BIND_CORE};
    char text[64];
    unsetenv("OMP_NUM_THREADS");
    assert_int_equal(launch_job(&options), 0);
    read_file("data", text, sizeof text);
    if (strcmp(text, "group\n") != 0) /* where the system lets us make one */
        assert_string_equal(text, "65536\n");
    read_file("threads", text, sizeof text);
    assert_string_equal(text, "1\n");
}

static void more_ranks_than_slots_are_refused(void **state)
{
    (void)state;
    char text[256];
    const launch_host host = {"localhost", 1};
    const launch_step steps[] = {shell("touch never", NULL)};
    const launch_options options = {
        .hosts = &host, .host_count = 1, .ranks = 2, .steps = steps, .step_count = 1};
    assert_int_equal(launch_quietly(&options), EXIT_FAILURE);
    read_file("err", text, sizeof text);
    assert_non_null(strstr(text, "rueda run: more ranks than slots"));
}

/* Jobs one after the other leave no descriptor behind. */
static void nothing_stays_open(void **state)
{
    (void)state;
    const launch_step steps[] = {shell("true", NULL)};
    const launch_options options = {.ranks = 2, .steps = steps, .step_count = 1};
    const int before = dup(0);
    close(before);
    for (int i = 0; i < 3; i++)
        assert_int_equal(launch_job(&options), 0);
    const int after = dup(0);
    close(after);
    assert_int_equal(before, after);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_waits_for_all_ranks),
        cmocka_unit_test(a_failed_step_is_the_last_and_named),
        cmocka_unit_test(ranks_have_variables_of_their_own),
        cmocka_unit_test(limits_of_memory_and_cores_hold),
        cmocka_unit_test(more_ranks_than_slots_are_refused),
        cmocka_unit_test(nothing_stays_open),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
