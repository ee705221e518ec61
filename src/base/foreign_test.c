/* foreign_test.c: what other launchers tell; above all that two of their jobs never get the same name. */
#include "base/foreign.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define VARIABLES_MAX 12

/* "NAME=value" …, NULL. */
typedef const char *environment[VARIABLES_MAX];

static config adopt(const environment variables)
{
    config c;
    clearenv();
    for (size_t i = 0; i < VARIABLES_MAX && variables[i] != NULL; i++)
        assert_int_equal(putenv((char *)variables[i]), 0);
    if (config_load(&c, NULL) != RUEDA_OK)
        fail_msg("%s", status_text());
    clearenv();
    return c;
}

/* The same, with one variable more, or another value. */
static config adopt_with(const environment variables, const char *more)
{
    environment changed;
    size_t i = 0;
    memcpy(changed, variables, sizeof changed);
    while (changed[i] != NULL && strncmp(changed[i], more, strcspn(more, "=") + 1) != 0)
        i++;
    changed[i] = more;
    return adopt(changed);
}

static void assert_other_name(const environment variables, const char *more)
{
    const config one = adopt(variables), other = adopt_with(variables, more);
    assert_string_not_equal(one.job.text, "");
    if (strcmp(one.job.text, other.job.text) == 0)
        fail_msg("%s changes nothing: both jobs are '%s'", more, one.job.text);
}

static void assert_same_name(const environment variables, const char *more)
{
    const config one = adopt(variables), other = adopt_with(variables, more);
    assert_string_equal(one.job.text, other.job.text);
}

static void torchruns_differ_by_run_port_and_restart(void **state)
{
    (void)state;
    const environment torch = {"RANK=0",
                               "WORLD_SIZE=4",
                               "LOCAL_WORLD_SIZE=2",
                               "MASTER_ADDR=node1",
                               "MASTER_PORT=29500",
                               "TORCHELASTIC_RUN_ID=none",
                               "TORCHELASTIC_RESTART_COUNT=0"};
    assert_other_name(torch, "TORCHELASTIC_RUN_ID=other");
    assert_other_name(torch, "MASTER_PORT=29505");
    assert_other_name(torch, "TORCHELASTIC_RESTART_COUNT=1");
    assert_same_name(torch, "RANK=3");
    const environment long_run = {
        "RANK=0", "WORLD_SIZE=4", "MASTER_ADDR=node1", "MASTER_PORT=29500",
        "TORCHELASTIC_RUN_ID=a-name-that-is-longer-than-a-name-of-ours-may-be-and-so-it-is-cut"};
    assert_other_name(long_run, "MASTER_PORT=29505");
    assert_other_name(long_run, "TORCHELASTIC_RESTART_COUNT=1");
}

static void slurm_steps_differ_by_job_step_and_restart(void **state)
{
    (void)state;
    const environment slurm = {"SLURM_JOB_ID=7",
                               "SLURM_STEP_ID=0",
                               "SLURM_PROCID=0",
                               "SLURM_STEP_NUM_TASKS=4",
                               "SLURM_STEP_NUM_NODES=2",
                               "SLURM_STEP_NODELIST=node[1-2]",
                               "HOME=/home/a"};
    const char *const more[] = {"SLURM_JOB_ID=8", "SLURM_STEP_ID=1", "SLURM_RESTART_COUNT=1"};
    for (size_t i = 0; i < sizeof more / sizeof more[0]; i++) {
        assert_other_name(slurm, more[i]);
        const config one = adopt(slurm), other = adopt_with(slurm, more[i]);
        assert_string_not_equal(one.meet.text, other.meet.text);
    }
    assert_same_name(slurm, "SLURM_PROCID=3");
}

static void what_only_one_host_knows_is_no_name_for_several(void **state)
{
    (void)state;
    const environment pmi = {"PMI_RANK=0", "PMI_SIZE=4", "MPI_LOCALNRANKS=2"},
                      by_hand = {"RANK=0", "WORLD_SIZE=4", "MASTER_ADDR=node1"};
    assert_string_equal(adopt(pmi).job.text, "");
    assert_string_not_equal(adopt_with(pmi, "MPI_LOCALNRANKS=4").job.text, "");
    assert_string_not_equal(adopt_with(pmi, "PMI_JOBID=9").job.text, "");
    assert_string_equal(adopt(by_hand).job.text, "");
    assert_string_equal(adopt_with(by_hand, "RUEDA_JOB=mine").job.text, "mine");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(torchruns_differ_by_run_port_and_restart),
        cmocka_unit_test(slurm_steps_differ_by_job_step_and_restart),
        cmocka_unit_test(what_only_one_host_knows_is_no_name_for_several),
    };
    return cmocka_run_group_tests_name("foreign", tests, NULL, NULL);
}
