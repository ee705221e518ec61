/* time.c: the real clock, and sleeping (futexes). */
#include "world/world.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static uint64_t read_clock(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static struct timespec timespec_of(uint64_t ns)
{
    return (struct timespec){(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
}

uint64_t world_now_ns(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

uint64_t world_now_coarse_ns(void)
{
    return read_clock(CLOCK_MONOTONIC_COARSE);
}

void world_rest(uint64_t ns)
{
    struct timespec rest = timespec_of(ns);
    while (nanosleep(&rest, &rest) != 0 && errno == EINTR)
        ;
}

void world_sleep_on(_Atomic uint32_t *word, uint32_t seen, uint64_t timeout_ns, bool shared)
{
    const struct timespec timeout = timespec_of(timeout_ns);
    syscall(SYS_futex, word, shared ? FUTEX_WAIT : FUTEX_WAIT_PRIVATE, seen, &timeout, NULL, 0);
}

void world_wake(_Atomic uint32_t *word, bool shared)
{
    syscall(SYS_futex, word, shared ? FUTEX_WAKE : FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

void world_yield(void)
{
    sched_yield();
}
