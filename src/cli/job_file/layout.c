/* layout.c: see layout.h. */
#include "cli/job_file/layout.h"

#include <limits.h>

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Workers that one resource is enough for. */
static int64_t enough_for(int64_t has, int64_t want)
{
    return has == JOB_UNKNOWN || want == 0 ? INT_MAX : has / want;
}

bool job_fits_alone(const job_want *want, const job_capacity *host)
{
    return enough_for(host->cpus, want->cpus) >= 1 &&
           enough_for(host->mem_mib, want->mem_mib) >= 1 &&
           enough_for(host->gpus, want->gpus) >= 1 && enough_for(host->slots, want->processes) >= 1;
}

/* Workers that fit without sharing a core or a byte. */
static int64_t room(const job_want *want, const job_capacity *host)
{
    return smaller(
        smaller(enough_for(host->cpus, want->cpus), enough_for(host->mem_mib, want->mem_mib)),
        smaller(enough_for(host->gpus, want->gpus), enough_for(host->slots, want->processes)));
}

/* Workers that may be there at all. */
static int64_t hard_room(const job_want *want, const job_capacity *host)
{
    if (!host->local)
        return room(want, host);
    if (!job_fits_alone(want, host))
        return 0;
    return smaller(enough_for(host->gpus, want->gpus), enough_for(host->slots, want->processes));
}

static int64_t fill(int *workers, int64_t left, int64_t up_to)
{
    const int64_t more = smaller(left, up_to - *workers);
    *workers += (int)more;
    return left - more;
}

static void share_evenly(const job_want *want, const job_capacity *hosts, size_t host_count,
                         int *workers, int64_t left)
{
    int64_t open = 0;
    for (size_t i = 0; i < host_count; i++)
        open += room(want, &hosts[i]) == INT_MAX;
    for (size_t i = 0; i < host_count && open > 0; i++) {
        if (room(want, &hosts[i]) != INT_MAX)
            continue;
        workers[i] = (int)((left + open - 1) / open);
        left -= workers[i];
        open--;
    }
}

job_fit job_layout(const job_want *want, const job_capacity *hosts, size_t host_count, int *workers)
{
    int64_t left = want->workers;
    bool open = false;
    for (size_t i = 0; i < host_count; i++) {
        const int64_t limit = room(want, &hosts[i]);
        workers[i] = 0;
        open |= limit == INT_MAX;
        if (limit != INT_MAX)
            left = fill(&workers[i], left, limit);
    }
    if (open) {
        share_evenly(want, hosts, host_count, workers, left);
        return JOB_FITS;
    }
    if (left == 0)
        return JOB_FITS;
    for (size_t i = 0; i < host_count; i++)
        left = fill(&workers[i], left, hard_room(want, &hosts[i]));
    return left == 0 ? JOB_FITS_TIGHTLY : JOB_FITS_NOT;
}

void job_gpus_of(const job_want *want, int worker, int process, int *first, int *count)
{
    const int gpus = (int)want->gpus, processes = want->processes;
    const int start = process * gpus / processes, end = (process + 1) * gpus / processes;
    *first = worker * gpus + start;
    *count = end > start ? end - start : gpus > 0;
}
