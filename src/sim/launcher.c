/* launcher.c: stands for `rueda run`: a board on each host, and news of ends. */
#include "sim/job.h"

#include <stdio.h>
#include <string.h>

#define NEWS_MOST_NS UINT64_C(30000000)

typedef struct news {
    job *job;
    int rank, host;
} news;

static news all_news[TRIAL_RANKS * TRIAL_HOSTS]; /* of the one job there is at a time */

void launcher_open(job *j)
{
    for (int h = 0; h < j->trial->hosts; h++) {
        char path[BOARD_PATH];
        j->boards[h] = board_make(j->trial->ranks, "trial", path);
        /* its path has the number of a process that the system does not know: all live in this one */
        if (j->boards[h] != NULL)
            snprintf(j->board_paths[h], BOARD_PATH, "/proc/self/fd/%s", strrchr(path, '/') + 1);
    }
}

void launcher_close(job *j)
{
    for (int h = 0; h < TRIAL_HOSTS; h++)
        board_close(j->boards[h]);
}

/* What the rank's own board says goes to all. */
static void spread(void *argument)
{
    const news *n = argument;
    const board *own = n->job->boards[n->job->trial->host_of[n->rank]];
    board_note_end(n->job->boards[n->host], n->rank, board_joined(own, n->rank),
                   board_named_by(own, n->rank));
}

void launcher_note_end(job *j, int rank)
{
    for (int h = 0; h < j->trial->hosts && j->boards[h] != NULL; h++) {
        news *n = &all_news[rank * TRIAL_HOSTS + h];
        *n = (news){j, rank, h};
        sim_at(j->world, sim_now(j->world) + sim_random(j->world, NEWS_MOST_NS), spread, n);
    }
}
