/* layout_test.c: where workers go, and which GPUs their processes see. */
#include "cli/job_file/layout.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define HOSTS_MAX 4

static int workers[HOSTS_MAX];

static job_capacity here(int64_t cpus, int64_t mem_mib, int64_t gpus)
{
    return (job_capacity){"localhost", true, JOB_UNKNOWN, cpus, mem_mib, gpus};
}

static job_capacity there(int64_t slots)
{
    return (job_capacity){"ada", false, slots, JOB_UNKNOWN, JOB_UNKNOWN, JOB_UNKNOWN};
}

static job_fit lay_out(job_want want, const job_capacity *hosts, size_t count)
{
    memset(workers, -1, sizeof workers);
    return job_layout(&want, hosts, count, workers);
}

static void one_machine_takes_all_that_want_nothing(void **state)
{
    (void)state;
    const job_capacity host = here(2, 1000, 0);
    assert_int_equal(lay_out((job_want){.workers = 64, .processes = 2}, &host, 1), JOB_FITS);
    assert_int_equal(workers[0], 64);
}

static void cores_and_memory_here_may_be_shared(void **state)
{
    (void)state;
    const job_capacity host = here(4, 1000, 0);
    assert_int_equal(lay_out((job_want){4, 1, 1, 250, 0}, &host, 1), JOB_FITS);
    assert_int_equal(lay_out((job_want){5, 1, 1, 10, 0}, &host, 1), JOB_FITS_TIGHTLY);
    assert_int_equal(workers[0], 5);
    assert_int_equal(lay_out((job_want){5, 1, 0, 250, 0}, &host, 1), JOB_FITS_TIGHTLY);
}

static void one_worker_must_fit_alone(void **state)
{
    (void)state;
    const job_capacity host = here(4, 1000, 2);
    const job_want too_much[] = {{1, 1, 5, 0, 0}, {1, 1, 0, 1001, 0}, {1, 1, 0, 0, 3}};
    for (size_t i = 0; i < 3; i++) {
        assert_false(job_fits_alone(&too_much[i], &host));
        assert_int_equal(lay_out(too_much[i], &host, 1), JOB_FITS_NOT);
        assert_int_equal(workers[0], 0);
    }
    assert_true(job_fits_alone(&(job_want){9, 1, 4, 1000, 2}, &host));
}

static void gpus_are_never_shared_between_workers(void **state)
{
    (void)state;
    const job_capacity host = here(64, 1000, 4);
    assert_int_equal(lay_out((job_want){2, 2, 1, 0, 2}, &host, 1), JOB_FITS);
    assert_int_equal(lay_out((job_want){3, 2, 1, 0, 2}, &host, 1), JOB_FITS_NOT);
    assert_int_equal(workers[0], 2);
}

static void hosts_are_filled_in_order(void **state)
{
    (void)state;
    const job_capacity hosts[] = {there(4), there(8), there(8)};
    assert_int_equal(lay_out((job_want){.workers = 5, .processes = 2}, hosts, 3), JOB_FITS);
    assert_int_equal(workers[0], 2);
    assert_int_equal(workers[1], 3);
    assert_int_equal(workers[2], 0);
    assert_int_equal(lay_out((job_want){.workers = 11, .processes = 2}, hosts, 3), JOB_FITS_NOT);
    assert_int_equal(workers[0] + workers[1] + workers[2], 10);
}

static void hosts_without_numbers_share_the_rest(void **state)
{
    (void)state;
    const job_capacity hosts[] = {there(JOB_UNKNOWN), there(2), there(JOB_UNKNOWN)};
    assert_int_equal(lay_out((job_want){.workers = 7, .processes = 1}, hosts, 3), JOB_FITS);
    assert_int_equal(workers[0], 3);
    assert_int_equal(workers[1], 2);
    assert_int_equal(workers[2], 2);
    assert_int_equal(lay_out((job_want){.workers = 1, .processes = 1}, hosts, 3), JOB_FITS);
    assert_int_equal(workers[1], 1);
    assert_int_equal(workers[0] + workers[2], 0);
}

static void this_machine_takes_what_others_cannot(void **state)
{
    (void)state;
    const job_capacity hosts[] = {here(2, 1000, 0), there(1)};
    assert_int_equal(lay_out((job_want){6, 1, 1, 0, 0}, hosts, 2), JOB_FITS_TIGHTLY);
    assert_int_equal(workers[0], 5);
    assert_int_equal(workers[1], 1);
}

static void assert_gpus(job_want want, int worker, int process, int first, int count)
{
    int got_first, got_count;
    job_gpus_of(&want, worker, process, &got_first, &got_count);
    assert_int_equal(got_first, first);
    assert_int_equal(got_count, count);
}

static void each_process_sees_its_gpus(void **state)
{
    (void)state;
    assert_gpus((job_want){.processes = 4, .gpus = 4}, 0, 3, 3, 1);
    assert_gpus((job_want){.processes = 4, .gpus = 4}, 2, 1, 9, 1);
    assert_gpus((job_want){.processes = 1, .gpus = 4}, 1, 0, 4, 4);
    assert_gpus((job_want){.processes = 2, .gpus = 3}, 0, 0, 0, 1);
    assert_gpus((job_want){.processes = 2, .gpus = 3}, 0, 1, 1, 2);
    assert_gpus((job_want){.processes = 4, .gpus = 2}, 0, 1, 0, 1);
    assert_gpus((job_want){.processes = 4, .gpus = 2}, 0, 2, 1, 1);
    assert_gpus((job_want){.processes = 3, .gpus = 0}, 1, 2, 0, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_machine_takes_all_that_want_nothing),
        cmocka_unit_test(cores_and_memory_here_may_be_shared),
        cmocka_unit_test(one_worker_must_fit_alone),
        cmocka_unit_test(gpus_are_never_shared_between_workers),
        cmocka_unit_test(hosts_are_filled_in_order),
        cmocka_unit_test(hosts_without_numbers_share_the_rest),
        cmocka_unit_test(this_machine_takes_what_others_cannot),
        cmocka_unit_test(each_process_sees_its_gpus),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
