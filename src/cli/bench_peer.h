/* bench_peer.h: starts the processes of another engine, which join the board as its second team. */
#ifndef RUEDA_CLI_BENCH_PEER_H
#define RUEDA_CLI_BENCH_PEER_H

#include "cli/bench.h"

#include <sys/types.h>

typedef struct bench_peer_process {
    pid_t pid; /* of its launcher */
} bench_peer_process;

/* NULL, or one sentence: what is missing, and what to do. Static. */
const char *bench_peer_missing(bench_peer peer);

/* The mpirun of an MPI; NULL: it is none. */
const char *bench_peer_launcher(bench_peer peer);

/* Starts the other side of `o`. False: the reason was printed. */
bool bench_peer_start(bench_peer_process *p, const bench_options *o, int board_fd);
bool bench_peer_alive(bench_peer_process *p);
/* After BOARD_QUIT. `gently`: waits for its end, otherwise ends it. */
void bench_peer_end(bench_peer_process *p, bool gently);

#endif
