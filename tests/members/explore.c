/* explore.c WORKERS DEATHS SUSPICIONS BALLOTS [together]: all that can happen in an agreement of a few workers: every order in
 * which statements are heard, deaths at any time, and workers that are taken for dead while they live. Where more
 * than so many ballots would be led for one view, the search goes no further. `together`: a worker hears at one time
 * what all others say and who is dead, and votes at once, as it does with the roster; else one of these at a time.
 */
#define MEMBERS_MOST 64 /* small statements, for many states */
#include "members/agreement.c"

#include "base/hash.h"

#include <stdio.h>
#include <stdlib.h>

#define WORKERS 5       /* at most */
#define VIEWS 8         /* that can be decided */
#define DEPTH_MOST 1000 /* events one after the other */
#define FIRST_ROOM (UINT64_C(1) << 16)

typedef struct peer {
    agreement a; /* `heard` is set before each use: states are copied */
    statement heard[WORKERS];
    bool lives;
} peer;

typedef struct state {
    peer peers[WORKERS];
    uint32_t deaths, suspicions; /* still to come */
    members_list decided[VIEWS]; /* by number */
    members_list voters[VIEWS];  /* by number: who has touched nothing of the view before since */
} state;

typedef struct search {
    uint32_t workers;
    uint64_t rounds;
    bool together;
    uint64_t (*seen)[2]; /* hashes of states; 0, 0: free */
    uint64_t room, states, ends, cut_off;
    state *path;
} search;

#define MUST(condition) must(condition, #condition)

static void must(bool so, const char *what)
{
    if (so)
        return;
    fprintf(stderr, "not so: %s\n", what);
    exit(1);
}

/* ---- States that were seen ------------------------------------------------------------------------ */

static void hash_state(const state *s, uint64_t hash[2])
{
    hash[0] = hash_bytes(1, s, sizeof *s);
    hash[1] = hash_bytes(2, s, sizeof *s) | 1;
}

/* Where a state is, or belongs. */
static uint64_t *find_place(search *g, const uint64_t hash[2])
{
    uint64_t i = hash[0] % g->room;
    while (g->seen[i][1] != 0 && (g->seen[i][0] != hash[0] || g->seen[i][1] != hash[1]))
        i = (i + 1) % g->room;
    return g->seen[i];
}

static void make_room(search *g)
{
    search larger = *g;
    larger.room = g->room * 2;
    larger.seen = calloc(larger.room, sizeof *larger.seen);
    MUST(larger.seen != NULL);
    for (uint64_t i = 0; i < g->room; i++) {
        if (g->seen[i][1] != 0)
            memcpy(find_place(&larger, g->seen[i]), g->seen[i], sizeof *g->seen);
    }
    free(g->seen);
    *g = larger;
}

/* True: for the first time. */
static bool note_state(search *g, const state *s)
{
    uint64_t hash[2];
    hash_state(s, hash);
    uint64_t *place = find_place(g, hash);
    if (place[1] != 0)
        return false;
    memcpy(place, hash, sizeof hash);
    if (++g->states > g->room / 2)
        make_room(g);
    return true;
}

/* ---- What must be so ------------------------------------------------------------------------------ */

/* One view of a number, made of those who voted for it, and never without anybody. */
static void check_view(state *s, uint64_t number, const members_list *view)
{
    MUST(number < VIEWS);
    if (members_count(&s->decided[number]) == 0)
        s->decided[number] = *view;
    MUST(members_are_same(&s->decided[number], view));
    const members_list strangers = members_without(view, &s->voters[number]);
    MUST(members_count(&strangers) == 0);
    MUST(members_count(view) > 0);
}

static bool is_member(const peer *p)
{
    return members_has(agreement_members(&p->a), p->a.self);
}

/* Nothing more can happen: who lives and is not out of the job has the same view, of living workers. */
static void check_end(const search *g, state *s)
{
    const members_list *view = NULL;
    for (uint32_t i = 0; i < g->workers; i++) {
        const peer *p = &s->peers[i];
        if (!p->lives || !is_member(p))
            continue;
        view = view == NULL ? agreement_members(&p->a) : view;
        MUST(members_are_same(view, agreement_members(&p->a)));
        MUST(!agreement_is_called(&p->a));
    }
    for (uint32_t i = 0; i < g->workers && view != NULL; i++)
        MUST(!members_has(view, i) || s->peers[i].lives);
}

/* ---- What can happen ------------------------------------------------------------------------------ */

static void think(state *s, uint32_t i)
{
    peer *p = &s->peers[i];
    const uint64_t before = agreement_number(&p->a);
    agreement_step(&p->a);
    if (agreement_number(&p->a) != before)
        check_view(s, agreement_number(&p->a), agreement_members(&p->a));
}

typedef enum event { HEAR, LEARN_DEATH, SUSPECT, ALLOW_VOTE, LEAD_AGAIN, DIE, EVENTS } event;

static bool hear(state *s, uint32_t i, uint32_t j)
{
    peer *p = &s->peers[i];
    const statement *said = &s->peers[j].heard[j];
    if (i == j || memcmp(&p->heard[j], said, sizeof *said) == 0)
        return false;
    agreement_hear(&p->a, j, said);
    think(s, i);
    return true;
}

static bool learn_death(state *s, uint32_t i, uint32_t j)
{
    peer *p = &s->peers[i];
    if (s->peers[j].lives || members_has(&p->a.dead, j))
        return false;
    agreement_hear(&p->a, j, &s->peers[j].heard[j]);
    members_add(&p->a.dead, j);
    think(s, i);
    return true;
}

static bool suspect(state *s, uint32_t i, uint32_t j)
{
    peer *p = &s->peers[i];
    if (s->suspicions == 0 || i == j || !s->peers[j].lives || !is_member(p) ||
        !members_has(agreement_members(&p->a), j) || members_has(&p->a.suspected, j))
        return false;
    s->suspicions--;
    members_add(&p->a.suspected, j);
    think(s, i);
    return true;
}

static bool allow_vote(state *s, uint32_t i)
{
    peer *p = &s->peers[i];
    if (p->a.may_vote || !is_member(p) || !agreement_is_called(&p->a))
        return false;
    p->a.may_vote = true;
    members_add(&s->voters[agreement_number(&p->a) + 1], i);
    think(s, i);
    return true;
}

static bool hear_all(const search *g, state *s, uint32_t i)
{
    peer *p = &s->peers[i];
    bool new = false;
    for (uint32_t j = 0; j < g->workers; j++) {
        const statement *said = &s->peers[j].heard[j];
        new |= memcmp(&p->heard[j], said, sizeof *said) != 0;
        agreement_hear(&p->a, j, said);
        new |= learn_death(s, i, j);
    }
    if (new)
        think(s, i);
    return allow_vote(s, i) || new;
}

static bool lead_again(search *g, state *s, uint32_t i)
{
    peer *p = &s->peers[i];
    const uint64_t highest = highest_ballot(&p->a);
    if (p->a.may_lead_again || p->heard[i].leads == 0 || highest <= p->heard[i].leads)
        return false;
    if (highest / BALLOT_STEP >= g->rounds) {
        g->cut_off++;
        return false;
    }
    p->a.may_lead_again = true;
    think(s, i);
    return true;
}

/* Its last statement is all that is left of it. */
static bool die(state *s, uint32_t i)
{
    peer *p = &s->peers[i];
    if (s->deaths == 0)
        return false;
    s->deaths--;
    const statement last = p->heard[i];
    memset(p, 0, sizeof *p);
    p->heard[i] = last;
    return true;
}

/* False: it cannot happen now. */
static bool happen(search *g, state *s, event what, uint32_t i, uint32_t j)
{
    if (j >= g->workers || !s->peers[i].lives)
        return false;
    switch (what) {
    case HEAR:
        return g->together ? j == 0 && hear_all(g, s, i) : hear(s, i, j);
    case LEARN_DEATH:
        return !g->together && learn_death(s, i, j);
    case SUSPECT:
        return suspect(s, i, j);
    case ALLOW_VOTE:
        return !g->together && j == 0 && allow_vote(s, i);
    case LEAD_AGAIN:
        return j == 0 && lead_again(g, s, i);
    default:
        return j == 0 && die(s, i);
    }
}

/* ---- The search ----------------------------------------------------------------------------------- */

/* Pointers are the same in equal states. */
static void set_pointers(search *g, state *s, bool set)
{
    for (uint32_t i = 0; i < g->workers; i++)
        s->peers[i].a.heard = set ? s->peers[i].heard : NULL;
}

static void explore(search *g, uint32_t depth)
{
    MUST(depth + 1 < DEPTH_MOST);
    const state *from = &g->path[depth];
    state *to = &g->path[depth + 1];
    bool goes_on = false;
    const uint64_t cut_off = g->cut_off;
    for (uint32_t e = 0; e < EVENTS * WORKERS * WORKERS; e++) {
        const event what = (event)(e / (WORKERS * WORKERS));
        memcpy(to, from, sizeof *to);
        set_pointers(g, to, true);
        if (!happen(g, to, what, e / WORKERS % WORKERS, e % WORKERS))
            continue;
        set_pointers(g, to, false);
        goes_on |= what < SUSPECT || what == ALLOW_VOTE || what == LEAD_AGAIN;
        if (note_state(g, to))
            explore(g, depth + 1);
    }
    if (goes_on || g->cut_off != cut_off)
        return;
    memcpy(to, from, sizeof *to);
    set_pointers(g, to, true);
    check_end(g, to);
    g->ends++;
}

static void begin_search(search *g, state *first)
{
    const members_list all = members_first(g->workers);
    for (uint32_t i = 0; i < g->workers; i++) {
        peer *p = &first->peers[i];
        agreement_init(&p->a, i, g->workers, 1, &all, p->heard);
        p->lives = true;
    }
    for (uint32_t i = 0; i < g->workers; i++) {
        for (uint32_t j = 0; j < g->workers; j++)
            agreement_hear(&first->peers[i].a, j, &first->peers[j].heard[j]);
    }
    set_pointers(g, first, false);
    note_state(g, first);
}

static void explore_all(search *g, uint32_t deaths, uint32_t suspicions)
{
    g->seen = calloc(g->room, sizeof *g->seen);
    g->path = calloc(DEPTH_MOST, sizeof *g->path);
    MUST(g->seen != NULL && g->path != NULL);
    g->path[0].deaths = deaths;
    g->path[0].suspicions = suspicions;
    begin_search(g, &g->path[0]);
    explore(g, 0);
    printf("%u workers, %u deaths, %u false suspicions: %llu states, %llu ends; %llu times there "
           "would be more than %llu ballots\n",
           g->workers, deaths, suspicions, (unsigned long long)g->states,
           (unsigned long long)g->ends, (unsigned long long)g->cut_off,
           (unsigned long long)g->rounds);
    MUST(g->ends > 0);
    free(g->seen);
    free(g->path);
}

int main(int argc, char **argv)
{
    if (argc < 5 || argc > 6) {
        fputs("usage: explore WORKERS DEATHS SUSPICIONS BALLOTS [together]\n", stderr);
        return 2;
    }
    search g = {.workers = (uint32_t)atoi(argv[1]),
                .rounds = (uint64_t)atoi(argv[4]),
                .together = argc > 5,
                .room = FIRST_ROOM};
    if (g.workers < 1 || g.workers > WORKERS) {
        fprintf(stderr, "explore: from 1 to %d workers\n", WORKERS);
        return 2;
    }
    explore_all(&g, (uint32_t)atoi(argv[2]), (uint32_t)atoi(argv[3]));
    return 0;
}
