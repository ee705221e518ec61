/* record.c: see record.h. */
#include "common/record.h"

#include <stdio.h>

#define MEMORY 0.95    /* of the running mean of the loss */
#define FAR_ABOVE 2.0  /* times the loss of guessing: nothing that trains gets there */
#define NO_BETTER 0.95 /* times that loss: nothing was learned */

const char *const run_outcome_names[] = {"trained", "guesses", "diverged"};

void summary_start(run_summary *s, rueda_op op, const char *how, int workers, int epochs)
{
    *s = (run_summary){
        .op = op, .how = how, .ranks = rueda_size(), .workers = workers, .epochs = epochs};
    for (int i = 0; i < MAX_EPOCHS; i++)
        s->test[i] = NAN;
}

static void note_outcome(run_summary *s, const subject *about, const step_record *r)
{
    s->loss = r->step == 1 ? r->loss : MEMORY * s->loss + (1 - MEMORY) * r->loss;
    if (s->loss > s->worst || r->step == 1) {
        s->worst = s->loss;
        s->worst_step = r->step;
    }
    if (!isfinite(r->loss) || s->worst > FAR_ABOVE * about->guessing)
        s->outcome = RUN_DIVERGED;
    else
        s->outcome = s->loss > NO_BETTER * about->guessing ? RUN_GUESSES : RUN_TRAINED;
}

/* Adds a step's orthogonality to the means of the first and the last tenth of the run. */
static void note_tenths(run_summary *s, const subject *about, const step_record *r)
{
    const int tenth = r->steps >= 10 ? r->steps / 10 : 1;
    if (r->step <= tenth) {
        s->first += r->orthogonality / tenth;
        for (int i = 0; i < about->tensors; i++)
            s->tensor_first[i] += r->tensor[i] / tenth;
    }
    if (r->step > r->steps - tenth) {
        s->last += r->orthogonality / tenth;
        for (int i = 0; i < about->tensors; i++)
            s->tensor_last[i] += r->tensor[i] / tenth;
    }
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
    if (!isfinite(s->loss))
        snprintf(sentence, SENTENCE_BYTES,
                 "DIVERGED: after step %d the loss is no longer a number; try a smaller --lr",
                 s->steps);
    else if (s->outcome == RUN_DIVERGED)
        snprintf(
            sentence, SENTENCE_BYTES,
            "DIVERGED: the loss rose to %.3g around step %d, where guessing has %.2f, and ended "
            "at %.3g; try a smaller --lr",
            s->worst, s->worst_step, about->guessing, s->loss);
    else if (s->outcome == RUN_GUESSES)
        snprintf(sentence, SENTENCE_BYTES,
                 "DID NOT TRAIN: the loss ended at %.3g, and guessing has %.2f; try another --lr",
                 s->loss, about->guessing);
    else
        snprintf(sentence, SENTENCE_BYTES,
                 "trained: the loss ended at %.3g, where guessing has %.2f", s->loss,
                 about->guessing);
}
