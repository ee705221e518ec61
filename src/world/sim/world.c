/* world.c: world.h in the simulated world, but for threads and processes (threads.c). */
#include "world/world.h"

#include "world/sim/sim_parts.h"

#include <errno.h>
#include <string.h>

#define COARSE_NS UINT64_C(4000000)
#define TORN_PIECES 4 /* at most, of a copy */
#define PAUSES 4      /* calls' time that a pause takes */

/* ---- Time ----------------------------------------------------------------------------------------- */

uint64_t world_now_ns(void)
{
    sim_spend();
    const sim *s = sim_world;
    if (s == NULL)
        return 0;
    return s->now_ns +
           (s->running == NULL ? 0 : s->hosts[s->running->process->host].clock_offset_ns);
}

uint64_t world_now_coarse_ns(void)
{
    return world_now_ns() / COARSE_NS * COARSE_NS;
}

void world_rest(uint64_t ns)
{
    sim_fiber *f = sim_running();
    if (f != NULL)
        sim_wait(WAIT_REST, sim_deadline(ns), NULL);
}

/* ---- Words ---------------------------------------------------------------------------------------- */

static bool is_same(const sim_word *a, const sim_word *b)
{
    return a->place == b->place && a->file == b->file && a->device == b->device;
}

static void add_sleeper(sim *s, sim_fiber *f)
{
    f->sleep_next = NULL;
    f->sleep_previous = s->last_sleeper;
    if (s->last_sleeper != NULL)
        s->last_sleeper->sleep_next = f;
    else
        s->sleepers = f;
    s->last_sleeper = f;
}

void sim_sleeper_remove(sim *s, sim_fiber *f)
{
    if (f->sleep_previous != NULL)
        f->sleep_previous->sleep_next = f->sleep_next;
    else
        s->sleepers = f->sleep_next;
    if (f->sleep_next != NULL)
        f->sleep_next->sleep_previous = f->sleep_previous;
    else
        s->last_sleeper = f->sleep_previous;
    f->sleep_next = f->sleep_previous = NULL;
}

/* The look at the word and falling asleep are one step, as in the kernel. */
void world_sleep_on(_Atomic uint32_t *word, uint32_t seen, uint64_t timeout_ns, bool shared)
{
    sim *s = sim_world;
    sim_spend();
    sim_fiber *f = sim_running();
    if (f == NULL || atomic_load(word) != seen ||
        sim_happens(&s->schedule, s->settings.spurious_chance))
        return;
    f->wait.word = sim_word_find(f->process, (const void *)word, shared);
    add_sleeper(s, f);
    sim_wait(WAIT_WORD, sim_deadline(timeout_ns), NULL);
    sim_sleeper_remove(s, f);
}

void world_wake(_Atomic uint32_t *word, bool shared)
{
    sim *s = sim_world;
    sim_spend();
    sim_fiber *f = sim_running();
    if (f == NULL)
        return;
    const sim_word which = sim_word_find(f->process, (const void *)word, shared);
    for (sim_fiber *sleeper = s->sleepers; sleeper != NULL; sleeper = sleeper->sleep_next) {
        if (is_same(&sleeper->wait.word, &which))
            sim_wake(sleeper);
    }
}

/* ---- Letting others go first ------------------------------------------------------------------------ */

void world_yield(void)
{
    sim_let_others();
}

void world_pause(void)
{
    sim *s = sim_world;
    sim_fiber *f = sim_running();
    if (f != NULL)
        f->debt_ns += sim_below(&s->schedule, PAUSES * s->settings.call_most_ns);
    sim_let_others();
}

void world_point(void)
{
    sim *s = sim_world;
    sim_fiber *f = sim_running();
    if (f == NULL)
        return;
    if (f->locks != 0)
        sim_fail("a point is passed with %u locks held", f->locks);
    s->statistics.points++;
    const bool wanted =
        s->point_hook != NULL && s->point_hook(s->point_context, f->process->number);
    if (wanted || sim_happens(&s->schedule, s->settings.switch_chance))
        sim_let_others();
    else
        sim_spend();
}

void world_copy(void *to, const void *from, size_t bytes)
{
    sim *s = sim_world;
    sim_fiber *f = sim_running();
    size_t done = 0;
    world_point();
    if (f != NULL && bytes > 1 && sim_happens(&s->schedule, s->settings.torn_chance)) {
        for (uint64_t left = sim_between(&s->schedule, 1, TORN_PIECES - 1); left > 0; left--) {
            const size_t piece = sim_below(&s->schedule, bytes - done + 1);
            memcpy((char *)to + done, (const char *)from + done, piece);
            done += piece;
            world_point();
        }
    }
    memcpy((char *)to + done, (const char *)from + done, bytes - done);
    world_point();
}

/* ---- Chance ------------------------------------------------------------------------------------------ */

void world_random(void *to, size_t bytes)
{
    static sim_stream without_world;
    sim *s = sim_world;
    sim_spend();
    sim_fiber *f = sim_running();
    sim_stream *r = f != NULL ? &f->process->random : s != NULL ? &s->harness : &without_world;
    if (s == NULL && without_world.state[0] == 0)
        without_world = sim_stream_open(0, 0);
    for (size_t done = 0; done < bytes;) {
        const uint64_t word = sim_next(r);
        for (int i = 0; i < 8 && done < bytes; i++)
            ((uint8_t *)to)[done++] = (uint8_t)(word >> 8 * i);
    }
}

/* ---- The error text ---------------------------------------------------------------------------------- */

/* base/status.c asks for it: each fiber has its own, as each thread has in the real world. */
char *world_status_text(void);

char *world_status_text(void)
{
    static char without_fiber[STATUS_TEXT_MAX];
    sim_fiber *f = sim_running();
    return f != NULL ? f->text : without_fiber;
}
