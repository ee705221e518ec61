/* peer_library.c: the bench's loop for engines that are not called from C. The caller hands over a
 * function that runs one collective; see peer_gloo.py. Becomes librueda-peer.so.
 */
#include "cli/bench_slice.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>

/* Runs one operation to its end; 0, or not 0 if it failed. */
typedef int (*peer_call)(int collective, int op, int dtype, void *input, uint64_t in_count,
                         void *output, uint64_t out_count);

static peer_call caller;

static bool run(slice_engine *e, const board_order *order)
{
    const bench_data *d = &e->data;
    if (caller(order->collective, order->op, order->dtype, d->input, d->in_count, d->output,
               d->out_count) == 0)
        return true;
    board_fail(e->board, e->team, "it has no such operation, or failed");
    return false;
}

/* Serves the board's orders until the bench ends. 0, or 1: something failed. */
__attribute__((visibility("default"))) int peer_serve(const char *path, int rank, peer_call call)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* a sleeper would not notice that the job is gone */
    const int fd = open(path, O_RDWR | O_CLOEXEC);
    board *b = fd >= 0 ? board_map(fd) : NULL;
    if (b == NULL)
        return 1;
    /* Not bound: such engines hand their work to threads of their own, which nobody binds either. */
    caller = call;
    slice_engine engine = {.board = b,
                           .team = BOARD_PEER,
                           .rank = rank,
                           .data = {.rank = rank, .size = b->size},
                           .allocate = slice_allocate,
                           .release = slice_release,
                           .run = run};
    return !slice_serve(&engine);
}
