/* uses.c: which registers and places a thread still uses, found from its steps alone. */
#include "machine.h"

#include <string.h>

#define BIT(number) (uint8_t)(1u << (number))

static uint8_t uses(const litmus_step *step)
{
    uint8_t used = step->by_register ? BIT(step->value) : 0;
    if (step->kind == STEP_IF || step->kind == STEP_MUST || step->kind == STEP_COUNT ||
        step->kind == STEP_COMPARE_EXCHANGE || step->kind == STEP_SLEEP)
        used |= BIT(step->reg);
    return used;
}

static uint8_t sets(const litmus_step *step)
{
    switch (step->kind) {
    case STEP_SET:
    case STEP_READ:
    case STEP_LOAD:
    case STEP_AWAIT:
    case STEP_ADD:
    case STEP_EXCHANGE:
        return BIT(step->reg);
    default:
        return 0;
    }
}

static bool is_on_word(const litmus_step *step)
{
    return step->kind >= STEP_LOAD && step->kind <= STEP_SLEEP;
}

/* What is needed from a step on, in registers and places. */
typedef struct needs {
    uint8_t live;
    uint32_t strong, weak;
} needs;

static needs needs_at(const machine *m, int t, int at)
{
    return (needs){m->live[t][at], m->strong[t][at], m->weak[t][at]};
}

static needs needs_after(const machine *m, int t, int at)
{
    const litmus_step *step = &m->steps[t][at];
    if (step->kind == STEP_GOTO)
        return needs_at(m, t, machine_label(m, t, step->label));
    needs n = needs_at(m, t, at + 1);
    if (step->kind == STEP_IF) {
        const needs other = needs_at(m, t, machine_label(m, t, step->label));
        n = (needs){n.live | other.live, n.strong | other.strong, n.weak | other.weak};
    }
    return n;
}

/* True: more is needed than was known. */
static bool find_at(machine *m, int t, int at)
{
    const litmus_step *step = &m->steps[t][at];
    const needs before = needs_at(m, t, at);
    needs n = needs_after(m, t, at);
    n.live = (uint8_t)((n.live & ~sets(step)) | uses(step) | before.live);
    if (is_on_word(step) && step->order == SEQ_CST)
        n.strong |= UINT32_C(1) << step->place;
    else if (is_on_word(step))
        n.weak |= UINT32_C(1) << step->place;
    m->live[t][at] = n.live;
    m->strong[t][at] = n.strong;
    m->weak[t][at] = n.weak;
    return n.live != before.live || n.strong != before.strong || n.weak != before.weak;
}

/* Again and again until nothing is added: loops go backwards. */
static void find_needs(machine *m, int t)
{
    int count = 0;
    while (m->steps[t][count].kind != STEP_END)
        count++;
    m->live[t][count] = m->program->judges_registers ? UINT8_MAX : 0;
    for (bool more = true; more;) {
        more = false;
        for (int i = count - 1; i >= 0; i--)
            more |= find_at(m, t, i);
    }
}

static bool changes(const litmus_step *step)
{
    return step->kind == STEP_STORE || step->kind == STEP_ADD || step->kind == STEP_EXCHANGE ||
           step->kind == STEP_COMPARE_EXCHANGE;
}

/* As if everything were used all the time. */
static void use_all(machine *m)
{
    memset(m->live, UINT8_MAX, sizeof m->live);
    memset(m->weak, UINT8_MAX, sizeof m->weak);
    memset(m->writers, UINT8_MAX, sizeof m->writers);
}

void uses_find(machine *m)
{
    if (m->program->whole) {
        use_all(m);
        return;
    }
    for (int t = 0; t < m->threads; t++) {
        find_needs(m, t);
        for (int i = 0; m->steps[t][i].kind != STEP_END; i++) {
            if (changes(&m->steps[t][i]))
                m->writers[m->steps[t][i].place] |= BIT(t);
        }
    }
}
