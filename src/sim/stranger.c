/* stranger.c: a rank of another job that was told the same meeting as ours, as happens where two people choose the
 * same port. It calls, is turned away, and gives up. Invariant: no job lets it in, and ours goes on as if it were not
 * there: all other invariants hold as ever. */
#include "sim/job.h"

#include <stdlib.h>

#define PATIENCE_S "3"

static void set_environment(const job_rank *r)
{
    const trial *t = r->job->trial;
    rank_set_environment(r);
    unsetenv("RUEDA_BOARD"); /* it has a launcher of its own */
    setenv("RUEDA_START_TIMEOUT", PATIENCE_S, 1);
    if (t->stranger_knows_name)
        setenv("RUEDA_KEY", "ff112233445566778899aabbccddeeff00112233445566778899aabbccddeeff", 1);
    else
        setenv("RUEDA_JOB", "another", 1);
}

void stranger_live(void *argument)
{
    static const context fresh = CONTEXT_NEW;
    job *j = argument;
    job_rank *r = &j->stranger;
    *r = (job_rank){.job = j, .rank = j->trial->stranger_rank, .here = fresh};
    world_rest(j->trial->stranger_ns);
    job_tell(j, "a stranger comes that calls itself rank %d of %s", r->rank,
             j->trial->stranger_knows_name ? "the job, with another key" : "another job");
    set_environment(r);
    if (context_init(&r->here, NULL) == RUEDA_OK)
        job_fail(j, INVARIANT_STRANGER, "a rank of another job was let in");
    else
        job_tell(j, "the stranger gives up: %s", status_text());
}
