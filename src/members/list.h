/* list.h: some of the workers of a job, by their numbers. */
#ifndef RUEDA_MEMBERS_LIST_H
#define RUEDA_MEMBERS_LIST_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Workers of a job from its beginning to its end, those that are gone included. */
#ifndef MEMBERS_MOST
#define MEMBERS_MOST 4096
#endif
#define MEMBERS_WORDS (MEMBERS_MOST / 64)

typedef struct members_list {
    uint64_t words[MEMBERS_WORDS];
} members_list;

static inline bool members_has(const members_list *l, uint32_t worker)
{
    return (l->words[worker / 64] >> worker % 64 & 1) != 0;
}

static inline void members_add(members_list *l, uint32_t worker)
{
    l->words[worker / 64] |= UINT64_C(1) << worker % 64;
}

static inline void members_remove(members_list *l, uint32_t worker)
{
    l->words[worker / 64] &= ~(UINT64_C(1) << worker % 64);
}

/* The workers 0 … count − 1. */
static inline members_list members_first(uint32_t count)
{
    members_list l = {{0}};
    for (uint32_t w = 0; w < count; w++)
        members_add(&l, w);
    return l;
}

static inline uint32_t members_count(const members_list *l)
{
    uint32_t count = 0;
    for (int i = 0; i < MEMBERS_WORDS; i++)
        count += (uint32_t)__builtin_popcountll(l->words[i]);
    return count;
}

/* The next worker from `worker` on that is in the list; MEMBERS_MOST: there is none. */
static inline uint32_t members_next(const members_list *l, uint32_t worker)
{
    while (worker < MEMBERS_MOST) {
        const uint64_t rest = l->words[worker / 64] >> worker % 64;
        if (rest != 0)
            return worker + (uint32_t)__builtin_ctzll(rest);
        worker = (worker / 64 + 1) * 64;
    }
    return MEMBERS_MOST;
}

#define MEMBERS_EACH(worker, list)                                                                 \
    for (uint32_t worker = members_next(list, 0); worker < MEMBERS_MOST;                           \
         worker = members_next(list, worker + 1))

/* How many of the list come before a worker: in a view that is its rank. */
static inline uint32_t members_before(const members_list *l, uint32_t worker)
{
    uint32_t count = 0;
    MEMBERS_EACH(other, l)
    {
        if (other >= worker)
            break;
        count++;
    }
    return count;
}

static inline members_list members_without(const members_list *l, const members_list *gone)
{
    members_list rest;
    for (int i = 0; i < MEMBERS_WORDS; i++)
        rest.words[i] = l->words[i] & ~gone->words[i];
    return rest;
}

static inline members_list members_both(const members_list *a, const members_list *b)
{
    members_list both;
    for (int i = 0; i < MEMBERS_WORDS; i++)
        both.words[i] = a->words[i] & b->words[i];
    return both;
}

static inline bool members_are_same(const members_list *a, const members_list *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

#endif
