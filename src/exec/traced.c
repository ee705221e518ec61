/* traced.c: what exec tells the trace. Called once a tick, after its last step: peers have our flag by
 * then, so the time it takes is mostly time that we would have waited. */
#include "exec/exec.h"

static trace_record record_of(const exec_op *o, trace_event event, uint64_t now)
{
    return (trace_record){.time = now,
                          .number = o->bound.number,
                          .set = o->bound.channel->group->set,
                          .phase = o->phase,
                          .event = (uint8_t)event,
                          .peer = TRACE_NOBODY};
}

static void put_begin(exec_op *o, uint64_t now)
{
    trace_record r = record_of(o, TRACE_BEGINS, now);
    r.kind = (uint8_t)o->bound.plan->collective;
    r.peer = (uint16_t)o->bound.plan->algorithm;
    r.last_step = o->bound.tensor_count;
    trace_put(o->bound.trace, &r);
    o->trace_begun = true;
}

static void put_steps(exec_op *o, trace_event event, uint64_t now, uint32_t tick, uint32_t first,
                      uint32_t last)
{
    trace_record r = record_of(o, event, now);
    r.tick = tick;
    r.first_step = first;
    r.last_step = last;
    r.kind = o->bound.plan->steps[last].kind;
    if (event == TRACE_WAITS && o->waiting_for >= 0)
        r.peer = (uint16_t)o->waiting_for;
    trace_put(o->bound.trace, &r);
}

/* A step that waits is tried again and again; it is told once. */
static bool is_known_to_wait(exec_op *o, uint32_t step)
{
    if (o->trace_waits && o->trace_waits_tick == o->tick && o->trace_waits_step == step)
        return true;
    o->trace_waits = true;
    o->trace_waits_tick = o->tick;
    o->trace_waits_step = step;
    return false;
}

void exec_trace_tick(exec_op *o, uint32_t from, bool blocked, bool failed)
{
    const plan *p = o->bound.plan;
    const plan_phase *phase = &p->phases[o->phase];
    const uint32_t first = phase->first + from, at = phase->first + o->step;
    if (phase->count == 0 || (blocked && is_known_to_wait(o, at)))
        return;
    const uint64_t now = os_ticks();
    if (!o->trace_begun)
        put_begin(o, now);
    if (!blocked && !failed) { /* the tick is done, and o->tick counts the next one */
        const bool last = o->tick == o->ticks && o->phase + 1 == p->phase_count;
        put_steps(o, last ? TRACE_ENDS : TRACE_RAN, now, o->tick - 1, first,
                  phase->first + phase->count - 1);
        return;
    }
    if (at > first)
        put_steps(o, TRACE_RAN, now, o->tick, first, at - 1);
    put_steps(o, failed ? TRACE_FAILS : TRACE_WAITS, now, o->tick, at, at);
}
