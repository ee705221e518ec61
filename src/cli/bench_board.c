/* bench_board.c: see bench_board.h. */
#include "cli/bench_board.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define TRIPS 301        /* round trips of one measurement */
#define TRIP_WARM 20     /* of them not counted */
#define SPINS_MAX 1024   /* then the other one may need our core */
#define NAP_NS 100000000 /* a lost wake-up costs this much at most */
#define NS_PER_S 1e9
#define NS_PER_US 1e3

/* The processors that we may use; a peer's launcher may hand its processes fewer. */
static void note_cpus(board *b)
{
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
        return;
    for (int cpu = 0, used = 0; cpu < CPU_SETSIZE && used < BOARD_CPUS; cpu++) {
        if (CPU_ISSET(cpu, &allowed))
            b->cpus[used++] = cpu;
    }
}

board *board_create(int size, bool bind, int *fd)
{
    void *base;
    if (os_shared_create(sizeof(board), fd) != RUEDA_OK)
        return NULL;
    if (os_shared_map(*fd, sizeof(board), &base) != RUEDA_OK)
        return NULL;
    fcntl(*fd, F_SETFD, 0);
    board *b = base;
    b->bytes = sizeof *b;
    b->size = size;
    b->bind = bind;
    note_cpus(b);
    return b;
}

board *board_map(int fd)
{
    void *base;
    if (os_shared_map(fd, sizeof(board), &base) != RUEDA_OK)
        return NULL;
    board *b = base;
    return b->bytes == sizeof *b ? b : NULL;
}

void board_bind(const board *b, int rank)
{
    cpu_set_t one;
    if (!b->bind || rank >= BOARD_CPUS)
        return;
    CPU_ZERO(&one);
    CPU_SET(b->cpus[rank], &one);
    sched_setaffinity(0, sizeof one, &one);
}

/* Sleeps until *word is at least `target` (they only grow). False: the deadline has passed. */
static bool sleep_until(_Atomic uint32_t *word, uint32_t target, uint64_t deadline_ns)
{
    for (;;) {
        const uint32_t seen = atomic_load(word);
        if ((int32_t)(seen - target) >= 0)
            return true;
        if (world_now_ns() > deadline_ns)
            return false;
        world_sleep_on(word, seen, NAP_NS, true);
    }
}

void board_give(board *b, board_team team, const board_order *order)
{
    b->what = *order;
    b->teams[team].wrong = 0;
    atomic_fetch_add(&b->teams[team].order, 1);
    world_wake(&b->teams[team].order, true);
}

bool board_collect(board *b, board_team team, double timeout_s)
{
    board_state *t = &b->teams[team];
    const uint32_t all = atomic_load(&t->order) * (uint32_t)b->size;
    return sleep_until(&t->answers, all, world_now_ns() + (uint64_t)(timeout_s * NS_PER_S));
}

board_order board_take(board *b, board_team team, uint32_t *seen)
{
    sleep_until(&b->teams[team].order, ++*seen, UINT64_MAX);
    return b->what;
}

void board_answer(board *b, board_team team)
{
    atomic_fetch_add(&b->teams[team].answers, 1);
    world_wake(&b->teams[team].answers, true);
}

void board_fail(board *b, board_team team, const char *reason)
{
    board_state *t = &b->teams[team];
    if (atomic_fetch_add(&t->failed, 1) == 0)
        snprintf(t->error, sizeof t->error, "%s", reason);
}

/* ---- Round trips ----------------------------------------------------------------------------- */

static void spin_until(_Atomic uint32_t *word, uint32_t target)
{
    for (int spins = 1; (int32_t)(atomic_load_explicit(word, memory_order_acquire) - target) < 0;
         spins++) {
        if (spins % SPINS_MAX == 0)
            world_yield();
        else
            world_pause();
    }
}

static int compare_ns(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static double serve(_Atomic uint32_t *line, uint32_t start)
{
    static uint64_t ns[TRIPS];
    for (uint32_t i = 0; i < TRIPS; i++) {
        const uint64_t begin = world_now_ns();
        atomic_store_explicit(line, start + 2 * i + 1, memory_order_release);
        spin_until(line, start + 2 * i + 2);
        ns[i] = world_now_ns() - begin;
    }
    qsort(ns + TRIP_WARM, TRIPS - TRIP_WARM, sizeof ns[0], compare_ns);
    const size_t middle = (TRIPS + TRIP_WARM) / 2;
    return (double)ns[middle] / NS_PER_US;
}

static void return_serve(_Atomic uint32_t *line, uint32_t start)
{
    for (uint32_t i = 0; i < TRIPS; i++) {
        spin_until(line, start + 2 * i + 1);
        atomic_store_explicit(line, start + 2 * i + 2, memory_order_release);
    }
}

void board_trip(board *b, board_team team, int rank)
{
    board_state *t = &b->teams[team];
    if (b->size == 1)
        return;
    const uint32_t game = atomic_load(&t->order), start = (game - 1) * 2 * TRIPS;
    if (rank == 0) {
        t->trip_us = serve(&t->trip, start);
        atomic_store(&t->gone, game);
        world_wake(&t->gone, true);
    } else if (rank == 1) {
        return_serve(&t->trip, start);
    } else {
        sleep_until(&t->gone, game, UINT64_MAX);
    }
}

void board_meet(board *b, board_team team, uint32_t *round)
{
    board_state *t = &b->teams[team];
    atomic_fetch_add(&t->arrived, 1);
    spin_until(&t->arrived, ++*round * (uint32_t)b->size);
}
