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
static binding share(int cores, int sockets, launch_bind how, int ranks, int cpus)
{
    topology_core *list;
    core_count = cores;
    socket_count = sockets;
    binding b = {.threads = 1, .ranks = ranks};
    b.sets = bytes_new((size_t)ranks, sizeof *b.sets);
    topology_cores(NULL, &list);
    fill_sets(&b, how, list, cores, cpus);
    free(list);
    return b;
}

static void equal_shares_cover_all_cores_once(void **state)
{
    (void)state;
    for (int cores = 1; cores <= 20; cores++) {
        for (int ranks = 1; ranks <= cores; ranks++) {
            binding b = share(cores, 1, LAUNCH_BIND_CORE, ranks, 0);
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

static void asked_cores_are_given_side_by_side(void **state)
{
    (void)state;
    binding b = share(8, 1, LAUNCH_BIND_CORE, 2, 3);
    for (int cpu = 0; cpu < 16; cpu++) {
        assert_int_equal(CPU_ISSET(cpu, &b.sets[0]) != 0, cpu < 6);
        assert_int_equal(CPU_ISSET(cpu, &b.sets[1]) != 0, cpu >= 6 && cpu < 12);
    }
    binding_free(&b);
}

static void sockets_are_taken_whole(void **state)
{
    (void)state;
    binding b = share(8, 2, LAUNCH_BIND_SOCKET, 4, 0);
    for (int r = 0; r < 4; r++) {
        for (int cpu = 0; cpu < 16; cpu++)
            assert_int_equal(CPU_ISSET(cpu, &b.sets[r]) != 0, cpu / 8 == r / 2);
    }
    binding_free(&b);
}

static void more_ranks_than_cores_are_not_bound(void **state)
{
    (void)state;
    binding b;
    core_count = 1;
    socket_count = 1;
    assert_null(binding_plan(&b, LAUNCH_BIND_AUTO, 4096, 0));
    assert_int_equal(b.ranks, 0);
    assert_int_equal(b.threads, 1);
    assert_non_null(binding_plan(&b, LAUNCH_BIND_CORE, 4096, 0));
    assert_int_equal(b.ranks, 0);
    assert_null(binding_plan(&b, LAUNCH_BIND_AUTO, 1, 100000));
    assert_int_equal(b.ranks, 0);
    assert_int_equal(b.threads, 100000);
    assert_null(binding_plan(&b, LAUNCH_BIND_NONE, 1, 0));
    assert_int_equal(b.ranks, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_shares_cover_all_cores_once),
        cmocka_unit_test(asked_cores_are_given_side_by_side),
        cmocka_unit_test(sockets_are_taken_whole),
        cmocka_unit_test(more_ranks_than_cores_are_not_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
