/* witness.c: what ranks must agree on: whoever is the second to tell of something must tell the same. */
#include "world/world.h"

#include "base/hash.h"
#include "world/sim/sim_parts.h"
#include "world/sim/wrapped.h"

#define ROOM_FIRST 256

static sim_testimony *find(const sim_testimonies *t, const char *what, uint64_t key)
{
    size_t at = (size_t)hash_bytes(key, what, strlen(what)) & (t->room - 1);
    while (t->all[at].what != NULL && (t->all[at].key != key || strcmp(t->all[at].what, what) != 0))
        at = (at + 1) & (t->room - 1);
    return &t->all[at];
}

static void grow(sim_testimonies *t)
{
    const sim_testimonies old = *t;
    t->room = old.room == 0 ? ROOM_FIRST : 2 * old.room;
    t->all = __real_calloc(t->room, sizeof *t->all);
    SIM_ASSERT(t->all != NULL);
    for (size_t i = 0; i < old.room; i++) {
        if (old.all[i].what != NULL)
            *find(t, old.all[i].what, old.all[i].key) = old.all[i];
    }
    __real_free(old.all);
}

void world_witness(const char *what, uint64_t key, uint64_t value)
{
    sim *s = sim_current();
    if (s == NULL)
        return;
    sim_testimonies *t = &s->testimonies;
    if (2 * t->count >= t->room)
        grow(t);
    sim_testimony *told = find(t, what, key);
    if (told->what == NULL) {
        *told = (sim_testimony){key, value, what, sim_process_now()};
        t->count++;
    } else if (told->value != value) {
        sim_fail("processes %d and %d do not agree on the %s", told->process, sim_process_now(),
                 what);
    }
}

void sim_testimonies_free(sim *s)
{
    __real_free(s->testimonies.all);
    s->testimonies = (sim_testimonies){0};
}
