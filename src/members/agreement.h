/* agreement.h: how the workers of an elastic job agree on who is in it next. No clock, no memory of others, no
 * socket: whoever uses it says what was heard, and tells all others what this worker says.
 *
 * The job has one view after the other. The members of one view, its electors, decide on the next: by ballots, each
 * led by one of them. A worker says all that it has to say in one statement, which only it changes. Statements may be
 * heard late, twice, or not at all in between; the last one says everything.
 *
 *   promise   Who hears of a ballot with a higher number than any before follows it, and accepts nothing of
 *             earlier ones.
 *   propose   When enough electors follow a ballot, its leader proposes the next view: the one that an elector has
 *             accepted last, if any has (it may have been decided), else those who follow and are not gone.
 *   accept    Who follows the ballot, or an earlier one, accepts.
 *   decide    When enough electors have accepted the same ballot, that view is decided, for whoever sees it.
 *
 * Enough. A worker that is certainly dead, or has left, says nothing new: its last statement, which must have been
 * heard before its death is told here, counts as if it followed every ballot, and it need not accept. But one whose
 * last statement follows a later ballot counts against an earlier one. Of the others more than half are enough; or
 * half of them, with the lowest one. Then of two groups that are enough one worker is in both, or the last statement
 * of a dead one was seen: what was decided is never decided otherwise. tests/members/explore.c goes through all that can
 * happen among four workers.
 *
 * A worker that is suspected is not waited for. It stays a member if it follows the ballot in time.
 */
#ifndef RUEDA_MEMBERS_AGREEMENT_H
#define RUEDA_MEMBERS_AGREEMENT_H

#include "members/list.h"

enum statement_flags {
    STATEMENT_PROPOSES = 1, /* `proposal` counts */
    STATEMENT_LEFT = 2,     /* the worker has left in good order, and says nothing more */
    STATEMENT_CALLS = 4     /* it knows of a reason for another view */
};

/* What a worker has last said; whole words only, so that it can be copied word by word. */
typedef struct statement {
    uint64_t number;   /* of the view that is to be decided; 0: it has said nothing yet */
    uint64_t promised; /* the ballot it follows; 0: none */
    uint64_t accepted; /* the last ballot in which it accepted a proposal; 0: none */
    uint64_t leads;    /* the ballot it leads; 0: none */
    uint64_t flags;
    members_list electors; /* the members of the view before that */
    members_list accepted_view;
    members_list proposal;
} statement;

typedef struct agreement {
    uint32_t self, workers;
    statement *heard;       /* by worker, the last of each; our own is what we say */
    members_list dead;      /* certainly, and their last statements were heard */
    members_list suspected; /* nobody waits for them */
    bool may_vote;          /* this worker touches nothing of the last view any more */
    bool may_lead_again;    /* our ballot was overtaken, and long enough ago */
} agreement;

/* View `number` has these members, of the workers 0 … workers − 1. `heard` has room for as many statements and stays the
 * caller's. */
void agreement_init(agreement *a, uint32_t self, uint32_t workers, uint64_t number,
                    const members_list *members, statement *heard);

/* What another worker says now. */
void agreement_hear(agreement *a, uint32_t worker, const statement *said);

/* Moves on as far as it can. True: our own statement has changed, and all others must hear it. */
bool agreement_step(agreement *a);

/* This worker wants another view, for a reason of its own: one that has left is missed. */
void agreement_call(agreement *a);
/* Whether a member of the last view is gone, suspected, or asks for another view: then votes are due, and may_vote
 * must become true soon. */
bool agreement_is_called(const agreement *a);
/* Those that a ballot waits for: they are alive, as far as we know, and have not followed it. */
members_list agreement_missing(const agreement *a);

/* The last view that was decided: its number and members. */
static inline const statement *agreement_own(const agreement *a)
{
    return &a->heard[a->self];
}
static inline uint64_t agreement_number(const agreement *a)
{
    return agreement_own(a)->number - 1;
}
static inline const members_list *agreement_members(const agreement *a)
{
    return &agreement_own(a)->electors;
}

#endif
