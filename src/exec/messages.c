/* messages.c: SEND, RECV and RECV_REDUCE over the transport's byte streams.
 *
 * Each message has a header that names generation, set, operation, phase and piece, so that a swapped
 * or stale one is an error and never wrong data. Messages are padded to 8 bytes: no element lies
 * across the end of a ring, and a reduction finds its operands aligned. Invariant: of two messages to (or from) one peer, the one started first
 * moves first.
 */
#include "exec/exec.h"

#include <stdlib.h>
#include <string.h>

#define MESSAGE_UNIT 8
#define MESSAGE_PARTS 16 /* stretches of memory that are sent with one call */

typedef struct message_header {
    uint64_t generation, operation;
    uint32_t set, phase, piece, zero;
    uint64_t bytes;
} message_header;

struct exec_message {
    const plan_step *step;
    uint32_t piece;
    message_header header;
    uint64_t total; /* elements; with SUMS, doubles */
    uint64_t bytes; /* of the body */
    uint64_t moved; /* bytes of header, body and padding together */
};

/* What identifies a message is what both sides know: the plans differ by rank, so the step is named
 * by phase and by its place among the messages between the two, which FIFO order gives for free. */
static message_header header_of(const exec_op *o, uint32_t piece, uint64_t bytes)
{
    const control_members *g = o->bound.channel->members;
    return (message_header){.generation = g->job->generation,
                            .operation = o->bound.number,
                            .set = g->set,
                            .phase = o->phase,
                            .piece = piece,
                            .bytes = bytes};
}

/* The dot products of Adasum go to ranks that cannot reach our memory. */
static bool carries_sums(const plan_step *step)
{
    return (step->kind == PLAN_SEND ? step->a : step->dst).buffer == PLAN_SUMS;
}

/* A message may be of nothing: who gets it knows that the sender has come. */
static uint64_t elements_of(const exec_op *o, const plan_step *step, uint32_t piece)
{
    if (step->dst.buffer == PLAN_NONE && step->a.buffer == PLAN_NONE)
        return 0;
    return carries_sums(step) ? (uint64_t)o->bound.tensor_count * SEGMENT_SUM_PARTS
                              : exec_step_count(o, step, piece);
}

static rueda_status add_message(exec_op *o, const plan_step *step, uint32_t piece)
{
    if (o->message_count == o->message_capacity) {
        const uint32_t capacity = o->message_capacity == 0 ? 8 : 2 * o->message_capacity;
        exec_message *grown = realloc(o->messages, capacity * sizeof *grown);
        if (grown == NULL)
            return status_fail(RUEDA_ERR_MEMORY, "out of memory for messages of an operation");
        o->messages = grown;
        o->message_capacity = capacity;
    }
    exec_message *m = &o->messages[o->message_count++];
    *m = (exec_message){.step = step, .piece = piece};
    m->total = elements_of(o, step, piece);
    m->bytes = m->total * (carries_sums(step) ? sizeof(double) : o->element);
    m->header = header_of(o, piece, m->bytes);
    return RUEDA_OK;
}

static uint64_t length_of(const exec_message *m)
{
    return sizeof m->header + (m->bytes + MESSAGE_UNIT - 1) / MESSAGE_UNIT * MESSAGE_UNIT;
}

/* The memory of the body from byte `done` on, as far as it is in one piece. */
static struct iovec body_at(const exec_op *o, const exec_message *m, plan_operand x, uint64_t done)
{
    if (carries_sums(m->step))
        return (struct iovec){(uint8_t *)exec_sums(o, x.rank, x.index, 0) + done, m->bytes - done};
    const uint64_t element = done / o->element, within = done % o->element;
    const exec_run_part part = exec_part(o, m->step, m->piece, element, m->total);
    return (struct iovec){exec_address(o, x, m->piece, part) + within,
                          part.count * o->element - within};
}

/* All that is left of a message, up to MESSAGE_PARTS stretches of memory, in one call. */
static uint64_t send_some(exec_op *o, exec_message *m)
{
    static const uint8_t zeros[MESSAGE_UNIT];
    struct iovec parts[MESSAGE_PARTS];
    int count = 0;
    uint64_t at = m->moved;
    if (at < sizeof m->header) {
        parts[count++] = (struct iovec){(uint8_t *)&m->header + at, sizeof m->header - at};
        at = sizeof m->header;
    }
    const uint64_t data_end = sizeof m->header + m->bytes;
    while (at < data_end && count < MESSAGE_PARTS) {
        parts[count] = body_at(o, m, m->step->a, at - sizeof m->header);
        at += parts[count++].iov_len;
    }
    if (at >= data_end && at < length_of(m) && count < MESSAGE_PARTS)
        parts[count++] = (struct iovec){(void *)zeros, length_of(m) - at};
    transport_channel *c = o->bound.channel;
    return c->table->send(c, m->step->peer, parts, count);
}

static rueda_status fail_header(const exec_op *o, const exec_message *m, const void *data,
                                uint64_t bytes)
{
    message_header got;
    if (bytes < sizeof got)
        return status_fail(RUEDA_ERR_INTERNAL, "rank %u got an unexpected message from rank %u",
                           o->index, m->step->peer);
    memcpy(&got, data, sizeof got);
    return status_fail(
        RUEDA_ERR_INTERNAL,
        "rank %u expected message (operation %llu, phase %u, piece %u, %llu bytes) from "
        "rank %u and got (%llu, %u, %u, %llu)",
        o->index, (unsigned long long)m->header.operation, m->header.phase, m->header.piece,
        (unsigned long long)m->header.bytes, m->step->peer, (unsigned long long)got.operation,
        got.phase, got.piece, (unsigned long long)got.bytes);
}

/* RECV_REDUCE: what lies in the transport's memory is reduced from there. */
static uint64_t reduce_arrived(exec_op *o, exec_message *m)
{
    transport_channel *c = o->bound.channel;
    const void *data;
    const size_t bytes = c->table->peek(c, m->step->peer, &data);
    const uint64_t element = (m->moved - sizeof m->header) / o->element;
    exec_run_part part = exec_part(o, m->step, m->piece, element, m->total);
    if (part.count > bytes / o->element)
        part.count = bytes / o->element;
    if (part.count == 0)
        return 0;
    uint8_t *dst = exec_address(o, m->step->dst, m->piece, part);
    const uint8_t *own = exec_address(o, m->step->a, m->piece, part);
    const bool message_first = (m->step->flags & PLAN_MESSAGE_FIRST) != 0;
    o->kernel->reduce[o->bound.dtype][o->bound.op](dst, message_first ? data : own,
                                                   message_first ? own : data, part.count);
    c->table->consume(c, m->step->peer, part.count * o->element);
    return part.count * o->element;
}

static uint64_t receive_body(exec_op *o, exec_message *m)
{
    transport_channel *c = o->bound.channel;
    if (m->step->kind == PLAN_RECV_REDUCE)
        return reduce_arrived(o, m);
    const struct iovec to = body_at(o, m, m->step->dst, m->moved - sizeof m->header);
    return c->table->receive(c, m->step->peer, to.iov_base, to.iov_len);
}

/* Header and padding come in the pieces they come in; the header must be the one we expect. */
static rueda_status receive_some(exec_op *o, exec_message *m, uint64_t *taken)
{
    transport_channel *c = o->bound.channel;
    uint8_t frame[sizeof m->header];
    const uint64_t data_end = sizeof m->header + m->bytes;
    if (m->moved >= sizeof m->header && m->moved < data_end) {
        *taken = receive_body(o, m);
        return RUEDA_OK;
    }
    const bool in_header = m->moved < data_end;
    const uint64_t rest = (in_header ? sizeof m->header : length_of(m)) - m->moved;
    *taken = c->table->receive(c, m->step->peer, frame, rest);
    if (in_header && memcmp(frame, (uint8_t *)&m->header + m->moved, *taken) != 0)
        return fail_header(o, m, frame, *taken);
    return RUEDA_OK;
}

static rueda_status move_message(exec_op *o, exec_message *m, bool *moved)
{
    const uint64_t length = length_of(m);
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
            earlier->moved < length_of(earlier))
            return true;
    }
    return false;
}

/* What is sent goes off at once: it travels while the steps up to the next FENCE compute. */
rueda_status exec_message_start(exec_op *o, const plan_step *step, uint32_t piece)
{
    bool unused;
    const rueda_status status = add_message(o, step, piece);
    if (status != RUEDA_OK || step->kind != PLAN_SEND || is_behind(o, o->message_count - 1))
        return status;
    return move_message(o, &o->messages[o->message_count - 1], &unused);
}

rueda_status exec_messages_progress(exec_op *o, bool *done, bool *moved)
{
    *done = true;
    for (uint32_t i = 0; i < o->message_count; i++) {
        exec_message *m = &o->messages[i];
        const uint64_t length = length_of(m);
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
