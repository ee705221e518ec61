/* question.c: which tensors the others hold, asked outside of rounds; see control.h. In the segment, or
 * through the network (tree_question.c). */
#include "control/control.h"

static segment_question *own_question(const control *c)
{
    return &segment_rank_at(c->segment, c->rank)->question;
}

/* 0 is no question. */
static uint32_t next_number(const segment_question *q)
{
    const uint32_t last = atomic_load_explicit(&q->number, memory_order_relaxed);
    return last == UINT32_MAX ? 1 : last + 1;
}

segment_question *control_question_draft(const control *c, uint32_t *number)
{
    segment_question *q = own_question(c);
    *number = next_number(q);
    return q;
}

void control_ask(const control_members *g)
{
    const control *c = g->job;
    segment_question *q = own_question(c);
    q->set = g->set;
    q->epoch = g->epoch;
    atomic_store_explicit(&q->number, next_number(q), memory_order_release);
    if (c->network != NULL) {
        network_ask(c->network, q);
        return;
    }
    control_notify(g);
    for (uint16_t i = 0; i < g->size; i++) {
        if (i != g->index)
            control_call(c, g->ranks[i]);
    }
}

const uint64_t *control_answered(const control *c, uint32_t rank)
{
    const uint32_t number = atomic_load(&own_question(c)->number);
    const segment_answer *a = c->network != NULL ? network_answer_of(c->network, rank)
                                                 : segment_answer_at(c->segment, rank, c->rank);
    return atomic_load_explicit(&a->number, memory_order_acquire) == number ? a->held : NULL;
}

/* The number of a question that this rank has not answered yet, or 0. */
static uint32_t unanswered(const control *c, uint32_t asker)
{
    const uint32_t number = atomic_load_explicit(
        &segment_rank_at(c->segment, asker)->question.number, memory_order_acquire);
    const segment_answer *own = segment_answer_at(c->segment, c->rank, asker);
    return atomic_load_explicit(&own->number, memory_order_relaxed) == number ? 0 : number;
}

bool control_is_asked(const control *c)
{
    for (uint32_t r = 0; c->network == NULL && r < c->segment->header->ranks; r++) {
        if (r != c->rank && unanswered(c, r) != 0)
            return true;
    }
    return false;
}

/* A question that its asker changes meanwhile is answered under its old number, which nobody reads. */
void control_answer(const control *c)
{
    for (uint32_t r = 0; c->network == NULL && r < c->segment->header->ranks; r++) {
        const uint32_t number = r == c->rank ? 0 : unanswered(c, r);
        if (number == 0)
            continue;
        segment_answer *own = segment_answer_at(c->segment, c->rank, r);
        c->answer.give(c->answer.context, &segment_rank_at(c->segment, r)->question, r, own->held);
        atomic_store_explicit(&own->number, number, memory_order_release);
        control_notify_rank(c, r);
    }
}
