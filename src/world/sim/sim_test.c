/* sim_test.c: the simulated world: its order, its processes, words, locks and memory; sim_sockets_test.c has the rest.
 * ctest: timeout=60 */
#include "world/sim/sim_testing.h"

#include "base/os.h"

#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* ---- Words -------------------------------------------------------------------------------------------- */

typedef struct shared_word {
    int fd;
    uint64_t woken_after_ns;
} shared_word;

static _Atomic uint32_t *map_word(int fd)
{
    void *base;
    assert_int_equal(os_shared_map(fd, OS_PAGE, &base), RUEDA_OK);
    return (_Atomic uint32_t *)base + 7;
}

static void sleep_on_it(void *argument)
{
    shared_word *w = argument;
    _Atomic uint32_t *word = map_word(w->fd);
    const uint64_t start = world_now_ns();
    while (*word == 0)
        world_sleep_on(word, 0, 10 * SECOND, true);
    w->woken_after_ns = world_now_ns() - start;
}

static void wake_it(void *argument)
{
    const shared_word *w = argument;
    _Atomic uint32_t *word = map_word(w->fd);
    world_rest(5 * MILLISECOND);
    *word = 1;
    world_wake(word, true);
}

static void a_word_is_found_through_two_mappings(void **state)
{
    (void)state;
    shared_word w = {0};
    assert_int_equal(os_shared_create(OS_PAGE, &w.fd), RUEDA_OK);
    sim *s = calm_world(1);
    sim_process_start(s, 0, sleep_on_it, &w);
    sim_process_start(s, 0, wake_it, &w);
    run_to_end(s);
    assert_true(w.woken_after_ns > 4 * MILLISECOND && w.woken_after_ns < 10 * MILLISECOND);
    assert_int_equal(sim_leaks_of(s, 0).mappings, 1);
    sim_close(s);
    close(w.fd);
}

static void sleep_too_long(void *argument)
{
    _Atomic uint32_t word = 3;
    const uint64_t start = world_now_ns();
    world_sleep_on(&word, 3, 20 * MILLISECOND, false);
    *(uint64_t *)argument = world_now_ns() - start;
    world_sleep_on(&word, 4, SECOND, false); /* it is another value: no sleep */
    assert_true(world_now_ns() - start < 30 * MILLISECOND);
}

static void a_sleep_ends_by_its_time(void **state)
{
    (void)state;
    uint64_t slept = 0;
    sim *s = calm_world(2);
    sim_process_start(s, 0, sleep_too_long, &slept);
    run_to_end(s);
    assert_true(slept >= 20 * MILLISECOND && slept < 21 * MILLISECOND);
    sim_close(s);
}

/* ---- The same again --------------------------------------------------------------------------------------- */

static void work(void *argument)
{
    uint64_t *sum = argument, drawn;
    for (int i = 0; i < 200; i++) {
        world_random(&drawn, sizeof drawn);
        *sum = *sum * 31 + drawn % 1000 + world_now_ns();
        world_point();
        if (drawn % 7 == 0)
            world_rest(drawn % MILLISECOND);
        else
            world_pause();
    }
}

static uint64_t trace_of(uint64_t seed, uint64_t *sum)
{
    sim *s = sim_open(seed);
    *sum = 0;
    for (int i = 0; i < 4; i++)
        sim_process_start(s, i / 2, work, sum);
    run_to_end(s);
    const uint64_t trace = sim_statistics_of(s).trace;
    sim_close(s);
    return trace;
}

static void a_seed_gives_the_same_run_again(void **state)
{
    (void)state;
    uint64_t first, again, other;
    const uint64_t trace = trace_of(42, &first);
    assert_true(trace == trace_of(42, &again) && first == again);
    assert_true(trace != trace_of(43, &other) && first != other);
}

static void pieces_of_a_run_make_the_whole(void **state)
{
    (void)state;
    uint64_t whole, sum = 0;
    const uint64_t trace = trace_of(7, &whole);
    sim *s = sim_open(7);
    for (int i = 0; i < 4; i++)
        sim_process_start(s, i / 2, work, &sum);
    while (sim_run(s, sim_now(s) + 50000) == SIM_TIME_IS_UP)
        ;
    assert_true(sum == whole && sim_statistics_of(s).trace == trace);
    sim_close(s);
}

/* ---- Killing and stopping ---------------------------------------------------------------------------------- */

typedef struct copying {
    uint8_t from[64], to[64];
    int points;
    bool stops, done;
} copying;

static void copy_it(void *argument)
{
    copying *c = argument;
    world_copy(c->to, c->from, sizeof c->from);
    c->done = true;
}

static bool strike_second(void *context, int process)
{
    copying *c = context;
    if (++c->points == 2 && c->stops)
        sim_stop(sim_current(), process);
    else if (c->points == 2)
        sim_kill(sim_current(), process);
    return false;
}

static size_t count_copied(const copying *c)
{
    size_t count = 0;
    for (size_t i = 0; i < sizeof c->to; i++)
        count += c->to[i] == 1;
    return count;
}

static void a_kill_leaves_a_part_of_a_copy(void **state)
{
    (void)state;
    size_t parts = 0;
    for (uint64_t seed = 0; seed < 20; seed++) {
        copying c = {.stops = false};
        memset(c.from, 1, sizeof c.from);
        sim *s = calm_world(seed);
        sim_settings_of(s)->torn_chance = SIM_CHANCE;
        sim_set_point_hook(s, strike_second, &c);
        const int p = sim_process_start(s, 0, copy_it, &c);
        run_to_end(s);
        assert_int_equal(sim_process_life(s, p), SIM_KILLED);
        assert_false(c.done);
        parts += count_copied(&c) > 0 && count_copied(&c) < sizeof c.to;
        sim_close(s);
    }
    assert_true(parts > 10);
}

static void continue_first(void *argument)
{
    sim_continue(argument, 0);
}

static void a_stopped_process_finishes_its_copy_later(void **state)
{
    (void)state;
    copying c = {.stops = true};
    memset(c.from, 1, sizeof c.from);
    sim *s = calm_world(3);
    sim_settings_of(s)->torn_chance = SIM_CHANCE;
    sim_set_point_hook(s, strike_second, &c);
    sim_process_start(s, 0, copy_it, &c);
    assert_int_equal(sim_run(s, SECOND), SIM_NOTHING_LEFT);
    assert_int_equal(sim_process_life(s, 0), SIM_STOPPED);
    assert_false(c.done);
    sim_at(s, 5 * SECOND, continue_first, s);
    run_to_end(s);
    assert_true(c.done && count_copied(&c) == sizeof c.to && sim_now(s) >= 5 * SECOND);
    sim_close(s);
}

static void die_soon(void *argument)
{
    (void)argument;
    free(malloc(10));
    assert_non_null(malloc(100));
    world_rest(MILLISECOND);
    world_die();
}

static void watch_death(void *argument)
{
    const int fd = world_process_open(*(int *)argument);
    struct pollfd p = {fd, POLLIN, 0};
    assert_true(fd >= 0);
    assert_false(world_process_dead(fd));
    assert_int_equal(world_poll(&p, 1, 1000), 1);
    assert_true(world_process_dead(fd));
    assert_int_equal(world_process_open(*(int *)argument), WORLD_PROCESS_GONE);
    world_close(fd);
}

static void a_death_is_seen_by_others(void **state)
{
    (void)state;
    int process = 1000;
    sim *s = calm_world(4);
    sim_process_start(s, 0, die_soon, NULL);
    sim_process_start(s, 0, watch_death, &process);
    run_to_end(s);
    assert_int_equal(sim_process_life(s, 0), SIM_KILLED);
    assert_int_equal(sim_process_life(s, 1), SIM_ENDED);
    assert_int_equal(sim_leaks_of(s, 0).block_bytes, 100);
    sim_close(s);
}

/* ---- Threads and locks --------------------------------------------------------------------------------------- */

static void *add_slowly(void *argument)
{
    for (int i = 0; i < 10; i++) {
        world_rest(1000);
        ++*(int *)argument;
    }
    errno = ENOENT;
    status_fail(RUEDA_ERR_SYSTEM, "of the thread");
    return NULL;
}

static void start_threads(void *argument)
{
    world_thread threads[2];
    errno = ESRCH;
    for (int i = 0; i < 2; i++)
        assert_true(world_thread_start(&threads[i], add_slowly, argument));
    for (int i = 0; i < 2; i++)
        world_thread_join(&threads[i]);
    assert_int_equal(errno, ESRCH);
    assert_int_equal(*(int *)argument, 20);
}

static void threads_run_and_are_joined(void **state)
{
    (void)state;
    int count = 0;
    sim *s = calm_world(5);
    sim_process_start(s, 0, start_threads, &count);
    run_to_end(s);
    assert_int_equal(count, 20);
    assert_int_equal(sim_leaks_of(s, 0).threads, 0);
    sim_close(s);
}

static void rest_with_lock(void *argument)
{
    static world_lock lock = WORLD_LOCK_NEW;
    (void)argument;
    world_lock_init(&lock);
    world_lock_take(&lock);
    world_now_ns();
    world_lock_release(&lock);
    world_lock_take(&lock);
    world_rest(1);
    fail();
}

static void keep_text(void *context, const char *text)
{
    snprintf(context, 256, "%s", text);
}

static void waiting_with_a_lock_is_a_failure(void **state)
{
    (void)state;
    char text[256] = "";
    sim *s = calm_world(6);
    sim_set_failure(s, keep_text, text);
    sim_process_start(s, 0, rest_with_lock, NULL);
    assert_int_equal(sim_run(s, SECOND), SIM_HALTED);
    assert_true(sim_has_failed(s));
    assert_non_null(strstr(text, "seed 6, "));
    assert_non_null(strstr(text, "process 0: "));
    assert_non_null(strstr(text, "holds 1 locks"));
    sim_close(s);
}

static void sleep_for_ever(void *argument)
{
    _Atomic uint32_t word = 0;
    (void)argument;
    world_sleep_on(&word, 0, UINT64_MAX, false);
}

static void what_waits_for_ever_is_told(void **state)
{
    (void)state;
    char text[256];
    sim *s = calm_world(6);
    sim_process_start(s, 0, sleep_for_ever, NULL);
    assert_int_equal(sim_run(s, SECOND), SIM_NOTHING_LEFT);
    sim_describe(s, text, sizeof text);
    assert_string_equal(text, "process 0, thread 0: sleeps on a word without limit\n");
    sim_close(s);
}

/* ---- Memory -------------------------------------------------------------------------------------------------- */

static void leak(void *argument)
{
    (void)argument;
    char *text = strdup("hello"), *grown = realloc(malloc(8), 1000);
    void *aligned = aligned_alloc(64, 128), *page;
    int fd;
    assert_true(text != NULL && grown != NULL && aligned != NULL && (uintptr_t)aligned % 64 == 0);
    assert_int_equal(os_shared_create(OS_PAGE, &fd), RUEDA_OK);
    assert_int_equal(os_shared_map(fd, 4 * OS_PAGE, &page), RUEDA_OK);
    os_unmap((char *)page + OS_PAGE, OS_PAGE);
    world_bell_make();
    free(text);
}

static void leaks_are_counted(void **state)
{
    (void)state;
    sim *s = calm_world(7);
    const int p = sim_process_start(s, 0, leak, NULL);
    run_to_end(s);
    const sim_leaks l = sim_leaks_of(s, p);
    assert_int_equal(l.blocks, 2);
    assert_int_equal(l.block_bytes, 1128);
    assert_int_equal(l.mappings, 2);
    assert_int_equal(l.mapping_bytes, 3 * OS_PAGE);
    assert_int_equal(l.descriptors, 2);
    assert_int_equal(l.threads, 0);
    sim_close(s);
}

static void ask_for_much(void *argument)
{
    unsigned *given = argument;
    world_thread thread;
    void *block = malloc(1);
    const int bell = world_bell_make();
    *given |= block != NULL ? 1 : 0;
    *given |= bell >= 0 ? 2 : 0;
    if (world_thread_start(&thread, add_slowly, &(int){0})) {
        *given |= 4;
        world_thread_join(&thread);
    }
    free(block);
    if (bell >= 0)
        world_close(bell);
}

static void the_nth_wish_is_refused(void **state)
{
    (void)state;
    for (uint64_t n = 0; n <= 3; n++) {
        for (int onwards = 0; onwards < 2; onwards++) {
            unsigned given = 0;
            sim *s = calm_world(8);
            const int p = sim_process_start(s, 0, ask_for_much, &given);
            sim_fail_nth(s, p, n, onwards != 0);
            run_to_end(s);
            const unsigned refused = n == 0 ? 0 : onwards ? 7u << (n - 1) & 7u : 1u << (n - 1);
            assert_int_equal(given, 7u & ~refused);
            assert_int_equal(sim_asked(s, p), 3);
            assert_int_equal(sim_refusals_of(s, p).count, n == 0 ? 0 : onwards ? 4 - n : 1);
            assert_int_equal(sim_leaks_of(s, p).blocks + sim_leaks_of(s, p).descriptors, 0);
            sim_close(s);
        }
    }
}

/* ---- Speed --------------------------------------------------------------------------------------------------- */

static void pause_often(void *argument)
{
    (void)argument;
    for (int i = 0; i < 100000; i++)
        world_pause();
}

/* Tells it, and asserts nothing. */
static void switches_are_fast(void **state)
{
    (void)state;
    struct timespec start, end;
    sim *s = calm_world(9);
    for (int i = 0; i < 16; i++)
        sim_process_start(s, i / 4, pause_often, NULL);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &start);
    run_to_end(s);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
    const double seconds =
        (double)(end.tv_sec - start.tv_sec) + (double)(end.tv_nsec - start.tv_nsec) / 1e9;
    const sim_statistics t = sim_statistics_of(s);
    print_message("%.0f ns for an event; %llu events, %llu switches\n",
                  seconds * 1e9 / (double)t.events, (unsigned long long)t.events,
                  (unsigned long long)t.switches);
    sim_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_word_is_found_through_two_mappings),
        cmocka_unit_test(a_sleep_ends_by_its_time),
        cmocka_unit_test(a_seed_gives_the_same_run_again),
        cmocka_unit_test(pieces_of_a_run_make_the_whole),
        cmocka_unit_test(a_kill_leaves_a_part_of_a_copy),
        cmocka_unit_test(a_stopped_process_finishes_its_copy_later),
        cmocka_unit_test(a_death_is_seen_by_others),
        cmocka_unit_test(threads_run_and_are_joined),
        cmocka_unit_test(waiting_with_a_lock_is_a_failure),
        cmocka_unit_test(what_waits_for_ever_is_told),
        cmocka_unit_test(leaks_are_counted),
        cmocka_unit_test(the_nth_wish_is_refused),
        cmocka_unit_test(switches_are_fast),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
