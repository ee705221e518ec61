/* background.c: the thread that drives while callers compute.
 *
 * Waking a thread costs more than a small operation. So after some activity the thread naps
 * before it really sleeps: a caller that submits and then waits need not wake it, and if the
 * caller does not wait, the thread looks by itself after the nap. One nap, no more: each look takes the
 * core, and its caches, from whoever computes on it.
 */
#include "engine/engine.h"

enum { BACKGROUND_AWAKE, BACKGROUND_NAPPING, BACKGROUND_ASLEEP };

#define NAP_NS 50000
#define IDLE_NS UINT64_C(1000000000) /* longer than a step of training */
#define SLEEP_NS UINT64_C(60000000000)
#define AWAY_NS                                                                                    \
    UINT64_C(5000000) /* with a network: a waiter drives; nobody tells us when it goes */

/* How the next rest is taken; each that nobody ends leads to the next kind. */
typedef enum rest_kind { REST_NAP, REST_SLEEP, REST_IDLE } rest_kind;

/* Peers can wake us, too, to be answered: see control_call. */
static _Atomic uint32_t *work_of(const engine *e)
{
    return &segment_rank_at(&e->segment, (uint32_t)e->who.rank)->work;
}

static bool is_needed(engine *e)
{
    return atomic_load(&e->outstanding) > 0 && atomic_load(&e->waiters) == 0 &&
           atomic_load(&e->driving) == 0;
}

/* Whoever drives answers himself. */
static bool should_answer(engine *e)
{
    return atomic_load(&e->driving) == 0 && control_is_asked(&e->control);
}

/* Someone must listen to the network when nobody has anything to do. */
static bool should_attend(engine *e, rest_kind kind)
{
    return e->control.network != NULL && kind != REST_NAP && atomic_load(&e->waiters) == 0 &&
           atomic_load(&e->driving) == 0;
}

static uint64_t rest_ns(engine *e, rest_kind kind)
{
    if (kind == REST_NAP)
        return NAP_NS;
    if (e->control.network != NULL)
        return AWAY_NS;
    const uint64_t beat = watch_beat(e), most = kind == REST_SLEEP ? IDLE_NS : SLEEP_NS;
    return beat < most ? beat : most;
}

static void rest(engine *e, rest_kind *kind)
{
    const uint32_t seen = atomic_load(work_of(e));
    world_point();
    atomic_store(&e->background_state, *kind == REST_NAP ? BACKGROUND_NAPPING : BACKGROUND_ASLEEP);
    if (!is_needed(e) && !should_answer(e) && atomic_load(&e->stopping) == 0)
        world_sleep_on(work_of(e), seen, rest_ns(e, *kind), true);
    atomic_store(&e->background_state, BACKGROUND_AWAKE);
    if (atomic_load(work_of(e)) != seen)
        *kind = REST_NAP;
    else if (*kind != REST_IDLE)
        ++*kind;
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

static void answer(engine *e)
{
    if (!should_answer(e) || !drive_try(e))
        return;
    control_answer(&e->control);
    drive_leave(e);
}

static void *background_main(void *argument)
{
    engine *e = argument;
    rest_kind kind = REST_NAP;
    world_prefer_short_turns();
    while (atomic_load(&e->stopping) == 0) {
        if ((is_needed(e) || should_attend(e, kind)) && drive_try(e)) {
            drive(e, NULL, UINT64_MAX, true);
            atomic_store(&e->driving, 0);
            world_point();
            engine_tell_waiters(e);
            kind = REST_NAP;
        } else {
            if (kind == REST_IDLE)
                tidy(e);
            answer(e);
            rest(e, &kind);
        }
    }
    return NULL;
}

rueda_status background_start(engine *e)
{
    e->has_background = world_thread_start(&e->background, background_main, e);
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
    control_call(&e->control, (uint32_t)e->who.rank);
    control_notify_rank(&e->control, (uint32_t)e->who.rank);
    world_thread_join(&e->background);
    e->has_background = false;
    atomic_store(&e->stopping, 0);
}

void background_call(engine *e, bool urgent)
{
    const uint32_t state = atomic_load(&e->background_state);
    if (state == BACKGROUND_AWAKE || (state == BACKGROUND_NAPPING && !urgent))
        return;
    control_call(&e->control, (uint32_t)e->who.rank);
}
