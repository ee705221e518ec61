/* boot.h: who are we, where is everybody, and the shared memory of our host.
 *
 * On one host, the lowest rank makes the segment and hands its descriptor to the others (handover.h).
 * On several, or where a transport between hosts is asked for, all ranks first meet at rank 0 by TCP: each brings a card
 * (rank, host, address, settings), rank 0 compares the settings and sends everybody the table of
 * places; then each rank is joined to its parent in the control tree, and the ranks of each host share
 * a segment as before.
 */
#ifndef RUEDA_BOOT_H
#define RUEDA_BOOT_H

#include "boot/attendance.h"
#include "memory/segment.h"
#include "net/net.h"
#include "observe/log.h"

typedef struct heap heap; /* memory/heap.h */

#define BOOT_FANOUT 8 /* children of a rank in the control tree */
#define BOOT_LINKS (BOOT_FANOUT + 1)
#define BOOT_LATER_NS UINT64_C(1000000000) /* who knows who is missing gives up first */

typedef struct boot_identity {
    int rank, size;
    int local_rank,
        local_size; /* on its host, as its starter says: in an elastic job it stays, while others go */
    int host_rank; /* among the ranks of its host that are in the job */
    int cross_rank, cross_size;
    bool shares_memory; /* with the ranks of its host; not where another transport is forced */
    bool crowded;       /* more ranks on this machine than processors they may run on */
    bool crowded_some;  /* the same of any machine: alike on all ranks */
} boot_identity;

/* What the connections of a job are for. */
typedef enum boot_role { BOOT_MEET = 1, BOOT_TREE = 2, BOOT_DATA = 3 } boot_role;

/* Where a rank is reached, and on which host it is; hosts are numbered by their lowest rank. */
typedef struct boot_place {
    net_address address;
    uint32_t host;
    uint32_t machine; /* may have several hosts, in tests, or where ranks share no memory */
    uint32_t crowded; /* the machine has more ranks than processors */
} boot_place;

/* What the meeting of several hosts leaves behind. */
typedef struct boot_meeting {
    net_identity identity;
    net_address own; /* connections to others start here; family 0: anywhere */
    net_door *door;
    boot_place *places;          /* by rank */
    net_link *links[BOOT_LINKS]; /* to parent and children, open */
    int link_count;
    int *bells; /* by rank: an eventfd of each rank that shares our memory, and ours; else -1 */
    int bell_count;
    uint64_t
        deadline_ns;   /* what is left to do has time until then, where rank 0 was reached late */
    attendance *there; /* until all are there; then NULL */
    bool met; /* others know of this rank in this generation; also told where boot_join fails */
    bool others_failed; /* where it fails: because of other ranks, and not of this one */
} boot_meeting;

/* What a rank shares with the others of its host. */
typedef struct boot_memory {
    const heap *heap; /* our own, open: it is handed to the others */
    int *
        roster; /* of an elastic job (members/roster.h): the lowest rank has one, others may have -1 and get
                         theirs; NULL: the job is not elastic */
    segment *segment; /* to be filled; it then knows the heaps of all */
} boot_memory;

/* Closes what is in it; safe on a zeroed one. */
void boot_meeting_close(boot_meeting *m);

static inline int boot_parent(int rank)
{
    return (rank - 1) / BOOT_FANOUT; /* not for rank 0 */
}

/* From the settings; ERR_CONFIG if they contradict each other. */
rueda_status boot_identify(const config *settings, bool shares_memory, boot_identity *who);
/* Whether the ranks need to meet by TCP. */
bool boot_needs_network(const config *settings, const boot_identity *who);

/* Joins generation `generation` of the job. Blocks, at most settings->start_timeout seconds, or as
 * long as rank 0 waits once that is reached; the
 * error then names the ranks that are missing. A rank that dies meanwhile ends it on all at once
 * (ERR_PEER, see attendance.h), and so does what is in `ends`; ERR_INTERRUPTED: the caller gave up. On success the segment has this rank's part of the
 * global set committed and all ranks are present; `meeting` is filled where boot_needs_network, and
 * `who` then has its local and cross ranks from the table. */
rueda_status boot_join(const config *settings, boot_identity *who, uint64_t generation,
                       const attendance_ends *ends, const logger *log, const boot_memory *memory,
                       boot_meeting *meeting);

/* What the system refused to one rank is told on all: puts its number before the thread's sentence, if it is not
 * there already, and returns the status. */
rueda_status boot_name_rank(rueda_status status, int rank);

/* ---- between the files of this folder ---- */

/* Counts ranks and the processors that some of them may run on. */
typedef struct boot_crowd {
    int ranks;
    os_cpus cpus;
} boot_crowd;
void crowd_add(boot_crowd *crowd, const os_cpus *cpus);
bool crowd_is_dense(const boot_crowd *crowd);

/* meeting.c. `m->identity` is complete; `listener` and `port` are ours. For rank 0 `where` is not
 * used, for others it is where rank 0 listens, on one of the next `ports` ports. */
typedef struct boot_host {
    const net_address *where;
    uint16_t ports;
    uint16_t port; /* our own door's */
} boot_host;
rueda_status meeting_hold(const config *settings, const boot_identity *who, const boot_host *host,
                          uint64_t deadline_ns, boot_meeting *m);

/* meet_file.c. The path of RUEDA_MEET=file:PATH; NULL: they meet otherwise, and what follows is not
 * called. */
const char *meet_file_of(const config *settings);
/* Whether the file also has the job's key, because nothing else gives one. */
bool meet_file_brings_key(const config *settings);
/* Rank 0: the address of its door, with `port`; and that all have come. */
rueda_status meet_file_write(const config *settings, uint16_t port, const boot_meeting *m);
void meet_file_remove(const config *settings);
/* The others: rank 0's address, and the key if the file brings it. NULL, or why there is none. */
const char *meet_file_find(const config *settings, net_identity *me, net_address *where);
/* Blocks until there is, at most until the deadline. */
rueda_status meet_file_await(const config *settings, attendance *there, net_identity *me,
                             uint64_t deadline_ns, net_address *where);

/* Whether rank `r` is on our host; without a meeting all are. */
bool boot_is_local(const boot_meeting *m, const boot_identity *who, int r);

/* share.c: the segment of our host, the heaps of its ranks, and where there is a meeting their bells. */
rueda_status share_memory(const config *settings, const boot_identity *who, uint64_t generation,
                          boot_meeting *m, const logger *log, const boot_memory *memory);
void boot_bells_close(boot_meeting *m);

/* find.c: who we are towards others, with the key if something gives one. */
rueda_status find_identity(const config *settings, const boot_identity *who, uint64_t generation,
                           net_identity *me);
/* The listener, and where to meet. `m->identity` was found. */
rueda_status find_meeting(const config *settings, const boot_identity *who, uint64_t deadline_ns,
                          const logger *log, boot_meeting *m);

#endif
