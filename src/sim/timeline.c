/* timeline.c: what happened in a trial, for ui.perfetto.dev: a process for each rank, with a row for what befalls it and
 * a row for each of its tasks in a batch. Written by the harness, so that the ranks do not live otherwise for it. */
#include "sim/job.h"

#define US 1e3 /* nanoseconds */

void timeline_begin(const job *j)
{
    if (j->timeline == NULL)
        return;
    fputs("[", j->timeline);
    for (int r = 0; r < j->trial->ranks; r++)
        fprintf(
            j->timeline,
            "%s\n{\"pid\": %d, \"tid\": 0, \"ph\": \"M\", \"name\": \"process_name\", \"args\": "
            "{\"name\": \"rank %d\"}}",
            r == 0 ? "" : ",", r, r);
}

void timeline_span(const job_rank *r, int row, const char *name, uint64_t from_ns)
{
    const job *j = r->job;
    if (j->timeline == NULL)
        return;
    fprintf(j->timeline,
            ",\n{\"pid\": %d, \"tid\": %d, \"ph\": \"X\", \"ts\": %.3f, \"dur\": %.3f, \"name\": "
            "\"%s\"}",
            r->rank, row, (double)from_ns / US, (double)(sim_now(j->world) - from_ns) / US, name);
}

void timeline_moment(const job_rank *r, const char *name)
{
    timeline_span(r, TIMELINE_LIFE, name, sim_now(r->job->world));
}

void timeline_end(const job *j)
{
    if (j->timeline != NULL)
        fputs("\n]\n", j->timeline);
}
