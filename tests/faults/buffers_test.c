/* buffers_test.c: memory belongs to the caller again when its request has ended, also when the job broke
 * while a peer was about to write to that memory.
 *
 * Ranks 0 and 1 combine where their memory lies, in a process set of their own. Before it writes to rank
 * 0, rank 1 is held up; meanwhile rank 2 dies, and the request of rank 0 ends.
 * ctest: not_asan waits timeout=120 */
#include "survivors.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define SKIPPED 77
#define PATTERN 0x5c
#define LOOKS 50
#define BETWEEN_LOOKS_MS 30
#define DIES_AFTER_MS 150

typedef struct hold_up {
    size_t bytes;
    size_t offset; /* of the tensor in its block */
} hold_up;

enum { PROCESS_OF_RANK_1, SURVIVORS };

/* Ranks 0 and 1; rank 2 is dead. */
static void meet_survivors(void)
{
    atomic_fetch_add(job_counter(SURVIVORS), 1);
    while (atomic_load(job_counter(SURVIVORS)) < 2)
        sleep_ms(1);
}

static void check_stays(const uint8_t *memory, size_t bytes, uint8_t pattern)
{
    for (int look = 0; look < LOOKS; look++) {
        doing("look %d", look);
        for (size_t i = 0; i < bytes; i++) {
            if (memory[i] != pattern)
                rank_fail(__FILE__, __LINE__, "byte %zu was written after the request ended", i);
        }
        sleep_ms(BETWEEN_LOOKS_MS);
    }
}

/* Rank 1 may find its operation complete before it hears of the end: then it is. */
static void check_sum(const float *data, int64_t count)
{
    float one;
    memset(&one, 1, sizeof one);
    for (int64_t i = 0; i < count; i++)
        CHECK(data[i] == one + one);
}

/* The next job, of those who are left, with the same memory: also what was put out of the reach of peers. */
static void combine_again(int rank, float *data, int64_t count)
{
    const rueda_tensor t = RUEDA_TENSOR("in the next job", data, RUEDA_F32, 1, &count);
    CHECK_OK(rueda_shutdown());
    meet_survivors();
    unsetenv("RUEDA_FAULT");
    setenv("RUEDA_SIZE", "2", 1);
    setenv("RUEDA_LOCAL_SIZE", "2", 1);
    CHECK_OK(rueda_init(NULL));
    for (int repeat = 0; repeat < 3; repeat++) {
        doing("the next job, %d", repeat);
        for (int64_t i = 0; i < count; i++)
            data[i] = (float)(i % 100 + rank + repeat);
        CHECK_OK(rueda_allreduce(&t, &RUEDA_OPTIONS(RUEDA_SUM), NULL));
        for (int64_t i = 0; i < count; i++)
            CHECK(data[i] == (float)(2 * (i % 100) + 1 + 2 * repeat));
    }
}

static void combine(int rank, const hold_up *h, int32_t set)
{
    const size_t block_bytes = h->bytes + 2 * h->offset;
    uint8_t *block = rueda_alloc(block_bytes), *data = block + h->offset;
    const int64_t count = (int64_t)(h->bytes / sizeof(float));
    const rueda_tensor t = RUEDA_TENSOR("where it lies", data, RUEDA_F32, 1, &count);
    rueda_options options = RUEDA_OPTIONS(RUEDA_SUM);
    options.process_set = set;
    rueda_request *request;
    CHECK(block != NULL);
    memset(block, 1, block_bytes);
    meet();
    CHECK_OK(rueda_allreduce(&t, &options, &request));
    doing("wait for the end");
    const rueda_status status = rueda_wait(request, -1);
    if (rank == 1 && status == RUEDA_OK) {
        check_sum((const float *)data, count);
    } else {
        CHECK_STATUS(status, RUEDA_ERR_PEER);
        CHECK_SAYS("rank 2 is lost");
        memset(data, PATTERN, h->bytes);
        if (rank == 0)
            kill(atomic_load(job_counter(PROCESS_OF_RANK_1)), SIGCONT);
        check_stays(data, h->bytes, PATTERN);
    }
    for (size_t i = 0; i < h->offset; i++)
        CHECK(block[i] == 1 && data[h->bytes + i] == 1); /* neighbours were not touched */
    rueda_request_free(request);
    combine_again(rank, (float *)(void *)data, count);
    rueda_free(block);
}

static void live(int rank, int size, const void *argument)
{
    (void)size;
    static const int32_t pair[] = {0, 1};
    int32_t set;
    if (rank == 1)
        atomic_store(job_counter(PROCESS_OF_RANK_1), (int)getpid());
    CHECK_OK(rueda_init(NULL));
    CHECK_OK(rueda_process_set_add(pair, 2, &set));
    CHECK_EQUAL(set, 1);
    if (rank == 2) {
        meet();
        sleep_ms(DIES_AFTER_MS);
        raise(SIGKILL);
    }
    combine(rank, argument, set);
    CHECK_OK(rueda_shutdown());
}

static void try_hold_up(const char *fault, size_t bytes, size_t offset)
{
    const hold_up h = {bytes, offset};
    const char *const environment[] = {fault, NULL};
    run_job(&(job){
        .ranks = 3, .body = live, .argument = &h, .environment = environment, .killed = 1u << 2});
}

#define AT_PUT                                                                                     \
    ":rank=1:set=1:step=7" /* `rueda plan allreduce -n 2 --memory shared`: the first PUT */

static void try_all_sizes(const char *fault)
{
    try_hold_up(fault, 100000, 0);
    try_hold_up(fault, 4000000, 0);
    try_hold_up(fault, 4000000, 100 * sizeof(float));
}

static void a_slow_peer_is_waited_for(void **state)
{
    (void)state;
    try_all_sizes("RUEDA_FAULT=delay" AT_PUT ":ms=500");
}

/* Its request ends before the peer goes on: the memory was put out of its reach. */
static void a_very_slow_peer_writes_elsewhere(void **state)
{
    (void)state;
    try_all_sizes("RUEDA_FAULT=delay" AT_PUT ":ms=1900");
}

static void a_stopped_peer_writes_elsewhere(void **state)
{
    (void)state;
    try_all_sizes("RUEDA_FAULT=stop" AT_PUT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slow_peer_is_waited_for),
        cmocka_unit_test(a_very_slow_peer_writes_elsewhere),
        cmocka_unit_test(a_stopped_peer_writes_elsewhere),
    };
    if (getenv("RUEDA_TRANSPORT") != NULL) {
        print_message("SKIPPED: by tcp nobody writes to the memory of another rank\n");
        return SKIPPED;
    }
    return cmocka_run_group_tests_name("buffers", tests, NULL, look_for_rest);
}
