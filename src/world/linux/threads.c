/* threads.c: real threads, and the processors they run on. */
#include "world/world.h"

#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SHORT_TURN_NS 100000 /* the least the kernel grants */
#define HUMBLE_NICE 19       /* a hundredth of a core that is busy */

bool world_thread_start(world_thread *t, void *(*run)(void *), void *argument)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const bool started = pthread_create(&t->system, NULL, run, argument) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}

void world_thread_join(world_thread *t)
{
    pthread_join(t->system, NULL);
}

/* The kernel's struct sched_attr, first version. */
struct turn_request {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
};

void world_prefer_short_turns(void)
{
    const struct turn_request request = {.size = sizeof request,
                                         .policy = SCHED_OTHER,
                                         .nice = getpriority(PRIO_PROCESS, 0),
                                         .runtime = SHORT_TURN_NS};
    syscall(SYS_sched_setattr, 0, &request, 0);
}

void world_lower_priority(void)
{
    setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), HUMBLE_NICE);
    world_prefer_short_turns(); /* so that those who need the core do not wait long for it */
}

int world_cpu_count(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return (int)sysconf(_SC_NPROCESSORS_ONLN);
    return CPU_COUNT(&set);
}

void world_cpus_allowed(os_cpus *cpus)
{
    cpu_set_t set;
    *cpus = (os_cpus){{0}};
    CPU_ZERO(&set);
    sched_getaffinity(0, sizeof set, &set);
    for (int i = 0; i < OS_CPU_WORDS * 64 && i < CPU_SETSIZE; i++) {
        if (CPU_ISSET(i, &set))
            cpus->words[i / 64] |= UINT64_C(1) << i % 64;
    }
}

int world_cpu_now(void)
{
    return sched_getcpu();
}
