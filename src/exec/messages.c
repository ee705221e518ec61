/* messages.c: SEND, RECV and RECV_REDUCE over the transport's byte streams.
 *
 * Each message has a header that names generation, set, operation, phase and piece, so that a swapped
 * or stale one is an error and never wrong data. Messages are padded to 8 bytes: no element lies
 * across the end of a ring. Invariant: of two messages to (or from) one peer, the one started first
 * moves first.
 */
#include "exec/exec.h"

#include <stdlib.h>
#include <string.h>

#define MESSAGE_UNIT 8

typedef struct message_header {
    uint64_t generation, operation;
    uint32_t set, phase, piece, zero;
    uint64_t bytes;
} message_header;

struct exec_message {
    const plan_step *step;
    uint32_t piece;
    message_header header;
    uint64_t total; /* elements */
    uint64_t moved; /* bytes of header, elements and padding together */
};

/* What identifies a message is what both sides know: the plans differ by rank, so the step is named
 * by phase and by its place among the messages between the two, which FIFO order gives for free. */
static message_header header_of(const exec_op *o, uint32_t piece, uint64_t bytes)
{
    const control_group *g = o->bound.channel->group;
    return (message_header){.generation = g->segment->header->generation,
                            .operation = o->bound.number,
                            .set = g->set,
                            .phase = o->phase,
                            .piece = piece,
                            .bytes = bytes};
}

rueda_status exec_message_start(exec_op *o, const plan_step *step, uint32_t piece)
{
    if (o->message_count == o->message_capacity) {
        const uint32_t capacity = o->message_capacity == 0 ? 8 : 2 * o->message_capacity;
        exec_message *grown = realloc(o->messages, capacity * sizeof *grown);
        if (grown == NULL)
            return status_fail(RUEDA_ERR_MEMORY, "out of memory for messages of an operation");
        o->messages = grown;
        o->message_capacity = capacity;
    }
    const uint64_t total = exec_step_count(o, step, piece);
    o->messages[o->message_count++] =
        (exec_message){.step = step,
                       .piece = piece,
                       .header = header_of(o, piece, total * o->element),
                       .total = total};
    return RUEDA_OK;
}

static uint64_t padding_of(const exec_op *o, const exec_message *m)
{
    return (MESSAGE_UNIT - m->total * o->element % MESSAGE_UNIT) % MESSAGE_UNIT;
}

static uint64_t length_of(const exec_op *o, const exec_message *m)
{
    return sizeof m->header + m->total * o->element + padding_of(o, m);
}

/* Sends what fits of one region of the message (header, a part of the data, or padding). */
static uint64_t send_some(exec_op *o, exec_message *m)
{
    static const uint8_t zeros[MESSAGE_UNIT];
    transport_channel *c = o->bound.channel;
    if (m->moved < sizeof m->header)
        return c->table->send(c, m->step->peer, (uint8_t *)&m->header + m->moved,
                              sizeof m->header - m->moved);
    const uint64_t done = m->moved - sizeof m->header;
    if (done >= m->total * o->element)
        return c->table->send(c, m->step->peer, zeros, length_of(o, m) - m->moved);
    const uint64_t element = done / o->element, within = done % o->element;
    const exec_run_part part = exec_part(o, m->step, m->piece, element, m->total);
    return c->table->send(c, m->step->peer, exec_address(o, m->step->a, m->piece, part) + within,
                          part.count * o->element - within);
}

static rueda_status check_header(const exec_op *o, const exec_message *m, const void *data)
{
    if (memcmp(data, &m->header, sizeof m->header) == 0)
        return RUEDA_OK;
    const message_header *got = data;
    return status_fail(
        RUEDA_ERR_INTERNAL,
        "rank %u expected message (operation %llu, phase %u, piece %u, %llu bytes) from "
        "rank %u and got (%llu, %u, %u, %llu)",
        o->index, (unsigned long long)m->header.operation, m->header.phase, m->header.piece,
        (unsigned long long)m->header.bytes, m->step->peer, (unsigned long long)got->operation,
        got->phase, got->piece, (unsigned long long)got->bytes);
}

static uint64_t take_elements(exec_op *o, exec_message *m, const uint8_t *data, size_t bytes)
{
    const uint64_t element = (m->moved - sizeof m->header) / o->element;
    exec_run_part part = exec_part(o, m->step, m->piece, element, m->total);
    if (part.count > bytes / o->element)
        part.count = bytes / o->element;
    uint8_t *dst = exec_address(o, m->step->dst, m->piece, part);
    if (m->step->kind == PLAN_RECV) {
        memcpy(dst, data, part.count * o->element);
    } else {
        const uint8_t *own = exec_address(o, m->step->a, m->piece, part);
        const bool message_first = (m->step->flags & PLAN_MESSAGE_FIRST) != 0;
        o->kernel->reduce[o->bound.dtype][o->bound.op](dst, message_first ? data : own,
                                                       message_first ? own : data, part.count);
    }
    return part.count * o->element;
}

static rueda_status receive_some(exec_op *o, exec_message *m, uint64_t *taken)
{
    transport_channel *c = o->bound.channel;
    const void *data;
    const size_t bytes = c->table->peek(c, m->step->peer, &data);
    const uint64_t data_end = sizeof m->header + m->total * o->element;
    *taken = 0;
    if (m->moved < sizeof m->header) {
        /* headers may wrap around the ring: compare in the pieces they come in */
        uint64_t part = sizeof m->header - m->moved;
        part = part < bytes ? part : bytes;
        if (memcmp(data, (uint8_t *)&m->header + m->moved, part) != 0)
            return bytes >= sizeof m->header
                       ? check_header(o, m, data)
                       : status_fail(RUEDA_ERR_INTERNAL,
                                     "rank %u got an unexpected message from rank %u", o->index,
                                     m->step->peer);
        *taken = part;
    } else if (m->moved < data_end) {
        *taken = bytes < o->element ? 0 : take_elements(o, m, data, bytes);
    } else {
        const uint64_t rest = length_of(o, m) - m->moved;
        *taken = rest < bytes ? rest : bytes;
    }
    if (*taken > 0)
        c->table->consume(c, m->step->peer, *taken);
    return RUEDA_OK;
}

static rueda_status move_message(exec_op *o, exec_message *m, bool *moved)
{
    const uint64_t length = length_of(o, m);
    while (m->moved < length) {
        uint64_t taken;
        rueda_status status = RUEDA_OK;
        if (m->step->kind == PLAN_SEND)
            taken = send_some(o, m);
        else
            status = receive_some(o, m, &taken);
        if (status != RUEDA_OK)
            return status;
        if (taken == 0) {
            o->waiting_for = m->step->peer;
            return RUEDA_OK;
        }
        m->moved += taken;
        *moved = true;
    }
    return RUEDA_OK;
}

/* Whether an earlier unfinished message uses the same stream. */
static bool is_behind(const exec_op *o, uint32_t index)
{
    const exec_message *m = &o->messages[index];
    for (uint32_t i = 0; i < index; i++) {
        const exec_message *earlier = &o->messages[i];
        if (earlier->step->peer == m->step->peer &&
            (earlier->step->kind == PLAN_SEND) == (m->step->kind == PLAN_SEND) &&
            earlier->moved < length_of(o, earlier))
            return true;
    }
    return false;
}

rueda_status exec_messages_progress(exec_op *o, bool *done, bool *moved)
{
    *done = true;
    for (uint32_t i = 0; i < o->message_count; i++) {
        exec_message *m = &o->messages[i];
        const uint64_t length = length_of(o, m);
        if (m->moved == length)
            continue;
        if (!is_behind(o, i)) {
            const rueda_status status = move_message(o, m, moved);
            if (status != RUEDA_OK)
                return status;
        }
        *done = *done && m->moved == length;
    }
    if (*done) {
        o->message_count = 0;
        o->waiting_for = -1;
    }
    return RUEDA_OK;
}
