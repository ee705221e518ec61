/* binding.c: see binding.h. */
#include "cli/launch/binding.h"

#include "cli/launch/bytes.h"
#include "cli/launch/topology.h"

#include <stdlib.h>
#include <unistd.h>

/* Variables by which a user places threads: they know better. */
static const char *const placing_variables[] = {"OMP_PLACES", "OMP_PROC_BIND", "GOMP_CPU_AFFINITY",
                                                "KMP_AFFINITY"};

/* Whether somebody (taskset, a batch system) has already said where we run. */
static bool placed_already(const cpu_set_t *allowed)
{
    for (size_t i = 0; i < sizeof placing_variables / sizeof placing_variables[0]; i++) {
        if (getenv(placing_variables[i]) != NULL)
            return true;
    }
    return CPU_COUNT(allowed) < sysconf(_SC_NPROCESSORS_ONLN);
}

/* The cores of rank `index`: of equal shares the first ranks get what is left over. */
static void share_of(int cores, int ranks, int index, int *first, int *count)
{
    const int each = cores / ranks, more = cores % ranks;
    *first = index * each + (index < more ? index : more);
    *count = each + (index < more);
}

static void add_socket(cpu_set_t *set, const topology_core *cores, int count, int socket)
{
    for (int i = 0; i < count; i++) {
        if (cores[i].socket == socket)
            CPU_OR(set, set, &cores[i].set);
    }
}

static void fill_sets(binding *b, launch_bind how, const topology_core *cores, int core_count)
{
    for (int rank = 0; rank < b->ranks; rank++) {
        int first, count;
        share_of(core_count, b->ranks, rank, &first, &count);
        for (int i = first; i < first + count; i++) {
            CPU_OR(&b->sets[rank], &b->sets[rank], &cores[i].set);
            if (how == LAUNCH_BIND_SOCKET)
                add_socket(&b->sets[rank], cores, core_count, cores[i].socket);
        }
    }
}

/* The number of the index-th processor, core by core. */
static int processor_at(const topology_core *cores, int index)
{
    for (; index >= CPU_COUNT(&cores->set); cores++)
        index -= CPU_COUNT(&cores->set);
    int cpu = 0;
    while (!CPU_ISSET(cpu, &cores->set) || index-- > 0)
        cpu++;
    return cpu;
}

/* Ranks of a worker that has fewer processors than ranks share them all. */
static void fill_worker_sets(binding *b, const topology_core *cores, int processors,
                             const launch_worker *worker)
{
    const int each = worker->ranks > 0 ? worker->ranks : 1;
    for (int rank = 0; rank < b->ranks; rank++) {
        const int start = rank / each * worker->cpus;
        int first = 0, count = worker->cpus;
        if (worker->cpus >= each)
            share_of(worker->cpus, each, rank % each, &first, &count);
        for (int i = start + first; i < start + first + count; i++)
            CPU_SET(processor_at(cores, i % processors), &b->sets[rank]);
    }
}

static const char *plan_workers(binding *b, launch_bind how, int ranks, const cpu_set_t *allowed,
                                const launch_worker *worker)
{
    const int processors = CPU_COUNT(allowed), each = worker->ranks > 0 ? worker->ranks : 1;
    if (worker->cpus / each > 1)
        b->threads = worker->cpus / each;
    if (how == LAUNCH_BIND_NONE)
        return "workers are not held to their cpus (--bind none)";
    topology_core *cores;
    topology_cores(allowed, &cores);
    b->ranks = ranks;
    b->sets = bytes_new((size_t)ranks, sizeof *b->sets);
    fill_worker_sets(b, cores, processors, worker);
    free(cores);
    return NULL;
}

const char *binding_plan(binding *b, launch_bind how, int ranks, const launch_worker *worker)
{
    cpu_set_t allowed;
    *b = (binding){.threads = 1};
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
        return how > LAUNCH_BIND_NONE || worker->cpus > 0
                   ? "its processors are not known: ranks are not bound"
                   : NULL;
    if (worker->cpus > 0)
        return plan_workers(b, how, ranks, &allowed, worker);
    if (ranks > CPU_COUNT(&allowed)) /* then there are no more cores either */
        return how > LAUNCH_BIND_NONE ? "more ranks than cores: they are not bound" : NULL;
    topology_core *cores;
    const int count = topology_cores(&allowed, &cores);
    if (count / ranks > 1)
        b->threads = count / ranks;
    const char *complaint = NULL;
    if (ranks > count)
        complaint = how > LAUNCH_BIND_NONE ? "more ranks than cores: they are not bound" : NULL;
    else if (how > LAUNCH_BIND_NONE || (how == LAUNCH_BIND_AUTO && !placed_already(&allowed))) {
        b->ranks = ranks;
        b->sets = bytes_new((size_t)ranks, sizeof *b->sets);
        fill_sets(b, how, cores, count);
    }
    free(cores);
    return complaint;
}

void binding_apply(const binding *b, int index)
{
    if (index < b->ranks && sched_setaffinity(0, sizeof b->sets[index], &b->sets[index]) != 0)
        return; /* a processor has gone: the rank runs where it may */
}

void binding_free(binding *b)
{
    free(b->sets);
    *b = (binding){0};
}
