/* testing.h: what the tests of plans share. Everything is static: each test is one file. */
#ifndef RUEDA_PLAN_TESTING_H
#define RUEDA_PLAN_TESTING_H

#include "plan/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TESTING_MAX_RANKS 64

/* The plans of all ranks. */
typedef struct team {
    plan *plans[TESTING_MAX_RANKS];
    unsigned ranks;
    const char *why; /* there are none */
} team;

static inline void team_free(team *t)
{
    for (unsigned r = 0; r < t->ranks; r++)
        plan_free(t->plans[r]);
    t->ranks = 0;
}

/* Builds the plans of all ranks of a layout; false: t->why says why not. */
static inline bool team_build(team *t, plan_collective collective, plan_algorithm algorithm,
                              plan_layout layout)
{
    *t = (team){.ranks = layout.ranks};
    for (unsigned r = 0; r < layout.ranks; r++) {
        layout.rank = (uint16_t)r;
        t->plans[r] = plan_build(collective, algorithm, &layout, &t->why);
        if (t->plans[r] == NULL) {
            team_free(t);
            return false;
        }
    }
    return true;
}

static inline bool has_one_order(const team *t)
{
    const plan_verdict verdict = plan_verify_pieces(t->plans, 1);
    return verdict.failed == PLAN_CHECK_OK && verdict.one_order;
}

/* Ways to spread ranks over hosts. */
enum { ONE_HOST, OWN_HOSTS, PAIRS, FOURS, UNEVEN_TWO, UNEVEN_MANY, IN_TURN, MIXED, HOST_LAYOUTS };

/* Fills host_of; returns what to put into a layout. */
static inline const uint16_t *spread_over_hosts(uint16_t *host_of, unsigned ranks, int how)
{
    unsigned left = 0, host = 0;
    for (unsigned q = 0; q < ranks && how >= IN_TURN; q++) /* not side by side */
        host_of[q] = (uint16_t)(how == IN_TURN ? q % 3 : q * q % 7 % 4);
    for (unsigned q = 0; q < ranks && how < IN_TURN; q++) {
        if (left == 0) {
            host++;
            left = how == OWN_HOSTS     ? 1
                   : how == PAIRS       ? 2
                   : how == FOURS       ? 4
                   : how == UNEVEN_TWO  ? (host == 1 ? (ranks * 3 + 4) / 5 : ranks)
                   : how == UNEVEN_MANY ? 1 + host * 7 % 4
                                        : ranks;
        }
        host_of[q] = (uint16_t)host;
        left--;
    }
    return how == ONE_HOST ? NULL : host_of;
}

static inline void print_verdict(const team *t, const plan_verdict *v)
{
    const plan_layout *l = &t->plans[0]->layout;
    fprintf(stderr, "%s by %s, %u ranks%s%s%s%s, root %u: %s, %u pieces, rank %u, step %u: %s\n",
            plan_collective_name(t->plans[0]->collective),
            plan_algorithm_name(t->plans[0]->algorithm), t->ranks, l->adasum ? ", adasum" : "",
            l->mapped ? ", mapped" : "", l->prescaled ? ", prescaled" : "",
            l->small ? ", small" : "", l->root, plan_check_name(v->failed), v->pieces, v->rank,
            v->step, v->text);
}

#endif
