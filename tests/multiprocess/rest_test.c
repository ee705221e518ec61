/* rest_test.c: what the memory of operations does while nothing else happens.
 * ctest: timeout=120 */
#include "tensors.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define COUNT (INT64_C(2) << 20) /* elements; Adasum needs work memory for them */
#define STEPS 20
#define PAUSE_NS 5000000 /* about what a step of training computes */

/* AddressSanitizer asks for it: it would keep what is freed, and the system never get it back. */
__attribute__((visibility("default"))) const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "quarantine_size_mb=0:thread_local_quarantine_size_kb=0";
}

static void combine(float *data)
{
    const int64_t shape[] = {COUNT};
    const rueda_tensor tensor = RUEDA_TENSOR("gradient", data, RUEDA_F32, 1, shape);
    const rueda_options options = RUEDA_OPTIONS(RUEDA_ADASUM);
    rueda_request *request = NULL;
    CHECK_OK(rueda_allreduce(&tensor, &options, &request));
    CHECK_OK(rueda_wait(request, -1));
    rueda_request_free(request);
}

static long resident_bytes(void)
{
    long size = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(file != NULL && fscanf(file, "%ld %ld", &size, &resident) == 2);
    fclose(file);
    return resident * sysconf(_SC_PAGESIZE);
}

static void train_and_rest(int rank, int size, const void *argument)
{
    (void)rank, (void)size, (void)argument;
    const struct timespec pause = {0, PAUSE_NS};
    float *data = malloc(COUNT * sizeof *data);
    for (int64_t i = 0; i < COUNT; i++)
        data[i] = 1;
    CHECK_OK(rueda_init(NULL));
    const long work = COUNT * sizeof *data / 2; /* at least so much is needed beside the tensor */
    long gone = 0, busy = 0;
    for (int step = 0; step < STEPS; step++) {
        doing("step %d", step);
        gone += resident_bytes() < busy - work;
        combine(data);
        const long resident = resident_bytes();
        busy = resident > busy ? resident : busy;
        nanosleep(&pause, NULL);
    }
    CHECK(gone < STEPS / 2); /* a busy machine may stretch a pause, but not most of them */
    doing("waiting for the memory to go back");
    while (resident_bytes() > busy - work)
        nanosleep(&pause, NULL);
    CHECK_OK(rueda_shutdown());
    free(data);
}

static void memory_stays_between_steps_and_goes_back_after_them(void **state)
{
    (void)state;
    run_ranks(2, train_and_rest, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_stays_between_steps_and_goes_back_after_them),
    };
    return cmocka_run_group_tests_name("rest", tests, NULL, NULL);
}
