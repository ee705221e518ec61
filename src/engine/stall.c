/* stall.c: tensors that wait for ranks which do not submit them.
 *
 * What a rank has submitted since it last contributed to the round only the rank itself knows. So when a
 * report is due, whoever notices first asks all members which of the tensors they hold (control_ask). It
 * reports when all have answered, or after a while, and then tells who has not. Everybody who hears the
 * question leaves those tensors to the asker; of two that ask at the same time the lower rank reports.
 */
#include "engine/engine.h"

#include "base/rank_list.h"

#include <stdio.h>
#include <string.h>

#define LOOK_NS UINT64_C(1000000000)
#define ANSWER_NS UINT64_C(2000000000) /* whoever runs answers within milliseconds */
#define LIST_MAX 1200                  /* bytes of the list of tensors and missing ranks */
#define LISTED_MAX 400                 /* bytes of a tensor in it, at least */

typedef enum holding { HOLDING_NOT, HOLDING, HOLDING_UNKNOWN } holding;

/* ---- Asking ---------------------------------------------------------------------------------- */

static bool has_passed(uint64_t since, int64_t seconds, uint64_t now)
{
    return now >= since + (uint64_t)seconds * 1000000000u;
}

/* `ends`: for the end of the job, else for a warning. What others ask puts a warning off and never the end:
 * they may have another limit, or none. */
static bool is_due(const engine *e, const record *r, bool ends, uint64_t now)
{
    const config *c = &e->settings;
    if (!r->waits || r->entry->signature.kind == SIGNATURE_JOIN)
        return false;
    const uint64_t submitted = r->entry->submitted_ns;
    if (ends)
        return c->stall_end > 0 && has_passed(submitted, c->stall_end, now) &&
               now >= r->stall.asked_to_end_ns + 2 * ANSWER_NS;
    const uint64_t since = r->stall.asked_ns > submitted ? r->stall.asked_ns : submitted;
    return c->stall_warn > 0 && has_passed(since, c->stall_warn, now);
}

/* Asks about what is due; more than fits waits for the next question. */
static bool ask(engine *e, process_set *s, bool ends, uint64_t now)
{
    uint32_t number, count = 0;
    segment_question *question = control_question_draft(&e->control, &number);
    world_lock_take(&s->queue.lock);
    for (record *r = NULL;
         count < SEGMENT_QUESTION_NAMES && (r = queue_next(&s->queue, r)) != NULL;) {
        if (!is_due(e, r, ends, now))
            continue;
        r->stall.asked_ns = now;
        if (ends)
            r->stall.asked_to_end_ns = now;
        r->stall.asked_number = number;
        r->stall.asked_index = count;
        question->names[count++] = r->hash;
    }
    world_lock_release(&s->queue.lock);
    if (count == 0)
        return false;
    question->count = count;
    control_ask(&s->members);
    e->stall.number = number;
    e->stall.ends = ends;
    e->stall.set = s;
    e->stall.asked_ns = now;
    return true;
}

/* ---- Answering ------------------------------------------------------------------------------- */

/* Another rank will report this one, unless we have asked at the same time and are lower. */
static void leave_to(engine *e, record *r, uint32_t asker)
{
    const bool ours = e->stall.number != 0 && r->stall.asked_number == e->stall.number;
    if (ours && (uint32_t)e->who.rank < asker)
        return;
    r->stall.asked_number = 0;
    r->stall.asked_ns = world_now_ns();
}

/* A rank that has joined lacks nothing. */
static void give_answer(void *context, const segment_question *q, uint32_t asker, uint64_t *held)
{
    engine *e = context;
    memset(held, 0, SEGMENT_ANSWER_WORDS * sizeof *held);
    process_set *s = q->set < SEGMENT_SETS ? &e->sets[q->set] : NULL;
    if (s == NULL || !s->exists || !s->member || s->members.epoch != q->epoch ||
        e->broken != RUEDA_OK)
        return;
    world_lock_take(&s->queue.lock);
    for (uint32_t i = 0; i < q->count && i < SEGMENT_QUESTION_NAMES; i++) {
        record *r = queue_find_hash(&s->queue, q->names[i]);
        if (s->negotiation.join != NULL || (r != NULL && r->entry != NULL))
            held[i / 64] |= UINT64_C(1) << i % 64;
        if (r != NULL)
            leave_to(e, r, asker);
    }
    world_lock_release(&s->queue.lock);
}

control_answerer stall_answerer(engine *e)
{
    return (control_answerer){give_answer, e};
}

/* ---- Reporting ------------------------------------------------------------------------------- */

/* Text that grows up to LIST_MAX. */
typedef struct listing {
    char text[LIST_MAX];
    size_t used;
} listing;

#define ADD(l, ...)                                                                                \
    do {                                                                                           \
        const int more_ = snprintf((l)->text + (l)->used, LIST_MAX - (l)->used, __VA_ARGS__);      \
        (l)->used +=                                                                               \
            (size_t)more_ < LIST_MAX - (l)->used ? (size_t)more_ : LIST_MAX - 1 - (l)->used;       \
    } while (0)

static holding holds(const engine *e, const process_set *s, const record *r, uint16_t member)
{
    if (negotiation_knows(&s->negotiation, r, member))
        return HOLDING;
    const uint64_t *held = control_answered(&e->control, s->ranks[member]);
    if (held == NULL)
        return HOLDING_UNKNOWN;
    return (held[r->stall.asked_index / 64] >> r->stall.asked_index % 64 & 1) != 0 ? HOLDING
                                                                                   : HOLDING_NOT;
}

/* Not if it turns out that all members have submitted it by now. */
static bool is_stalled(const engine *e, const process_set *s, const record *r)
{
    if (!r->waits || r->stall.asked_number != e->stall.number)
        return false;
    for (uint16_t i = 0; i < s->size; i++) {
        if (holds(e, s, r, i) != HOLDING)
            return true;
    }
    return false;
}

/* "'tensor' (Missing ranks: 1 2)" */
static void list_record(const engine *e, const process_set *s, const record *r, listing *l)
{
    rank_list missing = {.count = 0};
    for (uint16_t i = 0; i < s->size; i++) {
        if (holds(e, s, r, i) == HOLDING_NOT)
            rank_list_add(&missing, s->ranks[i]);
    }
    ADD(l, "%s'%s' (Missing ranks:%s)", l->used > 0 ? "; " : "", r->name,
        missing.count > 0 ? missing.text : " not known");
}

static void list_silent(const engine *e, const process_set *s, listing *l)
{
    for (uint16_t i = 0; i < s->size; i++) {
        if (i != s->index && control_answered(&e->control, s->ranks[i]) == NULL)
            ADD(l, "; rank %u does not answer", s->ranks[i]);
    }
}

/* What has been asked about and is still missing somewhere. *oldest: when its first was submitted.
 * Returns how many there are. */
static uint32_t list_stalled(engine *e, listing *l, uint64_t *oldest)
{
    process_set *s = e->stall.set;
    uint32_t count = 0, listed = 0;
    world_lock_take(&s->queue.lock);
    for (const record *r = NULL; (r = queue_next(&s->queue, r)) != NULL;) {
        if (!is_stalled(e, s, r))
            continue;
        if (count++ == 0 || r->entry->submitted_ns < *oldest)
            *oldest = r->entry->submitted_ns;
        if (l->used + LISTED_MAX > LIST_MAX)
            continue;
        list_record(e, s, r, l);
        listed++;
    }
    world_lock_release(&s->queue.lock);
    if (count > listed)
        ADD(l, "; and %u more", count - listed);
    list_silent(e, s, l);
    return count;
}

static bool all_answered(const engine *e)
{
    const process_set *s = e->stall.set;
    for (uint16_t i = 0; i < s->size; i++) {
        if (i != s->index && control_answered(&e->control, s->ranks[i]) == NULL)
            return false;
    }
    return true;
}

static void report(engine *e, uint64_t now)
{
    listing l = {.used = 0};
    uint64_t oldest = now;
    const uint32_t count = list_stalled(e, &l, &oldest);
    const long long seconds = (long long)((now - oldest) / 1000000000u);
    const bool ends = e->stall.ends;
    e->stall.number = 0;
    if (count == 0)
        return;
    if (!ends) {
        log_line(
            &e->log, LOG_WARN,
            "One or more tensors were submitted to be reduced, gathered or broadcasted by subset "
            "of ranks and are waiting for remainder of ranks for more than %lld seconds: %s",
            seconds, l.text);
        return;
    }
    status_fail(RUEDA_ERR_STALLED,
                "the job ends: after %lld s some ranks have not submitted %.300s", seconds, l.text);
    control_abort(&e->control, RUEDA_ERR_STALLED, e->who.rank, status_text());
}

/* Looked at once a second, said once a period. */
static void look(engine *e, uint64_t now)
{
    for (int ends = 1; ends >= 0; ends--) {
        for (int32_t i = 0; i < e->set_limit; i++) {
            process_set *s = &e->sets[i];
            if (s->exists && s->member && s->negotiation.waiting > 0 && ask(e, s, ends != 0, now))
                return;
        }
    }
    e->stall.next_look_ns = now + LOOK_NS;
}

void stall_watch(engine *e, uint64_t now)
{
    if (control_is_asked(&e->control))
        control_answer(&e->control);
    if (e->stall.number == 0 && now >= e->stall.next_look_ns) {
        sendrecv_report(e, now);
        look(e, now);
    }
    if (e->stall.number != 0 && !e->stall.set->exists)
        e->stall.number = 0;
    if (e->stall.number == 0)
        return;
    const bool answered = all_answered(e);
    if (!answered && now < e->stall.asked_ns + ANSWER_NS)
        return;
    control_answer(&e->control); /* whoever asked before it answered us: its question is here now */
    report(e, now);
}
