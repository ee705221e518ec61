/* binding_test.c: shares of cores on machines that the test makes up. */
#include "cli/launch/binding.c" // NOLINT
#include "cli/launch/bytes.c"   // NOLINT

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

/* The machine: so many cores on so many sockets, two processors each where that fits what this
 * process really may use. */
static int core_count, socket_count;

int topology_cores(const cpu_set_t *allowed, topology_core **cores)
{
    (void)allowed;
    *cores = bytes_new((size_t)core_count, sizeof **cores);
    for (int i = 0; i < core_count; i++) {
        CPU_SET(2 * i, &(*cores)[i].set);
        CPU_SET(2 * i + 1, &(*cores)[i].set);
        (*cores)[i].socket = i * socket_count / core_count;
    }
    return core_count;
}

/* The shares of all ranks, without asking what this process may use. */
static binding share(int cores, int sockets, launch_bind how, int ranks)
{
    topology_core *list;
    core_count = cores;
    socket_count = sockets;
    binding b = {.threads = 1, .ranks = ranks};
    b.sets = bytes_new((size_t)ranks, sizeof *b.sets);
    topology_cores(NULL, &list);
    fill_sets(&b, how, list, cores);
    free(list);
    return b;
}

/* The same for workers, on cores of two processors. */
static binding share_workers(int cores, int ranks, launch_worker worker)
{
    topology_core *list;
    core_count = cores;
    binding b = {.threads = 1, .ranks = ranks};
    b.sets = bytes_new((size_t)ranks, sizeof *b.sets);
    topology_cores(NULL, &list);
    fill_worker_sets(&b, list, 2 * cores, &worker);
    free(list);
    return b;
}

static void assert_set(const cpu_set_t *set, int first, int count)
{
    assert_int_equal(CPU_COUNT(set), count);
    for (int cpu = first; cpu < first + count; cpu++)
        assert_true(CPU_ISSET(cpu, set));
}

static void equal_shares_cover_all_cores_once(void **state)
{
    (void)state;
    for (int cores = 1; cores <= 20; cores++) {
        for (int ranks = 1; ranks <= cores; ranks++) {
            binding b = share(cores, 1, LAUNCH_BIND_CORE, ranks);
            cpu_set_t all, both;
            int least = INT32_MAX, most = 0;
            CPU_ZERO(&all);
            for (int r = 0; r < ranks; r++) {
                const int count = CPU_COUNT(&b.sets[r]);
                least = count < least ? count : least;
                most = count > most ? count : most;
                CPU_AND(&both, &all, &b.sets[r]);
                assert_int_equal(CPU_COUNT(&both), 0);
                CPU_OR(&all, &all, &b.sets[r]);
            }
            assert_int_equal(CPU_COUNT(&all), 2 * cores);
            assert_true(most - least <= 2); /* one core, two processors */
            binding_free(&b);
        }
    }
}

static void workers_get_their_processors_side_by_side(void **state)
{
    (void)state;
    binding b = share_workers(8, 4, (launch_worker){.ranks = 2, .cpus = 5});
    assert_set(&b.sets[0], 0, 3);
    assert_set(&b.sets[1], 3, 2);
    assert_set(&b.sets[2], 5, 3);
    assert_set(&b.sets[3], 8, 2);
    binding_free(&b);
}

static void ranks_share_the_processors_of_a_small_worker(void **state)
{
    (void)state;
    binding b = share_workers(2, 6, (launch_worker){.ranks = 3, .cpus = 2});
    for (int r = 0; r < 6; r++)
        assert_set(&b.sets[r], r / 3 * 2, 2);
    binding_free(&b);
}

static void workers_overlap_where_there_are_too_many(void **state)
{
    (void)state;
    binding b = share_workers(2, 3, (launch_worker){.cpus = 3});
    assert_set(&b.sets[0], 0, 3);
    assert_int_equal(CPU_COUNT(&b.sets[1]), 3); /* 3, 0, 1 */
    assert_true(CPU_ISSET(3, &b.sets[1]) && CPU_ISSET(1, &b.sets[1]));
    assert_int_equal(CPU_COUNT(&b.sets[2]), 3); /* 2, 3, 0 */
    assert_false(CPU_ISSET(1, &b.sets[2]));
    binding_free(&b);
}

static void sockets_are_taken_whole(void **state)
{
    (void)state;
    binding b = share(8, 2, LAUNCH_BIND_SOCKET, 4);
    for (int r = 0; r < 4; r++) {
        for (int cpu = 0; cpu < 16; cpu++)
            assert_int_equal(CPU_ISSET(cpu, &b.sets[r]) != 0, cpu / 8 == r / 2);
    }
    binding_free(&b);
}

static void more_ranks_than_cores_are_not_bound(void **state)
{
    (void)state;
    const launch_worker any = {0};
    binding b;
    core_count = 1;
    socket_count = 1;
    assert_null(binding_plan(&b, LAUNCH_BIND_AUTO, 4096, &any));
    assert_int_equal(b.ranks, 0);
    assert_int_equal(b.threads, 1);
    assert_non_null(binding_plan(&b, LAUNCH_BIND_CORE, 4096, &any));
    assert_int_equal(b.ranks, 0);
    assert_null(binding_plan(&b, LAUNCH_BIND_NONE, 1, &any));
    assert_int_equal(b.ranks, 0);
}

static void unbound_workers_still_have_their_threads(void **state)
{
    (void)state;
    binding b;
    assert_non_null(binding_plan(&b, LAUNCH_BIND_NONE, 4, &(launch_worker){.ranks = 2, .cpus = 7}));
    assert_int_equal(b.ranks, 0);
    assert_int_equal(b.threads, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_shares_cover_all_cores_once),
        cmocka_unit_test(workers_get_their_processors_side_by_side),
        cmocka_unit_test(ranks_share_the_processors_of_a_small_worker),
        cmocka_unit_test(workers_overlap_where_there_are_too_many),
        cmocka_unit_test(sockets_are_taken_whole),
        cmocka_unit_test(more_ranks_than_cores_are_not_bound),
        cmocka_unit_test(unbound_workers_still_have_their_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
