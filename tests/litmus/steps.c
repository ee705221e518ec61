/* steps.c: what one step of a thread does, in each of its ways.
 *
 * Steps that no other thread can notice, and plain accesses, are done together with the step before them: whether a
 * plain access is a race depends on what happened before it, which does not change while it waits.
 */
#include "machine.h"

#define OWN_STEPS_MAX 1000 /* without one that others notice: a loop that never ends */

/* A load of what only the thread itself changes, if anybody, has one way and nobody notices it. */
static bool is_own(const machine *m, int t, const litmus_step *step)
{
    return step->kind <= STEP_NAP || (step->kind == STEP_FENCE && step->order != SEQ_CST) ||
           (step->kind == STEP_LOAD && (m->writers[step->place] & ~(1u << t)) == 0);
}

static bool holds(int a, litmus_relation relation, int b)
{
    return relation == EQ ? a == b : relation == NE ? a != b : a >= b;
}

static int value_of(const thread *own, const litmus_step *step)
{
    return step->by_register ? own->registers[step->value] : step->value;
}

/* ---- The story ------------------------------------------------------------------------------- */

static const char *place_name(const machine *m, const litmus_step *step)
{
    return m->program->places[step->place].name;
}

static void tell(const machine *m, int t, const litmus_step *step, const char *what, int value)
{
    if (m->story == NULL)
        return;
    fprintf(m->story, "  %-12s %s", m->program->threads[t].name,
            step->says != NULL ? step->says : "");
    if (what != NULL)
        fprintf(m->story, "   [%s %s %d]", place_name(m, step), what, value);
    fputc('\n', m->story);
}

/* A load, and how old what it saw was. */
static void tell_load(const machine *m, const state *s, int t, const litmus_step *step, int at)
{
    if (m->story == NULL)
        return;
    const int newer = s->count[step->place] - 1 - at;
    tell(m, t, step, newer > 0 ? "is still seen as" : "is", message_value(s, step->place, at));
}

/* ---- Steps of the thread's own --------------------------------------------------------------- */

static void must(machine *m, const thread *own, int t, const litmus_step *step)
{
    const int value = own->registers[step->reg];
    if (holds(value, step->relation, value_of(own, step)))
        return;
    snprintf(m->failure_text, sizeof m->failure_text, "%s: %s, but it is %d",
             m->program->threads[t].name, step->says, value);
    m->failure = m->failure_text;
}

static void load_latest(const machine *m, state *s, int t, const litmus_step *step)
{
    const int at = s->count[step->place] - 1;
    tell_load(m, s, t, step, at);
    s->threads[t].registers[step->reg] = (int16_t)memory_load(s, t, step->place, at, step->order);
}

/* A plain access that is a race has failed; what follows is not looked at any more. */
static void run_own(machine *m, state *s, int t, const litmus_step *step)
{
    thread *own = &s->threads[t];
    const int value = value_of(own, step);
    int got;
    switch (step->kind) {
    case STEP_GOTO:
        own->next = (uint8_t)machine_label(m, t, step->label);
        break;
    case STEP_IF:
        if (holds(own->registers[step->reg], step->relation, value))
            own->next = (uint8_t)machine_label(m, t, step->label);
        break;
    case STEP_SET:
        own->registers[step->reg] = (int16_t)value;
        break;
    case STEP_COUNT:
        own->registers[step->reg] = (int16_t)(own->registers[step->reg] + value);
        break;
    case STEP_MUST:
        must(m, own, t, step);
        break;
    case STEP_READ:
        if (memory_read(m, s, t, step->place, &got))
            own->registers[step->reg] = (int16_t)got;
        tell(m, t, step, "is", own->registers[step->reg]);
        break;
    case STEP_WRITE:
        memory_write(m, s, t, step->place, value);
        tell(m, t, step, "becomes", value);
        break;
    case STEP_FENCE:
        memory_fence(s, t, step->order);
        tell(m, t, step, NULL, 0);
        break;
    case STEP_LOAD:
        load_latest(m, s, t, step);
        break;
    default:
        break;
    }
}

static void forget_registers(const machine *m, thread *own, int t)
{
    for (int r = 0; r < LITMUS_REGISTERS; r++) {
        if ((m->live[t][own->next] >> r & 1) == 0)
            own->registers[r] = 0;
    }
}

static void end_thread(state *s, int t)
{
    thread *own = &s->threads[t];
    own->ended = 1;
    own->current = own->acquired = own->released = (view){.knows = 0};
}

/* On to the next step that others can notice. */
static void settle(machine *m, state *s, int t)
{
    thread *own = &s->threads[t];
    for (int i = 0; m->failure == NULL && !own->ended && i < OWN_STEPS_MAX; i++) {
        const litmus_step *step = &m->steps[t][own->next];
        forget_registers(m, own, t);
        if (step->kind == STEP_END) {
            end_thread(s, t);
            return;
        }
        if (!is_own(m, t, step))
            return;
        own->next++;
        run_own(m, s, t, step);
    }
    if (m->failure == NULL && !own->ended)
        m->failure = "the program has a loop without a step that others notice";
}

void steps_init(machine *m, state *s)
{
    memory_init(m, s);
    for (int t = 0; t < m->threads; t++)
        settle(m, s, t);
    memory_tidy(m, s);
}

/* ---- Steps that others notice ---------------------------------------------------------------- */

static void no_room(machine *m, const litmus_step *step, bool stored)
{
    if (stored)
        return;
    snprintf(m->failure_text, sizeof m->failure_text, "no room for more messages of '%s'",
             place_name(m, step));
    m->failure = m->failure_text;
}

static applied load(machine *m, state *s, int t, const litmus_step *step, int at)
{
    thread *own = &s->threads[t];
    const int value = message_value(s, step->place, at);
    if (step->kind == STEP_AWAIT && !holds(value, step->relation, value_of(own, step)))
        return APPLIED_NOT;
    tell_load(m, s, t, step, at);
    own->registers[step->reg] = (int16_t)memory_load(s, t, step->place, at, step->order);
    own->next++;
    return APPLIED;
}

static applied modify(machine *m, state *s, int t, const litmus_step *step, int at)
{
    thread *own = &s->threads[t];
    const int before = message_value(s, step->place, at);
    const bool compares = step->kind == STEP_COMPARE_EXCHANGE;
    const int value = value_of(own, step) + (step->kind == STEP_ADD ? before : 0);
    if (compares && before != own->registers[step->reg])
        return load(m, s, t, step, at);
    if (!memory_fits_behind(s, step->place, at))
        return APPLIED_NOT;
    tell(m, t, step, "becomes", value);
    no_room(m, step, memory_modify(s, t, step->place, at, value, step->order));
    own->registers[step->reg] = (int16_t)before;
    own->next++;
    return APPLIED;
}

static applied store(machine *m, state *s, int t, const litmus_step *step, int at)
{
    if (!memory_fits_behind(s, step->place, at))
        return APPLIED_NOT;
    const int value = value_of(&s->threads[t], step);
    tell(m, t, step, at + 1 == s->count[step->place] ? "becomes" : "becomes, before newer ones,",
         value);
    no_room(m, step, memory_store(s, t, step->place, at, value, step->order));
    s->threads[t].next++;
    return APPLIED;
}

/* The kernel compares and falls asleep in one, as far as wakers can tell; one way more: a signal comes, or
 * the time is over. */
static applied fall_asleep(machine *m, state *s, int t, const litmus_step *step, int at)
{
    thread *own = &s->threads[t];
    if (at == s->count[step->place]) {
        if (own->returned == m->program->returns)
            return APPLIED_NOT;
        own->returned++;
        tell(m, t, step, NULL, 0);
        if (m->story != NULL)
            fprintf(m->story, "  %-12s … returns by itself\n", m->program->threads[t].name);
    } else {
        const int value = memory_load(s, t, step->place, at, RELAXED);
        tell_load(m, s, t, step, at);
        if (value == own->registers[step->reg])
            own->asleep = (uint8_t)(1 + step->place);
    }
    own->next++;
    return APPLIED;
}

static applied wake(machine *m, state *s, int t, const litmus_step *step)
{
    const uint8_t seen = s->threads[t].current.seen[step->place];
    tell(m, t, step, NULL, 0);
    if (s->kernel[step->place] < seen)
        s->kernel[step->place] = seen;
    for (int u = 0; u < m->threads; u++) {
        if (s->threads[u].asleep == 1 + step->place)
            s->threads[u].asleep = 0;
    }
    s->threads[t].next++;
    return APPLIED;
}

static applied only_way(machine *m, state *s, int t, const litmus_step *step)
{
    if (step->kind == STEP_WAKE)
        return wake(m, s, t, step);
    if (step->kind == STEP_LOCK && message_value(s, step->place, 0) != 0)
        return APPLIED_LAST;
    tell(m, t, step, NULL, 0);
    if (step->kind == STEP_LOCK)
        memory_lock(s, t, step->place);
    else if (step->kind == STEP_UNLOCK)
        memory_unlock(s, t, step->place);
    else
        memory_fence(s, t, step->order);
    s->threads[t].next++;
    return APPLIED;
}

static applied apply(machine *m, state *s, int t, const litmus_step *step, int way)
{
    if (step->kind == STEP_WAKE || step->kind == STEP_LOCK || step->kind == STEP_UNLOCK ||
        step->kind == STEP_FENCE)
        return way == 0 ? only_way(m, s, t, step) : APPLIED_LAST;
    const int at = memory_oldest(s, t, step) + way;
    if (at >= s->count[step->place] + (step->kind == STEP_SLEEP))
        return APPLIED_LAST;
    switch (step->kind) {
    case STEP_STORE:
        return store(m, s, t, step, at);
    case STEP_SLEEP:
        return fall_asleep(m, s, t, step, at);
    case STEP_LOAD:
    case STEP_AWAIT:
        return load(m, s, t, step, at);
    default:
        return modify(m, s, t, step, at);
    }
}

applied steps_apply(machine *m, state *s, int t, int way)
{
    if (s->threads[t].ended || s->threads[t].asleep)
        return APPLIED_LAST;
    const applied done = apply(m, s, t, &m->steps[t][s->threads[t].next], way);
    if (done != APPLIED)
        return done;
    settle(m, s, t);
    memory_tidy(m, s);
    return APPLIED;
}
