/* background.c: the thread that drives while callers compute.
 *
 * Waking a thread costs more than a small operation. So after some activity the thread naps
 * before it really sleeps: a caller that submits and then waits need not wake it, and if the
 * caller does not wait, the thread looks by itself after the nap. One nap, no more: each look takes the
 * core, and its caches, from whoever computes on it.
 */
#include "engine/engine.h"

#include <signal.h>

enum { BACKGROUND_AWAKE, BACKGROUND_NAPPING, BACKGROUND_ASLEEP };

#define NAP_NS 50000
#define NAPS_BEFORE_SLEEP 1
#define SLEEP_NS UINT64_C(60000000000)
#define AWAY_NS                                                                                    \
    UINT64_C(5000000) /* with a network: a waiter drives; nobody tells us when it goes */

static bool is_needed(engine *e)
{
    return atomic_load(&e->outstanding) > 0 && atomic_load(&e->waiters) == 0 &&
           atomic_load(&e->driving) == 0;
}

/* Someone must listen to the network when nobody has anything to do. */
static bool should_attend(engine *e, uint32_t naps)
{
    return e->control.network != NULL && naps == NAPS_BEFORE_SLEEP &&
           atomic_load(&e->waiters) == 0 && atomic_load(&e->driving) == 0;
}

static uint64_t long_sleep_ns(engine *e)
{
    if (e->control.network != NULL)
        return AWAY_NS;
    const uint64_t beat = watch_beat(e);
    return beat < SLEEP_NS ? beat : SLEEP_NS;
}

static void rest(engine *e, uint32_t *naps)
{
    const uint32_t seen = atomic_load(&e->work);
    const bool nap = *naps < NAPS_BEFORE_SLEEP;
    atomic_store(&e->background_state, nap ? BACKGROUND_NAPPING : BACKGROUND_ASLEEP);
    if (!is_needed(e) && atomic_load(&e->stopping) == 0)
        os_sleep_on(&e->work, seen, nap ? NAP_NS : long_sleep_ns(e), false);
    atomic_store(&e->background_state, BACKGROUND_AWAKE);
    if (nap)
        ++*naps;
    else if (e->control.network == NULL)
        *naps = 0;
}

/* Nothing has happened for a while: the memory of the last large operations goes back. */
static void tidy(engine *e)
{
    if (atomic_load(&e->outstanding) > 0 || !drive_try(e))
        return;
    if (atomic_load(&e->outstanding) == 0)
        sets_trim(e);
    drive_leave(e);
}

static void *background_main(void *argument)
{
    engine *e = argument;
    uint32_t naps = 0;
    os_take_short_turns();
    while (atomic_load(&e->stopping) == 0) {
        if ((is_needed(e) || should_attend(e, naps)) && drive_try(e)) {
            drive(e, NULL, UINT64_MAX, true);
            atomic_store(&e->driving, 0);
            engine_tell_waiters(e);
            naps = 0;
        } else {
            if (naps == NAPS_BEFORE_SLEEP)
                tidy(e);
            rest(e, &naps);
        }
    }
    return NULL;
}

/* Signals are the caller's threads' business. */
rueda_status background_start(engine *e)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    e->has_background = pthread_create(&e->background, NULL, background_main, e) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!e->has_background)
        return status_fail(RUEDA_ERR_SYSTEM, "rank %d: cannot start the background thread",
                           e->who.rank);
    return RUEDA_OK;
}

void background_stop(engine *e)
{
    if (!e->has_background)
        return;
    atomic_store(&e->stopping, 1);
    atomic_fetch_add(&e->work, 1);
    os_wake(&e->work, false);
    control_notify_rank(&e->control, (uint32_t)e->who.rank);
    pthread_join(e->background, NULL);
    e->has_background = false;
    atomic_store(&e->stopping, 0);
}

void background_call(engine *e, bool urgent)
{
    const uint32_t state = atomic_load(&e->background_state);
    if (state == BACKGROUND_AWAKE || (state == BACKGROUND_NAPPING && !urgent))
        return;
    atomic_fetch_add(&e->work, 1);
    os_wake(&e->work, false);
}
