/* attendance.h: who is still there, while the ranks of a job wait for each other in rueda_init.
 *
 * Every rank has one connection with rank 0, its seat, from their first contact until all are done: the
 * Unix socket by which rank 0 hands it something where all ranks are on one host, else its link of the
 * meeting. A seat that ends early is a rank that died. Rank 0 sees it, or hears of another failure, and
 * tells all others, so that all end with the same sentence; when rank 0 itself dies all see it. Of a rank
 * that has no seat yet only its starter knows: see board.h.
 * Contract: nothing here blocks but attendance_complete, and for a moment who has lost rank 0.
 */
#ifndef RUEDA_BOOT_ATTENDANCE_H
#define RUEDA_BOOT_ATTENDANCE_H

#include "base/rank_list.h"
#include "boot/board.h"
#include "boot/phase.h"
#include "net/net.h"

/* What rank 0 and the others say to each other by a seat. */
typedef struct notice {
    uint32_t kind, status;
    int32_t culprit; /* rank because of which it ends; -1: none */
    uint32_t zero;
    char text[STATUS_TEXT_MAX];
} notice;

typedef struct seat {
    int fd;         /* a Unix socket, ours; -1: none */
    net_link *link; /* or a link */
    bool owned;     /* we close the link */
    bool taken, ready;
    notice in;
    size_t got; /* bytes of it */
} seat;

/* What may end rueda_init on this rank, beside the other ranks it has met. */
typedef struct attendance_ends {
    boot_phase dies_at;         /* a fault on purpose */
    board *board;               /* tells of ranks that ended before they had a seat; or NULL */
    int (*interrupted)(void *); /* whether the caller gives up; NULL: it does not */
    void *interrupted_argument;
} attendance_ends;

typedef struct attendance {
    const config *settings;
    int rank, size;
    uint64_t generation;
    attendance_ends ends;
    uint64_t ask_ns; /* when the caller is asked next whether it gives up */
    seat *seats;     /* rank 0: by rank; others: that with rank 0 alone */
    int epoll;
    int ready; /* ranks that said so */
    bool met;  /* some other rank knows of us in this generation */
    bool go;   /* all are there */
    bool over; /* init ends with `end` */
    bool left; /* because the caller gave up */
    notice end;
    uint64_t told_ns; /* when the board first named somebody; 0: not yet */
} attendance;

/* A board must live as long as the attendance. A failed one may be closed. */
rueda_status attendance_open(attendance *a, const config *settings, int rank, uint64_t generation,
                             const attendance_ends *ends);
void attendance_close(attendance *a);

/* Gives `rank` its seat; other ranks than 0 have one with rank 0. A descriptor is taken over; a link only
 * if `owned`, else it must live as long as the attendance. */
void attendance_seat_socket(attendance *a, int rank, int fd);
void attendance_seat_link(attendance *a, int rank, net_link *link, bool owned);
bool attendance_is_seated(const attendance *a, int rank);

/* When a rueda_init that waits from now on gives up. */
static inline uint64_t attendance_deadline(const config *settings)
{
    return world_now_ns() + (uint64_t)settings->start_timeout * 1000000000u;
}

/* RUEDA_OK, or how rueda_init ends on all ranks. */
rueda_status attendance_look(attendance *a);
/* Readable when there may be something to look at; -1: all is over. Where there is a board nothing tells: look again
 * after ATTENDANCE_LOOK_MS at most. */
int attendance_fd(const attendance *a);
#define ATTENDANCE_LOOK_MS 10
/* Looks; then sleeps until that, until `fd` (-1: none) is readable, or for ATTENDANCE_LOOK_MS. */
rueda_status attendance_wait(attendance *a, int fd);

/* Rank 0 has told by another way than the seat how rueda_init ends; `culprit` as in a notice. */
rueda_status attendance_end(attendance *a, rueda_status status, int culprit, const char *text);
/* The rank because of which it ends; -1: none, or it does not. */
int attendance_culprit(const attendance *a);
/* A rank died: how rueda_init ends on all ranks. */
rueda_status attendance_lose(attendance *a, int rank);
/* Tells the others how this rank ends, with the thread's sentence, unless they told us. */
void attendance_fail(attendance *a, rueda_status status);
/* Until when rank 0, if all is over, should wait for ranks that are still to come, so that they hear of it;
 * where there is a board they do anyway. */
uint64_t attendance_late_until_ns(const attendance *a);
/* ERR_TIMEOUT: `rank` has waited for ranks that did not come; `why` NULL: what to look for. */
rueda_status attendance_fail_missing(const config *settings, int rank, const rank_list *missing,
                                     const char *why);
/* This rank is done: blocks until all are. ERR_TIMEOUT names those that are missing. */
rueda_status attendance_complete(attendance *a, uint64_t deadline_ns);
void attendance_pass(const attendance *a, boot_phase phase);

#endif
