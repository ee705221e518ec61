/* change.c: a program as it is run: with its changes made. */
#include "machine.h"

#include <assert.h>
#include <string.h>

static bool is_named(const litmus_step *step, const char *name)
{
    return name != NULL && step->name != NULL && strcmp(step->name, name) == 0;
}

/* Returns how many there were. */
static int leave_out(litmus_step *steps, const char *name)
{
    int found = 0;
    for (int i = 0; steps[i].kind != STEP_END; i++) {
        if (is_named(&steps[i], name)) {
            steps[i] = (litmus_step){.kind = STEP_NAP};
            found++;
        }
    }
    return found;
}

static int set_order(litmus_step *steps, const char *name, litmus_order order)
{
    int found = 0;
    for (int i = 0; steps[i].kind != STEP_END; i++) {
        if (is_named(&steps[i], name)) {
            steps[i].order = order;
            found++;
        }
    }
    return found;
}

static int move(litmus_step *steps, const char *name, const char *behind)
{
    int found = 0;
    for (int i = 0; steps[i].kind != STEP_END; i++) {
        if (!is_named(&steps[i], name))
            continue;
        int to = i;
        while (steps[to].kind != STEP_END && !is_named(&steps[to], behind))
            to++;
        if (steps[to].kind == STEP_END)
            continue;
        const litmus_step moved = steps[i];
        memmove(&steps[i], &steps[i + 1], (size_t)(to - i) * sizeof moved);
        steps[to] = moved;
        found++;
        i = to;
    }
    return found;
}

static void make(machine *m, const litmus_change *change)
{
    int found = 0;
    for (int t = 0; t < m->threads; t++) {
        litmus_step *steps = m->steps[t];
        found += leave_out(steps, change->leave_out);
        found += set_order(steps, change->order_of, change->order);
        found += move(steps, change->move, change->behind);
    }
    const bool wanted =
        change->leave_out != NULL || change->order_of != NULL || change->move != NULL;
    assert(!wanted || found > 0); /* a change that changes nothing would show nothing */
    (void)wanted;
    (void)found;
}

static void copy_steps(litmus_step *to, const litmus_step *from)
{
    int i = 0;
    for (; from[i].kind != STEP_END; i++) {
        assert(i < STEPS_MAX - 1);
        to[i] = from[i];
    }
    to[i] = from[i];
}

void machine_init(machine *m, const litmus_program *program, const litmus_change *changes,
                  int count)
{
    *m = (machine){.program = program};
    int8_t plain = 0;
    while (m->places < LITMUS_PLACES && program->places[m->places].name != NULL) {
        m->plain_index[m->places] =
            program->places[m->places].memory == PLAIN_MEMORY ? plain++ : (int8_t)-1;
        m->places++;
    }
    assert(plain <= PLAIN_MAX);
    while (m->threads < LITMUS_THREADS && program->threads[m->threads].steps != NULL) {
        copy_steps(m->steps[m->threads], program->threads[m->threads].steps);
        m->threads++;
    }
    for (int i = 0; i < count; i++)
        make(m, &changes[i]);
    uses_find(m);
}

int machine_label(const machine *m, int t, int label)
{
    for (int i = 0; m->steps[t][i].kind != STEP_END; i++) {
        if (m->steps[t][i].kind == STEP_LABEL && m->steps[t][i].label == label)
            return i;
    }
    assert(!"a step goes to a label that is not there");
    return 0;
}
