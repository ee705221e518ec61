/* bench_board.h: the shared page over which a bench is led.
 *
 * Two teams take turns: the ranks of the job, and the processes of another engine (see
 * bench_peer.h). Rank 0 of the job leads: it writes an order for one team, wakes it, and sleeps until
 * the whole team has answered. Invariant: a team without an order sleeps in the kernel, so it takes
 * nothing from the team that is being measured.
 */
#ifndef RUEDA_CLI_BENCH_BOARD_H
#define RUEDA_CLI_BENCH_BOARD_H

#include "world/world.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define BOARD_SAMPLES 32768 /* timed iterations of one slice, at most */
#define BOARD_ERROR_MAX 256
#define BOARD_CPUS 256 /* ranks beyond are not bound */

typedef enum board_team { BOARD_OURS, BOARD_PEER, BOARD_TEAMS } board_team;
typedef enum board_kind { BOARD_MEASURE, BOARD_TRIP, BOARD_QUIT } board_kind;

/* What to run in the next slice; alike for both teams. */
typedef struct board_order {
    board_kind kind;
    int collective; /* plan_collective */
    int op;         /* rueda_op */
    int dtype;      /* rueda_dtype */
    uint64_t count; /* elements, see bench_data.h */
    int iterations; /* that are timed; 1 … BOARD_SAMPLES */
    int burst;      /* iterations between two fresh fills */
    int idle_ms;    /* everybody sleeps so long before each iteration; 0: not */
    bool async;     /* submit and wait instead of the blocking call */
    bool busy_peer; /* the other ranks submit, then compute until rank 0 has its result */
} board_order;

typedef struct board_state {
    _Alignas(OS_CACHE_LINE) _Atomic uint32_t order;   /* number of the last order; sleep on it */
    _Alignas(OS_CACHE_LINE) _Atomic uint32_t answers; /* of all orders so far; sleep on it */
    _Alignas(OS_CACHE_LINE) _Atomic uint32_t gone;    /* ranks 0 and 1 have met `gone` times */
    _Alignas(OS_CACHE_LINE) _Atomic uint32_t trip;    /* the cache line they play with */
    _Alignas(OS_CACHE_LINE) _Atomic uint32_t arrived; /* for board_meet */
    _Alignas(OS_CACHE_LINE) _Atomic uint32_t done;    /* rank 0 has its result; for busy peers */
    double trip_us;                                   /* of the last slice; 0: one rank */
    double messages;                                  /* control messages of rank 0, an iteration */
    _Atomic uint64_t wrong;                           /* elements of the last slice, all ranks */
    _Atomic uint32_t failed;                          /* somebody cannot go on: see error */
    char error[BOARD_ERROR_MAX];
    float samples[BOARD_SAMPLES]; /* µs of rank 0 */
} board_state;

typedef struct board {
    size_t bytes; /* sizeof(board): a program of another build must not join */
    int size;     /* members of each team */
    bool bind;    /* each member keeps to a processor of its own */
    int cpus[BOARD_CPUS];
    uint64_t started_ns; /* when the ranks were launched, by world_now_ns */
    board_order what;
    board_state teams[BOARD_TEAMS];
} board;

/* Makes a board; the descriptor survives exec. NULL: see status_text. */
board *board_create(int size, bool bind, int *fd);
/* Maps a board that another process of the same build made, by its descriptor. */
board *board_map(int fd);

/* Keeps this thread to the rank-th processor, if the board says so. Not the process: an engine's own
 * threads may go where there is room. After the engine's start, which counts the processors. */
void board_bind(const board *b, int rank);

/* The leader: gives an order, and waits at most timeout_s until every member has answered all orders
 * so far. False: time is up. */
void board_give(board *b, board_team team, const board_order *order);
bool board_collect(board *b, board_team team, double timeout_s);

/* A member: sleeps until the order after `*seen`, and answers one. */
board_order board_take(board *b, board_team team, uint32_t *seen);
void board_answer(board *b, board_team team);

/* Says why the team cannot go on; the first reason is kept. */
void board_fail(board *b, board_team team, const char *reason);

/* Members 0 and 1 play ping-pong with a cache line and note the median round trip; the others sleep
 * meanwhile. All members call it. */
void board_trip(board *b, board_team team, int rank);

/* A barrier without the engines: `*round` counts the caller's meetings. */
void board_meet(board *b, board_team team, uint32_t *round);

#endif
