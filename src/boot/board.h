/* board.h: a page of memory that an agent of `rueda run` shares with the ranks of its host. The agent
 * notes there which ranks of the job have ended, on any host; each rank notes how far it has come, and
 * whom it names as the reason why the job broke. So ranks need not wait in rueda_init for one that will
 * never come, and the launcher knows who is to blame.
 *
 * A rank finds it under RUEDA_BOARD, a file below /proc of the agent: nothing is inherited, and nothing
 * is left behind. A board of another job, or none, is no error: then nobody tells.
 */
#ifndef RUEDA_BOOT_BOARD_H
#define RUEDA_BOOT_BOARD_H

#include "base/config.h"

typedef struct board board;

#define BOARD_PATH 64 /* bytes of its path, with the terminating zero */

/* ---- The agent ---- */

/* NULL: there is no memory for one. `path` is what ranks need. */
board *board_make(int ranks, const char *job, char path[BOARD_PATH]);
/* With what the rank had noted itself, on the board of its host. */
void board_note_end(board *b, int rank, uint64_t joined, int named);
uint64_t board_joined(const board *b, int rank);
int board_named_by(const board *b, int rank); /* -1: nobody */
bool board_lost_timeline(const board *b, int rank);
void board_forget_ranks(board *b); /* before others with the same numbers start */

/* ---- A rank ---- */

/* NULL: it was not started by `rueda run`. */
board *board_open(const config *settings);
/* Its rueda_init of this generation is done. */
void board_note_joined(board *b, int rank, uint64_t generation);
void board_name(board *b, int rank, int culprit);
/* Something of its timeline could not be written. */
void board_note_lost_timeline(board *b, int rank);
/* The lowest rank that has ended, never joined this generation, and names nobody as its reason; where there are
 * only such as name each other, since they were cut off from each other, one of them. -1: none. */
int board_missing(const board *b, uint64_t generation);

/* ---- Both; NULL is allowed ---- */
void board_close(board *b);

#endif
