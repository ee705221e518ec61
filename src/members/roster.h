/* roster.h: memory in which the workers of a host tell each other what they say in the agreement on members. It
 * outlives views, and a worker's last statement outlives the worker: whoever sees it dead can still read it.
 *
 * Each worker has a place that only it writes, but for the word by which others wake it. A statement is written to
 * one of two copies in turn, and its version last, so that a worker that dies while it writes leaves the one before.
 */
#ifndef RUEDA_MEMBERS_ROSTER_H
#define RUEDA_MEMBERS_ROSTER_H

#include "members/agreement.h"
#include "world/world.h"

#define ROSTER_WORDS (sizeof(statement) / sizeof(uint64_t))

typedef struct roster_place {
    _Alignas(OS_CACHE_LINE) _Atomic uint32_t rings; /* the worker sleeps on it */
    _Atomic uint32_t version;                       /* of the statement; 0: none yet */
    _Atomic uint64_t beats;                         /* grows while the worker lives and runs */
    _Atomic uint64_t words[2][ROSTER_WORDS];        /* the one of version v is v % 2 */
} roster_place;

typedef struct roster {
    roster_place *places; /* by worker; NULL: it is not mapped */
    uint32_t workers;
} roster;

/* The memory itself, for so many workers; whoever has the descriptor can map it. ERR_SYSTEM, ERR_MEMORY. */
rueda_status roster_create(uint32_t workers, int *fd);
/* The descriptor stays the caller's. */
rueda_status roster_map(roster *r, int fd);
void roster_unmap(roster *r);

/* What our worker says from now on. */
void roster_say(const roster *r, uint32_t worker, const statement *said);
/* What a worker has last said. False: it has said nothing yet. */
bool roster_read(const roster *r, uint32_t worker, statement *said);
void roster_ring(const roster *r, uint32_t worker);

#endif
