/* random.h: the same random numbers on every machine: ranks that must agree on a shuffle need no
 * message for it. The generator is splitmix64. */
#ifndef EXAMPLES_RANDOM_H
#define EXAMPLES_RANDOM_H

#include <stdint.h>

typedef struct random_state {
    uint64_t state;
} random_state;

static inline uint64_t random_next(random_state *r)
{
    uint64_t z = r->state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* One stream for each purpose of a seed, so that the first does not move the second. */
static inline random_state random_stream(uint64_t seed, uint64_t purpose)
{
    random_state r = {seed * UINT64_C(0xd1342543de82ef95) + purpose};
    r.state = random_next(&r);
    return r;
}

static inline double random_unit(random_state *r) /* 0 ≤ x < 1 */
{
    return (double)(random_next(r) >> 11) * 0x1p-53;
}

static inline void random_shuffle(random_state *r, int *items, int count)
{
    for (int i = count - 1; i > 0; i--) {
        const int j = (int)(random_next(r) % ((uint64_t)i + 1));
        const int item = items[i];
        items[i] = items[j];
        items[j] = item;
    }
}

#endif
