/* roster.c: see roster.h. */
#include "members/roster.h"

#include <unistd.h>

_Static_assert(sizeof(statement) % sizeof(uint64_t) == 0, "statements are copied word by word");

rueda_status roster_create(uint32_t workers, int *fd)
{
    const uint64_t bytes = workers * sizeof(roster_place);
    int made;
    rueda_status status = os_shared_create(bytes, &made);
    if (status != RUEDA_OK)
        return status;
    status = os_shared_commit(made, 0, bytes);
    if (status != RUEDA_OK)
        return close(made), status;
    *fd = made;
    return RUEDA_OK;
}

rueda_status roster_map(roster *r, int fd)
{
    uint64_t bytes;
    void *base;
    rueda_status status = os_shared_size(fd, &bytes);
    if (status == RUEDA_OK)
        status = os_shared_map(fd, bytes, &base);
    if (status != RUEDA_OK)
        return status;
    *r = (roster){base, (uint32_t)(bytes / sizeof(roster_place))};
    return RUEDA_OK;
}

void roster_unmap(roster *r)
{
    if (r->places != NULL)
        os_unmap(r->places, r->workers * sizeof(roster_place));
    r->places = NULL;
}

void roster_say(const roster *r, uint32_t worker, const statement *said)
{
    roster_place *p = &r->places[worker];
    const uint32_t version = atomic_load_explicit(&p->version, memory_order_relaxed) + 1;
    uint64_t words[ROSTER_WORDS];
    memcpy(words, said, sizeof words);
    /* whoever sees a new word in the copy also sees that the version has gone on since that copy counted */
    atomic_thread_fence(memory_order_release);
    for (size_t i = 0; i < ROSTER_WORDS; i++)
        atomic_store_explicit(&p->words[version % 2][i], words[i], memory_order_relaxed);
    world_point();
    atomic_store_explicit(&p->version, version, memory_order_release);
}

bool roster_read(const roster *r, uint32_t worker, statement *said)
{
    const roster_place *p = &r->places[worker];
    uint64_t words[ROSTER_WORDS];
    uint32_t version, after;
    do {
        version = atomic_load_explicit(&p->version, memory_order_acquire);
        for (size_t i = 0; i < ROSTER_WORDS; i++)
            words[i] = atomic_load_explicit(&p->words[version % 2][i], memory_order_relaxed);
        atomic_thread_fence(memory_order_acquire);
        after = atomic_load_explicit(&p->version, memory_order_relaxed);
    } while (after != version);
    memcpy(said, words, sizeof words);
    return version != 0;
}

void roster_ring(const roster *r, uint32_t worker)
{
    atomic_fetch_add(&r->places[worker].rings, 1);
    world_wake(&r->places[worker].rings, true);
}
