/* many_sets_test.c: as many process sets as there can be; sets that come and go thousands of times; counters
 * that have come far.
 * ctest: timeout=300 */
#include "tensors.h"

#include "api/context.h"

#include <dirent.h>
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#define RANKS_MOST 11    /* so many have more subsets than there can be process sets */
#define REPLACED 20      /* sets that are removed and added once more */
#define CONNECTED_IN 32  /* one set in so many is used where each needs connections */
#define ROUND_TRIPS 600  /* of a set that comes and goes */
#define WARM_UP 100      /* of them, until all lists have their usual length */
#define HEAP_SLACK 65536 /* bytes that the allocator may keep */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define COUNTS_HEAP 0 /* a sanitizer has an allocator of its own */
#else
#define COUNTS_HEAP 1
#endif

static int32_t members_of(int mask, int32_t *members)
{
    int32_t count = 0;
    for (int r = 0; r < RANKS_MOST; r++) {
        if ((mask >> r & 1) != 0)
            members[count++] = r;
    }
    return count;
}

/* Of every subset but the whole, in an order without a pattern: overlapping ones, disjoint ones, single ranks. */
static int add_sets(int size, int most, int32_t *sets, size_t *masks)
{
    const int subsets = (1 << size) - 2;
    dice d = {7};
    int made = 0;
    shuffle(&d, masks, (size_t)subsets);
    for (int i = 0; i < subsets && made < most; i++) {
        int32_t members[RANKS_MOST];
        const int32_t count = members_of((int)masks[i] + 1, members);
        doing("set %d", made);
        CHECK_OK(rueda_process_set_add(members, count, &sets[made]));
        CHECK_EQUAL(rueda_process_set_size(sets[made++]), count);
    }
    return made;
}

static void describe(task *t, int32_t set, int number, size_t count)
{
    *t = (task){.recipe = RECIPE(RUEDA_I32, RUEDA_SUM, (uint64_t)number),
                .count = count,
                .in_place = number % 2 == 0,
                .set = set};
    snprintf(t->name, sizeof t->name, "in set %d", number);
}

/* In all of them at once, each rank in an order of its own. */
static void use_sets(const int32_t *sets, int made, size_t count)
{
    const int stride =
        harness_shares_memory() && getenv("TEST_RANKS_ON_HOST") == NULL ? 1 : CONNECTED_IN;
    task *tasks = calloc((size_t)made, sizeof *tasks);
    size_t *order = malloc((size_t)made * sizeof *order);
    dice own = {(unsigned long long)rueda_rank()};
    int submitted = 0;
    CHECK(tasks != NULL && order != NULL);
    shuffle(&own, order, (size_t)made);
    for (int i = 0; i < made; i++) {
        const int number = (int)order[i];
        if (number % stride != 0 && made > CONNECTED_IN)
            continue;
        if (rueda_process_set_rank(sets[number]) < 0)
            continue;
        describe(&tasks[submitted], sets[number], number, count);
        task_submit(&tasks[submitted++]);
    }
    for (int i = 0; i < submitted; i++) {
        doing("%s", tasks[i].name);
        task_finish(&tasks[i]);
    }
    free(order);
    free(tasks);
}

static uint64_t shared_bytes(void)
{
    struct stat about;
    CHECK(fstat(context_peek(context_of_process())->segment.fd, &about) == 0);
    return (uint64_t)about.st_blocks * 512;
}

/* The limit is the library's, or what there are different sets for. */
static void fill_up(int rank, int size, const void *argument)
{
    (void)rank, (void)argument;
    static int32_t sets[RUEDA_MAX_SETS];
    static size_t masks[1 << RANKS_MOST];
    task global;
    CHECK_OK(rueda_init(NULL));
    const int subsets = (1 << size) - 2;
    const int most = subsets < RUEDA_MAX_SETS - 1 ? subsets : RUEDA_MAX_SETS - 1;
    CHECK_EQUAL(add_sets(size, RUEDA_MAX_SETS - 1, sets, masks), most);
    if (subsets > most) {
        int32_t members[RANKS_MOST], more = -1;
        const int32_t count = members_of((int)masks[most] + 1, members);
        CHECK_STATUS(rueda_process_set_add(members, count, &more), RUEDA_ERR_MEMORY);
        CHECK_SAYS("there are 1024 process sets already");
        CHECK_OK(rueda_process_set_remove(sets[5]));
        CHECK_OK(
            rueda_process_set_add(members, count, &sets[5])); /* at once, though a place rests */
    }
    use_sets(sets, most, 97);
    describe(&global, RUEDA_GLOBAL_SET, 12345, 1000);
    task_run(&global);
    const int again = most < REPLACED ? most : REPLACED;
    for (int i = again - 1; i >= 0; i--) {
        CHECK_OK(rueda_process_set_remove(sets[i]));
        CHECK_EQUAL(rueda_process_set_size(sets[i]), -1);
    }
    CHECK_EQUAL(add_sets(size, again, sets, masks), again);
    use_sets(sets, again, 100000);
    CHECK_OK(rueda_shutdown()); /* with all the others */
}

static void all_sets_of_few_ranks_work_at_once(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 5; ranks++)
        run_ranks(ranks, fill_up, NULL);
}

static void a_thousand_sets_work_at_once(void **state)
{
    (void)state;
    run_ranks(RANKS_MOST, fill_up, NULL);
}

static size_t count_descriptors(void)
{
    size_t count = 0;
    DIR *folder = opendir("/proc/self/fd");
    CHECK(folder != NULL);
    while (readdir(folder) != NULL)
        count++;
    closedir(folder);
    return count;
}

typedef struct holdings {
    size_t descriptors, heap;
    uint64_t shared;
} holdings;

/* When all ranks have let go of what they had: what one has is the other's, too. */
static holdings count_holdings(void)
{
    meet();
    const holdings found = {count_descriptors(), COUNTS_HEAP ? mallinfo2().uordblks : 0,
                            shared_bytes()};
    meet();
    return found;
}

static void come_and_go(int rank, int size, const void *argument)
{
    (void)rank, (void)argument;
    holdings before = {0};
    CHECK_OK(rueda_init(NULL));
    for (int i = 0; i < ROUND_TRIPS; i++) {
        const int32_t members[] = {i % size, (i + 1) % size};
        int32_t set;
        task t;
        doing("round trip %d", i);
        if (i == WARM_UP)
            before = count_holdings();
        CHECK_OK(rueda_process_set_add(members, 2, &set));
        CHECK(set == 1 || set == 2); /* the place of the one before rests, then it is used again */
        describe(&t, set, i, 5);
        if (i % 16 < 2 && rueda_process_set_rank(set) >= 0)
            task_run(&t);
        CHECK_OK(rueda_process_set_remove(set));
    }
    const holdings after = count_holdings();
    CHECK_EQUAL(after.descriptors, before.descriptors);
    CHECK(after.heap <= before.heap + HEAP_SLACK);
    CHECK_EQUAL(after.shared, before.shared);
    CHECK_OK(rueda_shutdown());
}

static void sets_that_come_and_go_leave_nothing(void **state)
{
    (void)state;
    run_ranks(3, come_and_go, NULL);
}

/* What sets have taken to work is given back, but for those that are likely to be needed again. */
static void use_and_remove(int rank, int size, const void *argument)
{
    (void)rank, (void)argument;
    int32_t sets[1 << 5];
    size_t masks[1 << 5];
    CHECK_OK(rueda_init(NULL));
    for (int turn = 0; turn < 3; turn++) {
        holdings idle = {0};
        const int made = add_sets(size, (1 << size) - 2, sets, masks);
        if (turn > 0)
            idle = count_holdings();
        use_sets(sets, made, 200000); /* whole slots */
        for (int i = 0; i < made; i++)
            CHECK_OK(rueda_process_set_remove(sets[i]));
        CHECK_STATUS(rueda_process_set_remove(99),
                     RUEDA_ERR_ARGUMENT); /* ends the last one's rest */
        const holdings after = count_holdings();
        if (turn > 0)
            CHECK(after.shared <= idle.shared);
    }
    CHECK_OK(rueda_shutdown());
}

static void memory_of_removed_sets_is_given_back(void **state)
{
    (void)state;
    if (harness_shares_memory())
        run_ranks(4, use_and_remove, NULL);
}

/* Where all ranks agree, and nobody uses the set. */
static void set_counters(int32_t set, uint64_t operations)
{
    engine *e = context_peek(context_of_process());
    const process_set *s = &e->sets[set];
    for (uint32_t c = 0; c < e->segment.header->channels; c++) {
        segment_flag *flag = segment_flag_at(&e->segment, (uint32_t)e->who.rank, (uint32_t)set, c);
        s->begun[c] = s->done[c] = operations;
        atomic_store(&flag->value, operations << EXEC_TICK_BITS);
    }
}

static void come_far(int rank, int size, const void *argument)
{
    (void)argument;
    static const uint64_t additions[] = {65530, UINT32_MAX - 5, UINT64_MAX - 5};
    const int32_t members[] = {0, size - 1};
    CHECK_OK(rueda_init(NULL));
    for (size_t far = 0; far < sizeof additions / sizeof *additions; far++) {
        meet();
        context_peek(context_of_process())->sets_added = additions[far];
        set_counters(RUEDA_GLOBAL_SET, (UINT64_C(1) << (64 - EXEC_TICK_BITS)) - 10);
        meet();
        for (int i = 0; i < 12; i++) {
            int32_t set;
            task t, global;
            doing("addition %d after %llu", i, (unsigned long long)additions[far]);
            CHECK_OK(rueda_process_set_add(members, 2, &set));
            describe(&t, set, i, 3000);
            describe(&global, RUEDA_GLOBAL_SET, i, 100);
            if (rank == 0 || rank == size - 1)
                task_run(&t);
            task_run(&global);
            CHECK_OK(rueda_process_set_remove(set));
        }
    }
    CHECK_OK(rueda_shutdown());
}

static void counters_may_run_over(void **state)
{
    (void)state;
    run_ranks(3, come_far, NULL);
}

/* More additions than 16 bits count. */
static void add_and_remove(int rank, int size, const void *argument)
{
    (void)rank, (void)size, (void)argument;
    int32_t set;
    CHECK_OK(rueda_init(NULL));
    for (int i = 0; i < 66000; i++) {
        CHECK_OK(rueda_process_set_add((int32_t[]){i % 2}, 1, &set));
        CHECK_OK(rueda_process_set_remove(set));
    }
    task t;
    describe(&t, RUEDA_GLOBAL_SET, 1, 10);
    task_run(&t);
    CHECK_OK(rueda_shutdown());
}

static void sets_may_be_added_many_times(void **state)
{
    (void)state;
    if (getenv("TEST_MANY_ADDITIONS") == NULL)
        skip();
    run_job(&(job){.ranks = 2, .body = add_and_remove, .seconds = 280});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_sets_of_few_ranks_work_at_once),
        cmocka_unit_test(a_thousand_sets_work_at_once),
        cmocka_unit_test(sets_that_come_and_go_leave_nothing),
        cmocka_unit_test(memory_of_removed_sets_is_given_back),
        cmocka_unit_test(counters_may_run_over),
        cmocka_unit_test(sets_may_be_added_many_times),
    };
    return cmocka_run_group_tests_name("many_sets", tests, NULL, NULL);
}
