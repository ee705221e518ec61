/* memory_test.c: memory of rueda_alloc belongs to the process: it outlives jobs, and the next one combines it
 * where it lies, like the one before.
 * ctest: timeout=120 */
#include "api/context.h"
#include "harness.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define BLOCKS 3
#define JOBS 3
#define SMALL 256 /* elements: tensors that go through slots wherever they lie, see plan/select.c */

static const int64_t counts[BLOCKS] = {7, 5000, 400000}; /* elements */

/* Element i of rank r before job j; whole numbers, so that sums are exact in any order. */
static double value_of(int block, int64_t i, int rank, int j)
{
    return (double)((i * 7 + block) % 13 + (rank + 1) * (i % 5 + 1) + 100 * j);
}

static double sum_of(int block, int64_t i, int size, int j)
{
    double sum = 0;
    for (int r = 0; r < size; r++)
        sum += value_of(block, i, r, j);
    return sum;
}

static int count_open(void)
{
    int count = 0;
    DIR *folder = opendir("/proc/self/fd");
    CHECK(folder != NULL);
    while (readdir(folder) != NULL)
        count++;
    closedir(folder);
    return count;
}

static int count_mappings(void)
{
    char line[512];
    int count = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    CHECK(maps != NULL);
    while (fgets(line, sizeof line, maps) != NULL)
        count += strstr(line, "memfd:rueda") != NULL;
    fclose(maps);
    return count;
}

static void set_number(const char *name, int value)
{
    char text[16];
    snprintf(text, sizeof text, "%d", value);
    setenv(name, text, 1);
}

/* Whether a plan of this job has told peers where this memory lies: only plans that reach it do. Peers must find
 * it there: the address counts from the beginning of the heap. */
static bool was_told(const void *memory)
{
    const engine *e = context_peek(context_of_process());
    const uint64_t offset = (uint64_t)((const uint8_t *)memory - e->heap->base);
    for (uint32_t c = 0; c < e->segment.header->channels; c++) {
        const segment_address *told =
            segment_addresses_at(&e->segment, (uint32_t)e->who.rank, 0, c);
        if (told[0].in == offset || told[0].out == offset)
            return true;
    }
    return false;
}

static bool is_one_host(void)
{
    return harness_shares_memory() && rueda_local_size() == rueda_size();
}

static void combine(double *data, int block, int rank, int size, int j)
{
    char name[24];
    snprintf(name, sizeof name, "block %d", block);
    const rueda_tensor t = RUEDA_TENSOR(name, data, RUEDA_F64, 1, &counts[block]);
    for (int64_t i = 0; i < counts[block]; i++)
        data[i] = value_of(block, i, rank, j);
    doing("job %d, %s", j, name);
    CHECK_OK(rueda_allreduce(&t, &RUEDA_OPTIONS(RUEDA_SUM), NULL));
    for (int64_t i = 0; i < counts[block]; i++)
        CHECK(data[i] == sum_of(block, i, size, j));
    if (size > 1 && is_one_host() && counts[block] > SMALL)
        CHECK(was_told(data));
}

/* The ranks change places from job to job. */
static void live_in_several_jobs(int rank, int size, const void *argument)
{
    (void)argument;
    const int open_before = count_open();
    double *blocks[BLOCKS] = {NULL};
    for (int j = 0; j < JOBS; j++) {
        const int me = (rank + j) % size;
        set_number("RUEDA_RANK", me);
        set_number("RUEDA_LOCAL_RANK", me);
        CHECK_OK(rueda_init(NULL));
        CHECK_EQUAL(rueda_rank(), me);
        char *first = j == 0 ? rueda_alloc(1) : NULL; /* no block lies at the beginning */
        for (int b = 0; b < BLOCKS && j == 0; b++)
            blocks[b] = rueda_alloc((size_t)counts[b] * sizeof *blocks[b]);
        for (int b = 0; b < BLOCKS; b++)
            combine(blocks[b], b, me, size, j);
        double *more = rueda_alloc((size_t)counts[1] * sizeof *more);
        combine(more, 1, me, size, j);
        CHECK_OK(rueda_shutdown());
        rueda_free(first);
        rueda_free(more); /* between jobs */
        for (int b = 0; b < BLOCKS; b++) {
            CHECK(blocks[b][counts[b] - 1] == sum_of(b, counts[b] - 1, size, j));
            blocks[b][0] = -1;
        }
        CHECK_EQUAL(count_open(), open_before + 1);
    }
    for (int b = 0; b < BLOCKS; b++)
        rueda_free(blocks[b]);
    CHECK_EQUAL(count_open(), open_before);
    CHECK_EQUAL(count_mappings(), 0); /* neither ours nor those of others */
}

static void memory_outlives_jobs(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 4; ranks++)
        run_ranks(ranks, live_in_several_jobs, NULL);
}

/* With one root: what each rank reaches of the others differs. */
static void use_roots(int rank, int size, const void *argument)
{
    (void)argument;
    enum { COUNT = 1000 };
    const int64_t shape[] = {COUNT};
    double *data = NULL;
    for (int j = 0; j < 2; j++) {
        rueda_options options = RUEDA_OPTIONS(RUEDA_SUM);
        options.root = size - 1;
        CHECK_OK(rueda_init(NULL));
        if (j == 0)
            data = rueda_alloc(COUNT * sizeof *data);
        const rueda_tensor t = RUEDA_TENSOR("rooted", data, RUEDA_F64, 1, shape);
        for (int i = 0; i < COUNT; i++)
            data[i] = value_of(0, i, rank, j);
        CHECK_OK(rueda_reduce(&t, &options, NULL));
        for (int i = 0; i < COUNT; i++)
            CHECK(data[i] == (rank == size - 1 ? sum_of(0, i, size, j) : value_of(0, i, rank, j)));
        CHECK_OK(rueda_broadcast(&t, &options, NULL));
        for (int i = 0; i < COUNT; i++)
            CHECK(data[i] == sum_of(0, i, size, j));
        CHECK_OK(rueda_shutdown());
    }
    rueda_free(data);
}

static void roots_reach_it_as_well(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 4; ranks++)
        run_ranks(ranks, use_roots, NULL);
}

/* A rank whose memory is of an earlier job, when RUEDA_HEAP_MAX was another, beside one whose memory is new. */
static void grow_the_heap(int rank, int size, const void *argument)
{
    (void)argument;
    double *kept = NULL;
    setenv("RUEDA_HEAP_MAX", "8M", 1);
    CHECK_OK(rueda_init(NULL));
    if (rank == 0)
        CHECK((kept = rueda_alloc((size_t)counts[2] * sizeof *kept)) != NULL);
    CHECK_OK(rueda_shutdown());
    setenv("RUEDA_HEAP_MAX", "64M", 1);
    CHECK_OK(rueda_init(NULL));
    CHECK((rueda_alloc(16 << 20) != NULL) == (rank != 0)); /* it is as large as it was made */
    if (rank != 0)
        CHECK((kept = rueda_alloc((size_t)counts[2] * sizeof *kept)) != NULL);
    combine(kept, 2, rank, size, 1);
    CHECK_OK(rueda_shutdown());
    rueda_free(kept);
}

static void heaps_of_different_sizes_meet(void **state)
{
    (void)state;
    run_ranks(2, grow_the_heap, NULL);
    run_ranks(3, grow_the_heap, NULL);
}

/* ---- Forked children -------------------------------------------------------------------------- */

/* The child is a job of its own: what it allocates is not its parent's memory, which it sees. */
static void live_as_child(const uint8_t *inherited)
{
    unsetenv("RUEDA_RANK");
    unsetenv("RUEDA_SIZE");
    unsetenv("RUEDA_LOCAL_RANK");
    unsetenv("RUEDA_LOCAL_SIZE");
    unsetenv("RUEDA_JOB");
    unsetenv("RUEDA_HOST");
    CHECK(inherited[0] == 7 && inherited[99999] == 7);
    CHECK_OK(rueda_init(NULL));
    uint8_t *own = rueda_alloc(100000);
    CHECK(own != NULL && own != inherited);
    memset(own, 9, 100000);
    rueda_free((void *)inherited); /* not this process's: ignored */
    CHECK(inherited[0] == 7 && inherited[99999] == 7);
    CHECK_OK(rueda_shutdown());
    rueda_free(own);
    _exit(EXIT_SUCCESS);
}

static void fork_between_jobs(int rank, int size, const void *argument)
{
    (void)argument;
    CHECK_OK(rueda_init(NULL));
    uint8_t *memory = rueda_alloc(100000);
    memset(memory, 7, 100000);
    CHECK_OK(rueda_shutdown());
    const pid_t child = fork();
    if (child == 0)
        live_as_child(memory);
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    for (int i = 0; i < 100000; i++)
        CHECK(memory[i] == 7);
    CHECK_OK(rueda_init(NULL));
    double *data = rueda_alloc((size_t)counts[1] * sizeof *data);
    combine(data, 1, rank, size, 1);
    CHECK_OK(rueda_shutdown());
    rueda_free(data);
    rueda_free(memory);
}

static void a_child_between_jobs_has_its_own(void **state)
{
    (void)state;
    run_ranks(1, fork_between_jobs, NULL);
    run_ranks(2, fork_between_jobs, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_outlives_jobs),
        cmocka_unit_test(roots_reach_it_as_well),
        cmocka_unit_test(heaps_of_different_sizes_meet),
        cmocka_unit_test(a_child_between_jobs_has_its_own),
    };
    return cmocka_run_group_tests_name("memory", tests, NULL, NULL);
}
