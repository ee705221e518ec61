/* train.c: training on many workers. This is the file to read: everything that makes the training
 * distributed is here, and it is short. In each step
 *
 *   1. every worker takes a batch of its own and finds the gradient;
 *   2. the workers' steps are combined into one, by rueda_grouped_allreduce;
 *   3. all add the same combined step to the same parameters, which so stay the same everywhere.
 *
 * Averaging and summing combine gradients; the momentum is then that of the mean or the sum. Adasum
 * combines finished updates: every worker keeps a momentum of its own and applies its own optimizer,
 * as if it trained alone, and the differences to the common start are combined.
 */
#include "train.h"

#include "combine.h"
#include "measure.h"
#include "optimizer.h"
#include "trainer.h"

#include <time.h>

enum { SHUFFLE_STREAM = 1, WEIGHTS_STREAM = 0 };

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- Before the first step ------------------------------------------------------------------- */

/* All ranks begin with the weights of rank 0. */
static rueda_status share_parameters(trainer *t)
{
    if (t->rank == 0) {
        random_state random = random_stream((uint64_t)t->o->seed, WEIGHTS_STREAM);
        network_init_parameters(t->parameters, &random);
    }
    const int64_t shape[] = {NETWORK_PARAMETERS};
    rueda_tensor tensor = RUEDA_TENSOR("parameters", t->parameters, RUEDA_F32, 1, shape);
    rueda_options options = RUEDA_OPTIONS(RUEDA_SUM);
    options.root = 0;
    return rueda_broadcast(&tensor, &options, NULL);
}

/* ---- One step -------------------------------------------------------------------------------- */

/* Every rank shuffles all images in the same way; worker w takes the w-th part. */
static void shuffle(trainer *t, int epoch)
{
    random_state random = random_stream((uint64_t)t->o->seed, SHUFFLE_STREAM + (uint64_t)epoch);
    for (int i = 0; i < t->training->count; i++)
        t->order[i] = i;
    random_shuffle(&random, t->order, t->training->count);
}

/* 1: one worker's batch. Leaves its gradient, or with Adasum its own update, in updates[w]. */
static void work(trainer *t, int w, int step_of_epoch, double rate)
{
    const int worker = t->rank * t->local + w, batch = (int)t->o->batch;
    int correct;
    network_load(t->net, t->training, t->order + worker * t->share + step_of_epoch * batch, batch);
    t->sums.loss += network_forward(t->net, t->parameters, &correct);
    t->sums.correct += correct;
    network_backward(t->net, t->parameters, t->updates[w]);
    if (t->o->op != RUEDA_ADASUM)
        return;
    optimizer_update(NETWORK_PARAMETERS, rate, t->velocities[w], t->updates[w], t->updates[w]);
    if (t->local > 1)
        add_norms(t->updates[w], t->sums.norms);
}

/* 2: all workers' updates become one. Both operations are under way together. */
static rueda_status combine(trainer *t)
{
    const int64_t shape[] = {METRICS};
    const rueda_tensor sums = RUEDA_TENSOR("metrics", &t->sums, RUEDA_F64, 1, shape);
    const rueda_options add = RUEDA_OPTIONS(RUEDA_SUM);
    rueda_options options = RUEDA_OPTIONS(t->o->op);
    rueda_request *requests[2] = {NULL, NULL};

    combine_workers(t->o->op, t->updates, t->local); /* those inside this process */
    if (t->o->op == RUEDA_AVERAGE)
        options.postscale = 1.0 / t->local; /* they were only summed */
    rueda_status status = rueda_grouped_allreduce(t->tensors, TENSORS, &options, &requests[0]);
    if (status == RUEDA_OK)
        status = rueda_allreduce(&sums, &add, &requests[1]);
    if (status == RUEDA_OK)
        status = rueda_wait_all(requests, 2, -1);
    rueda_request_free(requests[0]);
    rueda_request_free(requests[1]);
    return status;
}

/* 3: the combined step. With Adasum it is the update itself, otherwise a gradient. */
static void apply(trainer *t, double rate)
{
    float *update = t->updates[0];
    if (t->o->op != RUEDA_ADASUM)
        optimizer_update(NETWORK_PARAMETERS, rate, t->velocities[0], update, update);
    optimizer_apply(NETWORK_PARAMETERS, update, t->parameters);
}

/* ---- The loop -------------------------------------------------------------------------------- */

static rueda_status train_step(trainer *t, int step_of_epoch, step_record *r)
{
    const double images = (double)t->workers * (double)t->o->batch;
    t->sums = (metrics){0};
    r->rate = learning_rate(t->o->lr, r->step - 1, r->steps);
    for (int w = 0; w < t->local; w++)
        work(t, w, step_of_epoch, r->rate);
    const rueda_status status = combine(t);
    if (status != RUEDA_OK)
        return status;
    measure_orthogonality(t, r);
    apply(t, r->rate);
    r->images += images;
    r->loss = t->sums.loss / images;
    r->accuracy = t->sums.correct / images;
    return RUEDA_OK;
}

static bool is_due(const trainer *t, const step_record *r, bool epoch_ends)
{
    return epoch_ends || (t->o->eval_every > 0 && r->step % t->o->eval_every == 0);
}

static rueda_status run(trainer *t, log_file *log, progress *show, run_summary *s)
{
    const int steps = t->share / (int)t->o->batch; /* of an epoch */
    step_record r = {.steps = t->steps};
    for (int epoch = 0; epoch < t->o->epochs && !s->diverged; epoch++) {
        shuffle(t, epoch);
        r.epoch = epoch + 1;
        for (int step = 0; step < steps && !s->diverged; step++) {
            const double start = now_s();
            r.step++;
            rueda_status status = train_step(t, step, &r);
            r.seconds += now_s() - start;
            r.test_accuracy = NAN;
            s->diverged = !isfinite(r.loss); /* the same on all ranks: the loss was combined */
            const bool epoch_ends = step + 1 == steps || s->diverged;
            if (status == RUEDA_OK && is_due(t, &r, epoch_ends))
                status = measure_accuracy(t, &r.test_accuracy);
            if (status != RUEDA_OK)
                return status;
            if (epoch_ends)
                s->test_accuracy[epoch] = s->test_accuracy[s->epochs - 1] = r.test_accuracy;
            measure_tenths(s, &r);
            log_step(log, &r);
            progress_step(show, &r);
        }
    }
    s->steps = r.step;
    s->seconds = r.seconds;
    s->images_per_second = r.images / r.seconds;
    return RUEDA_OK;
}

static void start_summary(run_summary *s, const trainer *t)
{
    *s = (run_summary){
        .op = t->o->op, .ranks = rueda_size(), .workers = t->workers, .epochs = (int)t->o->epochs};
    for (int i = 0; i < MAX_EPOCHS; i++)
        s->test_accuracy[i] = NAN;
}

bool train(const options *o, const dataset *training, const dataset *test, log_file *log,
           progress *show, run_summary *summary, char error[IDX_ERROR_BYTES])
{
    trainer t;
    error[0] = '\0';
    if (!trainer_init(&t, o, training, test)) {
        snprintf(error, IDX_ERROR_BYTES, "out of memory for %d workers", t.local);
    } else if (t.steps == 0) {
        snprintf(error, IDX_ERROR_BYTES, "%d images are too few for %d workers with batches of %d",
                 training->count, t.workers, (int)o->batch);
    } else {
        start_summary(summary, &t);
        progress_start(show, o, rueda_size(), t.workers, training->count);
        rueda_status status = share_parameters(&t);
        if (status == RUEDA_OK)
            status = run(&t, log, show, summary);
        if (status != RUEDA_OK)
            snprintf(error, IDX_ERROR_BYTES, "%s", rueda_error());
    }
    trainer_free(&t);
    return error[0] == '\0';
}
