/* random.h: numbers by chance that are the same on every machine: xoshiro256** (Blackman, Vigna), seeded by splitmix64.
 * Each purpose has a stream of its own, so that a change of one does not move the others. */
#ifndef RUEDA_WORLD_SIM_RANDOM_H
#define RUEDA_WORLD_SIM_RANDOM_H

#include <stdbool.h>
#include <stdint.h>

typedef struct sim_stream {
    uint64_t state[4];
} sim_stream;

static inline uint64_t sim_mix(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static inline sim_stream sim_stream_open(uint64_t seed, uint64_t purpose)
{
    sim_stream r;
    uint64_t a = seed, b = purpose * UINT64_C(0xd1342543de82ef95) + 1,
             mixed = sim_mix(&a) ^ sim_mix(&b);
    for (int i = 0; i < 4; i++)
        r.state[i] = sim_mix(&mixed);
    return r;
}

static inline uint64_t sim_rotate(uint64_t x, int by)
{
    return x << by | x >> (64 - by);
}

static inline uint64_t sim_next(sim_stream *r)
{
    uint64_t *s = r->state;
    const uint64_t result = sim_rotate(s[1] * 5, 7) * 9, t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = sim_rotate(s[3], 45);
    return result;
}

/* Below `below`, which is below 2^32 or a little unevenness does not matter. */
static inline uint64_t sim_below(sim_stream *r, uint64_t below)
{
    const uint64_t x = sim_next(r);
    return below <= UINT32_MAX ? (x >> 32) * below >> 32 : x % below;
}

static inline uint64_t sim_between(sim_stream *r, uint64_t least, uint64_t most)
{
    return most <= least ? least : least + sim_below(r, most - least + 1);
}

/* `chance` of 1024. */
static inline bool sim_happens(sim_stream *r, uint32_t chance)
{
    return chance != 0 && sim_next(r) >> 54 < chance;
}

#endif
