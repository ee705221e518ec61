/* busy.c: which added sets a pass looks at. Most of a thousand sets have nothing to do at a time.
 *
 * Busy sets are in a list of the driver's. Invariant: after a pass an added set is in it if and only if it is
 * not busy_is_over. What begins in a set begins with mail or with its removal: a member that has submitted
 * nothing owes nothing to a round that others have opened, and decides and launches nothing. The removal is
 * the driver's own doing. Mail comes from any thread, which puts the set into a list of called sets, behind the
 * mail; the driver moves called sets over. So a pass costs an idle set nothing, and one look at a word when all
 * are. The global set is in neither list: every pass looks at it.
 */
#include "engine/engine.h"

/* Who finds it called already need not: whoever called it first puts it into the list, and the driver looks
 * for mail after it has taken the call back (both are exchanges: it then sees our mail). */
void busy_call(engine *e, process_set *s)
{
    if (s == &e->sets[RUEDA_GLOBAL_SET] || atomic_exchange(&s->called, true))
        return;
    s->next_called = atomic_load_explicit(&e->called, memory_order_relaxed);
    while (!atomic_compare_exchange_weak(&e->called, &s->next_called, s))
        ;
}

void busy_add(engine *e, process_set *s)
{
    if (s->busy)
        return;
    s->busy = true;
    s->next_busy = e->busy;
    e->busy = s;
}

void busy_take_calls(engine *e)
{
    process_set *next;
    if (atomic_load_explicit(&e->called, memory_order_relaxed) == NULL)
        return;
    for (process_set *s = atomic_exchange(&e->called, NULL); s != NULL; s = next) {
        next = s->next_called;
        busy_add(e, s);
        atomic_exchange(&s->called, false);
    }
}

const process_set *busy_next(const engine *e, const process_set *s)
{
    if (s == NULL)
        return &e->sets[RUEDA_GLOBAL_SET];
    return s == &e->sets[RUEDA_GLOBAL_SET] ? e->busy : s->next_busy;
}

void busy_remove(engine *e, process_set *s)
{
    process_set **link = &e->busy;
    while (*link != NULL && *link != s)
        link = &(*link)->next_busy;
    if (*link == s)
        *link = s->next_busy;
    s->busy = false;
}

bool busy_is_over(const process_set *s)
{
    const negotiation *n = &s->negotiation;
    const bool leaves = n->retiring && !n->retired;
    return n->waiting == 0 && !n->contributed && !leaves && s->flight[LANE_SMALL].count == 0 &&
           s->flight[LANE_LARGE].count == 0 && (s->p2p == NULL || p2p_is_idle(s->p2p));
}
