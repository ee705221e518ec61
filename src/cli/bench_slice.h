/* bench_slice.h: one member's part of a slice: the same loop for the ranks of the job and for the
 * processes of another engine, so that both are measured alike.
 */
#ifndef RUEDA_CLI_BENCH_SLICE_H
#define RUEDA_CLI_BENCH_SLICE_H

#include "cli/bench_board.h"
#include "cli/bench_data.h"

/* An engine under measurement. Functions return false after board_fail. */
typedef struct slice_engine {
    board *board;
    board_team team;
    int rank;
    bench_data data;
    uint32_t meetings;
    bool moves_only;                          /* it combines nothing: there is no result to check */
    bool (*allocate)(struct slice_engine *e); /* data.input and output, by its counts */
    void (*release)(struct slice_engine *e);
    bool (*run)(struct slice_engine *e, const board_order *order); /* one operation, to its end */
    bool (*submit)(struct slice_engine *e,
                   const board_order *order); /* its two halves; NULL: none */
    bool (*finish)(struct slice_engine *e);
    uint64_t (*messages)(void); /* control messages so far; NULL: not counted */
} slice_engine;

/* allocate and release for engines that take any memory. */
bool slice_allocate(slice_engine *e);
void slice_release(slice_engine *e);

/* Does what the order says. */
bool slice_run(slice_engine *e, const board_order *order);
/* Serves orders until BOARD_QUIT. False: something failed. */
bool slice_serve(slice_engine *e);
/* Gives the memory back. */
void slice_end(slice_engine *e);

#endif
