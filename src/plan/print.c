/* print.c: plans for people, like a database's EXPLAIN. Every step that runs is a line. */
#include "plan/print.h"

#include <stdarg.h>

static const char *const BUFFERS[] = {"nothing", "in", "out", "work", "slot", "sums"};

/* Text that grows at its end and is cut at its size. */
typedef struct words {
    char *text;
    size_t length, size;
} words;

__attribute__((format(printf, 2, 3))) static void say(words *w, const char *format, ...)
{
    va_list arguments;
    if (w->length + 1 >= w->size)
        return;
    va_start(arguments, format);
    int n = vsnprintf(w->text + w->length, w->size - w->length, format, arguments);
    va_end(arguments);
    w->length = n < 0 ? w->length : w->length + (size_t)n;
}

static void say_operand(words *w, const plan *p, const plan_operand *operand)
{
    if (operand->buffer == PLAN_NONE || operand->buffer > PLAN_SUMS) {
        say(w, "nothing");
        return;
    }
    if (operand->rank != p->layout.rank)
        say(w, "rank %u ", operand->rank);
    say(w, "%s[%u]", BUFFERS[operand->buffer], operand->index);
}

static void say_flags(words *w, unsigned flags)
{
    if (flags & PLAN_PRESCALE)
        say(w, " · prescale");
    if (flags & PLAN_POSTSCALE)
        say(w, " · postscale");
}

static void say_two(words *w, const plan *p, const plan_operand *x, const char *sign,
                    const plan_operand *y)
{
    say_operand(w, p, x);
    say(w, " %s ", sign);
    if (y)
        say_operand(w, p, y);
    else
        say(w, "message");
}

static void say_dot(words *w, const plan *p, const plan_step *step)
{
    say(w, "sums[%d] +← ", step->flags & PLAN_SUMS_ODD ? 1 : 0);
    say_two(w, p, &step->a, "·", &step->b);
    if (step->dst.buffer != PLAN_NONE) {
        say(w, ", kept in ");
        say_operand(w, p, &step->dst);
    }
}

/* Whose leaves are counted, and whose sums carry their number: a leaf's own norm tells. */
static void say_leaves(words *w, unsigned first, unsigned end)
{
    if (end - first == 1)
        say(w, ", leaf %u", first);
    else
        say(w, ", leaves %u–%u by rank %u", first, end - 1, first);
}

static void say_weigh(words *w, const plan_step *step)
{
    const unsigned end = (unsigned)step->a.rank + step->ranks;
    say(w, "coefficients ← Σ sums[%u] of ranks %u–%u", step->a.index, step->a.rank, end - 1);
    say_leaves(w, step->a.rank, step->b.rank);
    say_leaves(w, step->b.rank, end);
}

static void say_addresses(words *w, const plan_step *step)
{
    const bool in = step->a.buffer == PLAN_IN, out = step->dst.buffer == PLAN_OUT;
    say(w, "of %s%s%s", in ? "in" : "", in && out ? " and " : "", out ? "out" : "");
}

static void say_arithmetic(words *w, const plan *p, const plan_step *step)
{
    if (step->kind == PLAN_DOT) {
        say_dot(w, p, step);
        return;
    }
    say_operand(w, p, &step->dst);
    say(w, " ← ");
    if (step->kind == PLAN_COPY) {
        say_operand(w, p, &step->a);
        say_flags(w, step->flags);
    } else if (step->kind == PLAN_RECV_REDUCE && step->flags & PLAN_MESSAGE_FIRST) {
        say(w, "message ∘ ");
        say_operand(w, p, &step->a);
    } else {
        say_two(w, p, &step->a, step->kind == PLAN_COMBINE ? "⊕" : "∘",
                step->kind == PLAN_RECV_REDUCE ? NULL : &step->b);
    }
}

void plan_describe_step(const plan *p, const plan_step *step, char text[PLAN_STEP_TEXT])
{
    words w = {.text = text, .size = PLAN_STEP_TEXT};
    say(&w, "%s ", plan_step_name(p, step));
    switch ((plan_kind)step->kind) {
    case PLAN_SEND:
        say_operand(&w, p, &step->a);
        say(&w, " to rank %u", step->peer);
        break;
    case PLAN_RECV:
        say_operand(&w, p, &step->dst);
        say(&w, " from rank %u", step->peer);
        break;
    case PLAN_RECV_REDUCE:
        say_arithmetic(&w, p, step);
        say(&w, " from rank %u", step->peer);
        break;
    case PLAN_AWAIT:
        say(&w, "rank %u, %u tick%s back", step->peer, step->lag, step->lag == 1 ? "" : "s");
        break;
    case PLAN_WEIGH:
        say_weigh(&w, step);
        break;
    case PLAN_COLL:
        say_operand(&w, p, &step->dst);
        say(&w, " ← %s of ", plan_collective_name(p->collective));
        say_operand(&w, p, &step->a);
        say(&w, ", by the transport");
        break;
    case PLAN_ADDRESSES:
        say_addresses(&w, step);
        break;
    case PLAN_START_SUMS:
        say_operand(&w, p, &step->dst);
        say(&w, " ← 0, and the leaves so far");
        break;
    case PLAN_FENCE:
    case PLAN_PUBLISH:
    case PLAN_ENTER:
    case PLAN_LEAVE:
        text[--w.length] = '\0';
        break;
    default:
        say_arithmetic(&w, p, step);
    }
}

static void print_step(const plan *p, uint32_t i, bool staged, FILE *to)
{
    char text[PLAN_STEP_TEXT];
    plan_describe_step(p, &p->steps[i], text);
    if (staged)
        fprintf(to, "%6u  stage %-3u %s\n", i, p->steps[i].stage, text);
    else
        fprintf(to, "%6u  %9s %s\n", i, "", text);
}

static void print_phase(const plan *p, uint32_t number, FILE *to)
{
    const plan_phase *phase = &p->phases[number];
    fprintf(to, "  phase %u: ", number);
    if (phase->once)
        fprintf(to, "once");
    else
        fprintf(to, "every piece, %u stage%s", phase->depth, phase->depth == 1 ? "" : "s");
    if (phase->cells)
        fprintf(to, ", slots of %u cell%s", phase->cells, phase->cells == 1 ? "" : "s");
    fprintf(to, "\n");
    for (uint32_t i = phase->first; i < phase->first + phase->count; i++) {
        bool always = p->steps[i].kind == PLAN_PUBLISH || p->steps[i].kind == PLAN_FENCE;
        print_step(p, i, phase->depth > 1 && !always, to);
    }
}

void plan_print(const plan *p, FILE *to)
{
    fprintf(to, "rank %u of %u: %s by %s, %u chunk%s, %u step%s\n", p->layout.rank, p->layout.ranks,
            plan_collective_name(p->collective), plan_algorithm_name(p->algorithm), p->chunks,
            p->chunks == 1 ? "" : "s", p->step_count, p->step_count == 1 ? "" : "s");
    if (p->entry_count > 0)
        fprintf(to, "  at the beginning\n");
    for (uint32_t i = 0; i < p->entry_count; i++)
        print_step(p, i, false, to);
    for (uint32_t i = 0; i < p->phase_count; i++)
        print_phase(p, i, to);
    fprintf(to, "  at the end\n");
    print_step(p, p->step_count - 1, false, to);
}
