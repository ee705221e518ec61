/* agreement.c: see agreement.h. */
#include "members/agreement.h"

#define BALLOT_STEP (UINT64_C(1) << 16) /* a ballot's number ends with its leader's */

_Static_assert(MEMBERS_MOST < BALLOT_STEP, "every leader has ballots of its own");

void agreement_init(agreement *a, uint32_t self, uint32_t workers, uint64_t number,
                    const members_list *members, statement *heard)
{
    memset(heard, 0, workers * sizeof *heard);
    *a = (agreement){.self = self, .workers = workers, .heard = heard};
    heard[self].number = number + 1;
    heard[self].electors = *members;
}

void agreement_hear(agreement *a, uint32_t worker, const statement *said)
{
    if (worker != a->self)
        a->heard[worker] = *said;
}

/* ---- Who counts ---------------------------------------------------------------------------------- */

static statement *own(agreement *a)
{
    return &a->heard[a->self];
}

/* Whether a worker's statement is about the view that we decide on. */
static bool is_about_ours(const agreement *a, uint32_t worker)
{
    return a->heard[worker].number == agreement_own(a)->number;
}

/* It says nothing new any more. */
static bool says_no_more(const agreement *a, uint32_t worker)
{
    return members_has(&a->dead, worker) || (a->heard[worker].flags & STATEMENT_LEFT) != 0;
}

static bool follows(const agreement *a, uint32_t worker, uint64_t ballot)
{
    return is_about_ours(a, worker) && a->heard[worker].promised == ballot;
}

/* What an elector is in a ballot. */
typedef enum stance { AGAINST, FOR, ABSENT } stance;

static stance stance_on_promise(const agreement *a, uint32_t worker, uint64_t ballot)
{
    if (says_no_more(a, worker))
        return ABSENT;
    return follows(a, worker, ballot) ? FOR : AGAINST;
}

/* A silent one that follows a later ballot may have been counted there. */
static stance stance_on_proposal(const agreement *a, uint32_t worker, uint64_t ballot)
{
    const statement *s = &a->heard[worker];
    const bool ours = is_about_ours(a, worker);
    if (ours && s->accepted == ballot)
        return FOR;
    return says_no_more(a, worker) && (!ours || s->promised <= ballot) ? ABSENT : AGAINST;
}

static bool is_enough(const agreement *a, uint64_t ballot,
                      stance (*stance_of)(const agreement *, uint32_t, uint64_t))
{
    uint32_t count[3] = {0};
    bool lowest_is_for = false;
    MEMBERS_EACH(worker, agreement_members(a))
    {
        const stance s = stance_of(a, worker, ballot);
        if (s != ABSENT && count[FOR] + count[AGAINST] == 0)
            lowest_is_for = s == FOR;
        count[s]++;
    }
    return count[FOR] > count[AGAINST] || (count[FOR] == count[AGAINST] && lowest_is_for);
}

/* ---- Reasons ------------------------------------------------------------------------------------- */

void agreement_call(agreement *a)
{
    own(a)->flags |= STATEMENT_CALLS;
}

bool agreement_is_called(const agreement *a)
{
    MEMBERS_EACH(worker, agreement_members(a))
    {
        const statement *s = &a->heard[worker];
        const bool asks = is_about_ours(a, worker) &&
                          (s->leads != 0 || s->promised != 0 || (s->flags & STATEMENT_CALLS) != 0);
        const bool left = (s->flags & STATEMENT_LEFT) != 0;
        const bool gone = members_has(&a->dead, worker) || members_has(&a->suspected, worker);
        if (asks || (gone && !left))
            return true;
    }
    return false;
}

/* The lowest one that we count on. */
static bool is_leader(const agreement *a)
{
    MEMBERS_EACH(worker, agreement_members(a))
    {
        if (!says_no_more(a, worker) && !members_has(&a->suspected, worker))
            return worker == a->self;
    }
    return false;
}

/* ---- Voting --------------------------------------------------------------------------------------- */

static bool hear_leader(statement *me, const statement *leader)
{
    const bool proposes = (leader->flags & STATEMENT_PROPOSES) != 0;
    if (leader->leads == 0 || leader->leads < me->promised)
        return false;
    const bool changes =
        leader->leads > me->promised || (proposes && me->accepted != leader->leads);
    me->promised = leader->leads;
    if (proposes) {
        me->accepted = leader->leads;
        me->accepted_view = leader->proposal;
    }
    return changes;
}

static bool vote(agreement *a)
{
    bool changed = false;
    MEMBERS_EACH(worker, agreement_members(a))
    {
        if (a->may_vote && is_about_ours(a, worker))
            changed |= hear_leader(own(a), &a->heard[worker]);
    }
    return changed;
}

/* ---- Leading -------------------------------------------------------------------------------------- */

static uint64_t highest_ballot(const agreement *a)
{
    uint64_t highest = 0;
    MEMBERS_EACH(worker, agreement_members(a))
    {
        const statement *s = &a->heard[worker];
        if (is_about_ours(a, worker) && s->promised > highest)
            highest = s->promised;
        if (is_about_ours(a, worker) && s->leads > highest)
            highest = s->leads;
    }
    return highest;
}

members_list agreement_missing(const agreement *a)
{
    members_list missing = {{0}};
    const uint64_t ballot = agreement_own(a)->leads;
    MEMBERS_EACH(worker, agreement_members(a))
    {
        if (!says_no_more(a, worker) && !members_has(&a->suspected, worker) &&
            (ballot == 0 || !follows(a, worker, ballot)))
            members_add(&missing, worker);
    }
    return missing;
}

/* What may have been decided already; false: nothing. */
static bool find_accepted(const agreement *a, uint64_t ballot, members_list *view)
{
    uint64_t last = 0;
    MEMBERS_EACH(worker, agreement_members(a))
    {
        const statement *s = &a->heard[worker];
        const bool counts = stance_on_promise(a, worker, ballot) != AGAINST;
        if (!counts || !is_about_ours(a, worker) || s->accepted <= last)
            continue;
        last = s->accepted;
        *view = s->accepted_view;
    }
    return last != 0;
}

static void propose(agreement *a)
{
    statement *me = own(a);
    if (!find_accepted(a, me->leads, &me->proposal)) {
        memset(&me->proposal, 0, sizeof me->proposal);
        MEMBERS_EACH(worker, agreement_members(a))
        {
            if (stance_on_promise(a, worker, me->leads) == FOR)
                members_add(&me->proposal, worker);
        }
    }
    me->flags |= STATEMENT_PROPOSES;
}

/* A ballot of somebody else has a higher number than ours, and may still come to an end. */
static bool is_overtaken(const agreement *a, uint64_t highest)
{
    const uint32_t other = (uint32_t)(highest % BALLOT_STEP);
    return highest > agreement_own(a)->leads && other != a->self && !says_no_more(a, other) &&
           !a->may_lead_again;
}

static bool lead(agreement *a)
{
    statement *me = own(a);
    if (!a->may_vote || !agreement_is_called(a) || !is_leader(a))
        return false;
    const uint64_t highest = highest_ballot(a);
    if (is_overtaken(a, highest))
        return false;
    if (highest > me->leads || me->leads == 0) {
        me->leads = (highest / BALLOT_STEP + 1) * BALLOT_STEP + a->self;
        me->flags &= ~(uint64_t)STATEMENT_PROPOSES;
        a->may_lead_again = false;
        return true;
    }
    if ((me->flags & STATEMENT_PROPOSES) != 0)
        return false;
    const members_list missing = agreement_missing(a);
    if (members_count(&missing) > 0 || !is_enough(a, me->leads, stance_on_promise))
        return false;
    propose(a);
    return true;
}

/* ---- Deciding -------------------------------------------------------------------------------------- */

/* On to the next view. */
static void begin(agreement *a, uint64_t number, members_list electors)
{
    *own(a) = (statement){
        .number = number, .flags = own(a)->flags & STATEMENT_LEFT, .electors = electors};
    a->suspected =
        (members_list){{0}}; /* who was and is a member has followed the ballot: it lives */
    a->may_vote = a->may_lead_again = false;
}

/* Who is further than we are knows what was decided. */
static bool catch_up(agreement *a)
{
    uint32_t furthest = a->self;
    for (uint32_t w = 0; w < a->workers; w++) {
        if (a->heard[w].number > a->heard[furthest].number)
            furthest = w;
    }
    if (furthest == a->self)
        return false;
    begin(a, a->heard[furthest].number, a->heard[furthest].electors);
    return true;
}

static bool decide(agreement *a)
{
    MEMBERS_EACH(worker, agreement_members(a))
    {
        const statement *s = &a->heard[worker];
        if (!is_about_ours(a, worker) || s->accepted == 0 ||
            !is_enough(a, s->accepted, stance_on_proposal))
            continue;
        begin(a, s->number + 1, s->accepted_view);
        return true;
    }
    return false;
}

/* ---- One step -------------------------------------------------------------------------------------- */

static bool call_too(agreement *a)
{
    if ((own(a)->flags & STATEMENT_CALLS) != 0 || !agreement_is_called(a))
        return false;
    agreement_call(a);
    return true;
}

bool agreement_step(agreement *a)
{
    bool changed = catch_up(a);
    if (!members_has(agreement_members(a), a->self) || (own(a)->flags & STATEMENT_LEFT) != 0)
        return changed;
    for (bool moved = true; moved;) {
        moved = call_too(a);
        moved |= vote(a);
        moved |= lead(a);
        moved |= decide(a);
        changed |= moved;
    }
    return changed;
}
