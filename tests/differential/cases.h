/* cases.h: plans to try: of the algorithms, of authors that roll dice, and damaged ones. A seed says all. */
#ifndef RUEDA_TESTS_CASES_H
#define RUEDA_TESTS_CASES_H

#include "model.h"

typedef struct dice {
    uint64_t state;
    bool rooted; /* the case has collectives with one root, too */
} dice;

dice dice_of(uint64_t seed);
unsigned roll_dice(dice *d, unsigned sides); /* 0 … sides − 1 */
void shuffle(dice *d, unsigned *list, unsigned count);

/* Where a plan is from. */
typedef enum origin { FROM_ALGORITHM, FROM_DICE, DAMAGED, ORIGIN_COUNT } origin;

/* Where the ranks of one sequence are, alike for all its operations. */
typedef struct place_of_ranks {
    unsigned ranks;
    uint16_t host_of[ORACLE_RANKS];
    bool hosts; /* several */
} place_of_ranks;

place_of_ranks roll_place(dice *d);
/* Makes the plans of one operation, which may be wrong, and how its tensors are cut. false: nothing of it
 * could be built. The caller frees the team with team_free. */
bool case_make(dice *d, const place_of_ranks *place, model_operation *o, origin *from);
/* Numbers of the tensors, for the oracle. */
void case_space(const model_operation *o, oracle_space *space);

/* authors.c: the plans of an author that rolls dice, the same for all ranks. */
bool authors_build(dice *d, const place_of_ranks *place, team *t);

#endif
