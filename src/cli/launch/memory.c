/* memory.c: see memory.h. */
#include "cli/launch/memory.h"

#include "cli/launch/bytes.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>

#define MIB (INT64_C(1) << 20)

int64_t memory_here_bytes(void)
{
    struct sysinfo info;
    const int64_t limit = cgroup_own_limit();
    const int64_t there = sysinfo(&info) == 0 ? (int64_t)info.totalram * info.mem_unit : INT64_MAX;
    return limit < there ? limit : there;
}

static void remove_groups(memory_limits *m)
{
    for (int i = 0; m->groups != NULL && i < m->workers; i++)
        cgroup_remove(&m->groups[i]);
    free(m->groups);
    m->groups = NULL;
}

bool memory_plan(memory_limits *m, const launch_worker *worker, int ranks,
                 char note[MEMORY_NOTE_MAX])
{
    const int each = worker->ranks > 0 ? worker->ranks : 1;
    *m = (memory_limits){
        .ranks = each, .workers = (ranks + each - 1) / each, .bytes = worker->memory_bytes};
    if (m->bytes == 0)
        return false;
    m->groups = bytes_new((size_t)m->workers, sizeof *m->groups);
    m->told = bytes_new((size_t)m->workers, sizeof *m->told);
    for (int i = 0; i < m->workers; i++) {
        if (cgroup_make(&m->groups[i], i, m->bytes))
            continue;
        remove_groups(m);
        snprintf(note, MEMORY_NOTE_MAX,
                 "no control group may be made, so not a worker but each process is held to "
                 "%lld MiB of private memory",
                 (long long)(m->bytes / MIB));
        return true;
    }
    return false;
}

void memory_apply(const memory_limits *m, int index)
{
    const rlim_t bytes = (rlim_t)m->bytes;
    if (m->bytes > 0 && (m->groups == NULL || !cgroup_enter(&m->groups[index / m->ranks])))
        setrlimit(RLIMIT_DATA, &(struct rlimit){bytes, bytes});
}

bool memory_explains(memory_limits *m, int index, char note[MEMORY_NOTE_MAX])
{
    const int worker = m->bytes > 0 ? index / m->ranks : 0;
    if (m->groups == NULL || m->told[worker] || !cgroup_was_full(&m->groups[worker]))
        return false;
    m->told[worker] = true;
    snprintf(note, MEMORY_NOTE_MAX, "a process was killed because its worker has used its %lld MiB",
             (long long)(m->bytes / MIB));
    return true;
}

void memory_free(memory_limits *m)
{
    remove_groups(m);
    free(m->told);
    *m = (memory_limits){0};
}
