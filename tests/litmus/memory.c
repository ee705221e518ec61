/* memory.c: messages, views and fences. See machine.h for what they are, README.md for why they are like this. */
#include "machine.h"

#include <stddef.h>
#include <string.h>

static bool is_acquire(litmus_order order)
{
    return order == ACQUIRE || order == ACQ_REL || order == SEQ_CST;
}

static bool is_release(litmus_order order)
{
    return order == RELEASE || order == ACQ_REL || order == SEQ_CST;
}

static void join_seen(view *to, const view *from)
{
    for (int p = 0; p < LITMUS_PLACES; p++)
        to->seen[p] = from->seen[p] > to->seen[p] ? from->seen[p] : to->seen[p];
}

static void join(view *to, const view *from)
{
    join_seen(to, from);
    to->knows |= from->knows;
}

static void see(view *v, int place, int at)
{
    if (v->seen[place] < at)
        v->seen[place] = (uint8_t)at;
}

/* Calls a function for every view of a state. */
static void each_view(state *s, void (*change)(view *v, int place, int at), int place, int at)
{
    for (int t = 0; t < LITMUS_THREADS; t++) {
        change(&s->threads[t].current, place, at);
        change(&s->threads[t].acquired, place, at);
        change(&s->threads[t].released, place, at);
    }
    change(&s->sequential, place, at);
    for (uint32_t i = 0; i < s->total; i++)
        change(&s->messages[i].released, place, at);
}

void memory_init(const machine *m, state *s)
{
    memset(s, 0, sizeof *s);
    for (int p = 0; p < m->places; p++) {
        s->first[p] = (uint8_t)p;
        s->count[p] = 1;
        s->messages[p].value = (int16_t)m->program->places[p].initial;
        s->messages[p].released.knows = UINT32_MAX;
    }
    s->total = (uint32_t)m->places;
    for (int t = 0; t < m->threads; t++) {
        thread *own = &s->threads[t];
        own->current.knows = own->acquired.knows = own->released.knows = UINT32_MAX;
    }
}

void memory_copy(state *to, const state *from)
{
    memcpy(to, from, offsetof(state, messages) + from->total * sizeof from->messages[0]);
}

/* ---- Atomic words ---------------------------------------------------------------------------- */

/* seq_cst loads and stores come in one order, which is that of the steps, and see the seq_cst store before
 * them or what came later. */
int memory_oldest(const state *s, int t, const litmus_step *step)
{
    int oldest = s->threads[t].current.seen[step->place];
    if (step->order == SEQ_CST && s->sequential.seen[step->place] > oldest)
        oldest = s->sequential.seen[step->place];
    if (step->kind == STEP_SLEEP && s->kernel[step->place] > oldest)
        oldest = s->kernel[step->place];
    return oldest;
}

int memory_load(state *s, int t, int place, int at, litmus_order order)
{
    thread *own = &s->threads[t];
    const message *from = message_at(s, place, at);
    see(&own->current, place, at);
    if (is_acquire(order))
        join(&own->current, &from->released);
    join(&own->acquired, &from->released);
    see(&own->acquired, place, at);
    return from->value;
}

bool memory_fits_behind(const state *s, int place, int at)
{
    return at + 1 == s->count[place] || !s->messages[s->first[place] + at + 1].attached;
}

static void make_room(view *v, int place, int at)
{
    if (v->seen[place] >= at)
        v->seen[place]++;
}

static void shift_lists(state *s, int after, int by)
{
    for (int p = after + 1; p < LITMUS_PLACES; p++) {
        if (s->count[p] > 0)
            s->first[p] = (uint8_t)(s->first[p] + by);
    }
    s->total = (uint32_t)((int)s->total + by);
}

/* A new message, behind the one at `at`. */
static message *insert(state *s, int place, int at)
{
    if (s->total == MESSAGES_MAX)
        return NULL;
    each_view(s, make_room, place, at + 1);
    if (s->kernel[place] > at)
        s->kernel[place]++;
    message *made = message_at(s, place, at + 1);
    memmove(made + 1, made, (size_t)(s->messages + s->total - made) * sizeof *made);
    s->count[place]++;
    shift_lists(s, place, 1);
    memset(made, 0, sizeof *made);
    return made;
}

static bool store(state *s, int t, int place, int at, int value, litmus_order order,
                  const view *passed_on)
{
    thread *own = &s->threads[t];
    message *made = insert(s, place, at);
    if (made == NULL)
        return false;
    see(&own->current, place, at + 1);
    see(&own->acquired, place, at + 1);
    if (order == SEQ_CST)
        see(&s->sequential, place, at + 1);
    made->value = (int16_t)value;
    made->released = is_release(order) ? own->current : own->released;
    see(&made->released, place, at + 1);
    if (passed_on != NULL) {
        made->attached = 1;
        join(&made->released, passed_on);
    }
    return true;
}

bool memory_store(state *s, int t, int place, int at, int value, litmus_order order)
{
    return store(s, t, place, at, value, order, NULL);
}

/* A read-modify-write goes on with the release sequence of what it has read. Relaxed stores of the same thread
 * do not, as in C17; C11 still lets them. */
bool memory_modify(state *s, int t, int place, int at, int value, litmus_order order)
{
    memory_load(s, t, place, at, order);
    const view passed_on = message_at(s, place, at)->released;
    return store(s, t, place, at, value, order, &passed_on);
}

/* A seq_cst fence makes nothing happen before (`knows`) but what acquire and release fences do. */
void memory_fence(state *s, int t, litmus_order order)
{
    thread *own = &s->threads[t];
    if (is_acquire(order))
        own->current = own->acquired;
    if (order == SEQ_CST) {
        join_seen(&s->sequential, &own->current);
        join_seen(&own->current, &s->sequential);
        own->acquired = own->current;
    }
    if (is_release(order))
        own->released = own->current;
}

/* ---- Plain memory and locks ------------------------------------------------------------------ */

static uint32_t write_bit(const machine *m, int place)
{
    return UINT32_C(1) << (m->plain_index[place] * (1 + LITMUS_THREADS));
}

static uint32_t read_bit(const machine *m, int place, int t)
{
    return write_bit(m, place) << (1 + t);
}

static void forget(state *s, uint32_t bits)
{
    for (int t = 0; t < LITMUS_THREADS; t++) {
        s->threads[t].current.knows &= ~bits;
        s->threads[t].acquired.knows &= ~bits;
        s->threads[t].released.knows &= ~bits;
    }
    for (uint32_t i = 0; i < s->total; i++)
        s->messages[i].released.knows &= ~bits;
}

static bool race(machine *m, int t, int place, const char *how)
{
    snprintf(m->failure_text, sizeof m->failure_text,
             LITMUS_RACE ": %s %s '%s', and what another thread has done with it did not happen "
                         "before",
             m->program->threads[t].name, how, m->program->places[place].name);
    m->failure = m->failure_text;
    return false;
}

bool memory_read(machine *m, state *s, int t, int place, int *value)
{
    thread *own = &s->threads[t];
    if ((own->current.knows & write_bit(m, place)) == 0)
        return race(m, t, place, "reads");
    forget(s, read_bit(m, place, t));
    own->current.knows |= read_bit(m, place, t);
    own->acquired.knows |= read_bit(m, place, t);
    *value = message_at(s, place, 0)->value;
    return true;
}

/* Whoever will know of the write will know of all reads before it. */
bool memory_write(machine *m, state *s, int t, int place, int value)
{
    thread *own = &s->threads[t];
    uint32_t all = write_bit(m, place), reads = 0;
    for (int u = 0; u < m->threads; u++)
        reads |= read_bit(m, place, u);
    all |= reads & ~read_bit(m, place, t);
    if ((own->current.knows & all) != all)
        return race(m, t, place, "writes");
    forget(s, write_bit(m, place) | reads);
    own->current.knows |= write_bit(m, place) | reads;
    own->acquired.knows |= write_bit(m, place) | reads;
    message_at(s, place, 0)->value = (int16_t)value;
    return true;
}

void memory_lock(state *s, int t, int place)
{
    message_at(s, place, 0)->value = 1;
    join(&s->threads[t].current, &message_at(s, place, 0)->released);
    join(&s->threads[t].acquired, &message_at(s, place, 0)->released);
}

void memory_unlock(state *s, int t, int place)
{
    message_at(s, place, 0)->value = 0;
    message_at(s, place, 0)->released = s->threads[t].current;
}

/* ---- One form -------------------------------------------------------------------------------- */

static void count_from(view *v, int place, int first)
{
    v->seen[place] = (uint8_t)(v->seen[place] > first ? v->seen[place] - first : 0);
}

static void drop_before(state *s, int place, int first)
{
    message *list = message_at(s, place, 0);
    memmove(list, list + first, (size_t)(s->messages + s->total - list - first) * sizeof *list);
    s->count[place] = (uint8_t)(s->count[place] - first);
    shift_lists(s, place, -first);
    each_view(s, count_from, place, first);
    s->kernel[place] = (uint8_t)(s->kernel[place] > first ? s->kernel[place] - first : 0);
}

/* The first message that the thread can still load, or store behind. */
static int first_needed(const machine *m, const state *s, int t, int place)
{
    const thread *own = &s->threads[t];
    const uint32_t bit = UINT32_C(1) << place;
    const int seen = own->current.seen[place], agreed = s->sequential.seen[place];
    if (own->ended || ((m->weak[t][own->next] | m->strong[t][own->next]) & bit) == 0)
        return s->count[place] - 1;
    return (m->weak[t][own->next] & bit) == 0 && agreed > seen ? agreed : seen;
}

void memory_tidy(const machine *m, state *s)
{
    for (int p = 0; p < m->places; p++) {
        int first = s->count[p] - 1;
        for (int t = 0; t < m->threads && first > 0; t++) {
            const int needed = first_needed(m, s, t, p);
            first = needed < first ? needed : first;
        }
        if (first > 0)
            drop_before(s, p, first);
        message_at(s, p, 0)->attached = 0;
    }
}
