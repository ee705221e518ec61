/* record.c: see record.h. */
#include "common/record.h"

#include <stdio.h>

#define MEMORY 0.95 /* of the running mean of the loss */

/* Times the loss of guessing: */
#define THROWN 1.5  /* a step this bad has thrown away what was learned */
#define HARDLY 0.85 /* a run that ends above this has learned nothing to speak of */

const char *const run_outcome_names[] = {"trained", "guesses", "diverged"};

void summary_start(run_summary *s, rueda_op op, const char *how, int workers, int epochs)
{
    *s = (run_summary){
        .op = op, .how = how, .ranks = rueda_size(), .workers = workers, .epochs = epochs};
    s->first = s->last = NAN;
    for (int i = 0; i < MAX_TENSORS; i++)
        s->tensor_first[i] = s->tensor_last[i] = NAN;
    for (int i = 0; i < MAX_EPOCHS; i++)
        s->test[i] = NAN;
}

static void note_outcome(run_summary *s, const subject *about, const step_record *r)
{
    s->loss = r->step == 1 ? r->loss : MEMORY * s->loss + (1 - MEMORY) * r->loss;
    if (r->loss > s->worst || r->step == 1) {
        s->worst = r->loss;
        s->worst_step = r->step;
    }
    if (!isfinite(r->loss) || (s->worst > THROWN * about->guessing && s->loss > about->recovered))
        s->outcome = RUN_DIVERGED;
    else
        s->outcome = s->loss > HARDLY * about->guessing ? RUN_GUESSES : RUN_TRAINED;
}

/* The n-th value of a mean, for all and for each tensor. */
static void note_mean(double *mean, double *tensors, const subject *about, const step_record *r,
                      int n)
{
    *mean = n == 1 ? r->orthogonality : *mean + (r->orthogonality - *mean) / n;
    for (int i = 0; i < about->tensors; i++)
        tensors[i] = n == 1 ? r->tensor[i] : tensors[i] + (r->tensor[i] - tensors[i]) / n;
}

/* Orthogonality in the first and the last tenth of the run. */
static void note_tenths(run_summary *s, const subject *about, const step_record *r)
{
    const int tenth = r->steps >= 10 ? r->steps / 10 : 1, of_last = r->step - (r->steps - tenth);
    if (r->step <= tenth)
        note_mean(&s->first, s->tensor_first, about, r, r->step);
    if (of_last >= 1)
        note_mean(&s->last, s->tensor_last, about, r, of_last);
}

void summary_step(run_summary *s, const subject *about, const step_record *r)
{
    note_outcome(s, about, r);
    note_tenths(s, about, r);
    if (isfinite(r->test))
        s->test[r->epoch - 1] = s->test[s->epochs - 1] = r->test;
    s->steps = r->step;
    s->seconds = r->seconds;
    s->items_per_second = r->items / r->seconds;
}

void summary_sentence(const run_summary *s, const subject *about, char sentence[SENTENCE_BYTES])
{
    const double guessing = about->guessing;
    if (!isfinite(s->loss))
        snprintf(sentence, SENTENCE_BYTES,
                 "DIVERGED: after step %d the loss is no longer a number; try a smaller --lr",
                 s->steps);
    else if (s->outcome == RUN_DIVERGED)
        snprintf(
            sentence, SENTENCE_BYTES,
            "DIVERGED: the loss rose to %.3g in step %d and ended at %.3g (guessing: %.2f); try "
            "a smaller --lr",
            s->worst, s->worst_step, s->loss, guessing);
    else if (s->outcome == RUN_GUESSES)
        snprintf(
            sentence, SENTENCE_BYTES,
            "HARDLY TRAINED: the loss ended at %.3g (guessing: %.2f); try more steps or another "
            "--lr",
            s->loss, guessing);
    else
        snprintf(sentence, SENTENCE_BYTES, "trained: the loss ended at %.3g (guessing: %.2f)",
                 s->loss, guessing);
}
