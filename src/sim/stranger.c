/* stranger.c: who calls at our meeting and does not belong there: a rank of another job that was told the same meeting,
 * as happens where two people choose the same port, or somebody who says nothing, or nothing that is understood.
 * Invariant: no job lets it in, and ours goes on as if it were not there: all other invariants hold as ever. */
#include "sim/job.h"
#include "world/sockets.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>

#define PATIENCE_S "3"
#define TRIES 20 /* until rank 0 is there */
#define TRY_NS UINT64_C(5000000)
#define STAYS_MOST_NS UINT64_C(3000000000)
#define GARBAGE_MOST 400 /* bytes; a hello has fewer */

static const char *text_of(stranger_kind kind)
{
    static const char *const TEXTS[] = {
#define STRANGER_TEXT(name, text) text,
        STRANGER_LIST(STRANGER_TEXT)};
    return TEXTS[kind];
}

/* ---- A rank of another job ------------------------------------------------------------------------- */

static void set_environment(const job_rank *r)
{
    const trial *t = r->job->trial;
    rank_set_environment(r);
    unsetenv("RUEDA_BOARD"); /* it has a launcher of its own */
    setenv("RUEDA_START_TIMEOUT", PATIENCE_S, 1);
    if (t->stranger == STRANGER_KEY)
        setenv("RUEDA_KEY", "ff112233445566778899aabbccddeeff00112233445566778899aabbccddeeff", 1);
    else
        setenv("RUEDA_JOB", "another", 1);
}

static void try_to_join(job_rank *r)
{
    set_environment(r);
    if (context_init(&r->here, NULL) == RUEDA_OK)
        job_fail(r->job, INVARIANT_STRANGER, "a rank of another job was let in");
    else
        job_tell(r->job, "the stranger gives up: %s", status_text());
}

/* ---- Somebody else --------------------------------------------------------------------------------- */

/* A connection with the meeting; -1: nobody is there. */
static int call_meeting(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(JOB_MEETING_PORT)};
    inet_pton(AF_INET, JOB_MEETING_HOST, &at.sin_addr);
    for (int i = 0; i < TRIES; i++) {
        const int fd = world_socket(AF_INET, true);
        if (fd >= 0 && world_connect(fd, (const struct sockaddr *)&at, sizeof at) == 0)
            return fd;
        if (fd >= 0)
            world_close(fd);
        world_rest(TRY_NS);
    }
    return -1;
}

static void disturb(const job *j)
{
    uint8_t garbage[GARBAGE_MOST];
    const int fd = call_meeting();
    if (fd < 0)
        return;
    world_random(garbage, sizeof garbage);
    if (j->trial->stranger == STRANGER_GARBAGE)
        world_send(fd, garbage, sim_random(j->world, sizeof garbage + 1), MSG_NOSIGNAL);
    world_rest(sim_random(j->world, STAYS_MOST_NS));
    world_close(fd);
}

void stranger_live(void *argument)
{
    static const context fresh = CONTEXT_NEW;
    job *j = argument;
    const stranger_kind kind = j->trial->stranger;
    job_rank *r = &j->stranger;
    *r = (job_rank){.job = j, .rank = j->trial->stranger_rank, .here = fresh};
    world_rest(j->trial->stranger_ns);
    job_tell(j, "a stranger comes: %s", text_of(kind));
    if (kind == STRANGER_NAME || kind == STRANGER_KEY)
        try_to_join(r);
    else
        disturb(j);
}
