/* trace_ticks.c: what exec tells the trace. */
#include "exec/exec.h"

_Static_assert(PLAN_KIND_COUNT <= 1 << TRACE_NAME_BITS, "a record has room for it");
_Static_assert(PLAN_COLLECTIVE_COUNT <= 1 << TRACE_NAME_BITS, "a record has room for it");
_Static_assert(PLAN_ALGORITHM_COUNT <= 1 << TRACE_NAME_BITS, "a record has room for it");
_Static_assert(SEGMENT_SETS <= 1 << TRACE_SET_BITS, "a record has room for it");
_Static_assert(EXEC_TICK_BITS <= TRACE_TICK_BITS, "a record has room for it");

#define SMALL_BYTES 16384 /* of a chunk; below, an operation takes but some microseconds */

/* The clock takes 2 % of the time of the smallest operations: their end is told with the coarse one, and
 * their ticks, less than a microsecond each, are not told at all. */
bool exec_trace_wants_ticks(const exec_op *o)
{
    return o->bound.trace != NULL && o->bound.largest * o->element >= SMALL_BYTES;
}

static void put(const exec_op *o, trace_event event, uint64_t now, uint32_t phase, uint32_t tick,
                uint32_t first, uint32_t last)
{
    const plan *p = o->bound.plan;
    trace_put(o->bound.trace,
              &(trace_record){.time_ns = now,
                              .number = o->bound.number,
                              .set = o->bound.channel->members->set,
                              .phase = phase,
                              .tick = tick,
                              .first_step = first,
                              .last_step = last,
                              .event = (uint8_t)event,
                              .kind = p->steps[last].kind,
                              .peer = o->waiting_for < 0 ? TRACE_NOBODY : (uint16_t)o->waiting_for,
                              .collective = (uint8_t)p->collective,
                              .algorithm = (uint8_t)p->algorithm});
}

void exec_trace_tick(const exec_op *o)
{
    const plan *p = o->bound.plan;
    const plan_phase *phase = &p->phases[o->phase];
    const bool last = o->tick == o->ticks && o->phase + 1 == p->phase_count;
    if (phase->count > 0 && !last)
        put(o, TRACE_RAN, world_now_ns(), o->phase, o->tick - 1, phase->first,
            phase->first + phase->count - 1);
}

void exec_trace_end(const exec_op *o)
{
    const plan *p = o->bound.plan;
    const uint64_t now = o->traces_ticks ? world_now_ns() : world_now_coarse_ns();
    const uint32_t last = p->phase_count > 0 ? p->phase_count - 1 : 0;
    put(o, TRACE_ENDS, now, last, o->ticks > 0 ? o->ticks - 1 : 0,
        p->phase_count > 0 ? p->phases[last].first : 0, p->step_count - 1);
}

void exec_trace_stuck(const exec_op *o, bool failed)
{
    const uint32_t step = exec_next_step(o);
    put(o, failed ? TRACE_FAILS : TRACE_WAITS, world_now_ns(), o->phase, o->tick, step, step);
}
