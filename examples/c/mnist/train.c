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

#include "common/combine.h"
#include "common/job.h"
#include "gemm.h"
#include "optimizer.h"
#include "trainer.h"

enum { SHUFFLE_STREAM = 1, WEIGHTS_STREAM = 0 };

/* ---- Before the first step ------------------------------------------------------------------- */

/* All ranks begin with the weights of rank 0. */
static rueda_status share_parameters(trainer *t)
{
    if (t->rank == 0) {
        random_state random = random_stream((uint64_t)t->o->run.seed, WEIGHTS_STREAM);
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
    random_state random = random_stream((uint64_t)t->o->run.seed, SHUFFLE_STREAM + (uint64_t)epoch);
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
    if (t->op == RUEDA_ADASUM)
        optimizer_update(NETWORK_PARAMETERS, rate, t->velocities[w], t->updates[w], t->updates[w]);
}

/* 2: all workers' updates become one. Both operations are under way together. */
static rueda_status combine(trainer *t)
{
    const int64_t shape[] = {METRICS};
    const rueda_tensor sums = RUEDA_TENSOR("metrics", &t->sums, RUEDA_F64, 1, shape);
    const rueda_options add = RUEDA_OPTIONS(RUEDA_SUM);
    rueda_options options = RUEDA_OPTIONS(t->op);
    rueda_request *requests[2] = {NULL, NULL};

    /* those inside this process */
    combine_workers(t->op, &network_subject, t->updates, t->local, t->sums.norms);
    if (t->op == RUEDA_AVERAGE)
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
    if (t->op != RUEDA_ADASUM)
        optimizer_update(NETWORK_PARAMETERS, rate, t->velocities[0], update, update);
    optimizer_apply(NETWORK_PARAMETERS, update, t->parameters);
}

/* ---- How it goes ----------------------------------------------------------------------------- */

/* The library tells it for what it has combined itself; where a process stands in for several workers,
 * their norms were summed beside the update. */
static void note_orthogonality(const trainer *t, step_record *r)
{
    if (t->op != RUEDA_ADASUM || t->workers == 1)
        no_orthogonality(&network_subject, r);
    else if (t->local == 1)
        ask_orthogonality(&network_subject, r);
    else
        measure_orthogonality(&network_subject, t->updates[0], t->sums.norms, r);
}

/* The share of test images that are read right. Every rank reads a part of them. */
static rueda_status test(trainer *t, double *accuracy)
{
    const int count = t->test->count, size = rueda_size(), batch = (int)t->o->batch;
    const int end = (int)((int64_t)count * (t->rank + 1) / size);
    int64_t right = 0;
    for (int first = (int)((int64_t)count * t->rank / size); first < end; first += batch) {
        int correct;
        network_load(t->net, t->test, t->test_order + first,
                     end - first < batch ? end - first : batch);
        network_forward(t->net, t->parameters, &correct);
        right += correct;
    }
    const int64_t shape[] = {1};
    const rueda_tensor tensor = RUEDA_TENSOR("right", &right, RUEDA_I64, 1, shape);
    const rueda_options add = RUEDA_OPTIONS(RUEDA_SUM);
    const rueda_status status = rueda_allreduce(&tensor, &add, NULL);
    *accuracy = (double)right / count;
    return status;
}

/* ---- The loop -------------------------------------------------------------------------------- */

static rueda_status train_step(trainer *t, int step_of_epoch, step_record *r)
{
    const double images = (double)t->workers * (double)t->o->batch, start = job_now();
    t->sums = (metrics){0};
    r->rate = learning_rate(t->o->run.lr, r->step - 1, r->steps);
    for (int w = 0; w < t->local; w++)
        work(t, w, step_of_epoch, r->rate);
    const rueda_status status = combine(t);
    if (status != RUEDA_OK)
        return status;
    note_orthogonality(t, r);
    apply(t, r->rate);
    r->seconds += job_now() - start;
    r->items += images;
    r->loss = t->sums.loss / images;
    r->accuracy = t->sums.correct / images;
    return RUEDA_OK;
}

static bool is_due(const trainer *t, const step_record *r, bool epoch_ends)
{
    return epoch_ends || (t->o->run.eval_every > 0 && r->step % t->o->run.eval_every == 0);
}

/* All ranks do the same here: the loss was combined, so all see the same divergence. */
static rueda_status run(trainer *t, log_file *log, progress *show, run_summary *s)
{
    const int steps = t->share / (int)t->o->batch; /* of an epoch */
    step_record r = {.steps = t->steps};
    for (int epoch = 0; epoch < s->epochs; epoch++) {
        shuffle(t, epoch);
        r.epoch = epoch + 1;
        for (int step = 0; step < steps; step++) {
            r.step++;
            r.test = NAN;
            rueda_status status = train_step(t, step, &r);
            const bool ends = step + 1 == steps || !isfinite(r.loss);
            if (status == RUEDA_OK && is_due(t, &r, ends))
                status = test(t, &r.test);
            if (status != RUEDA_OK)
                return status;
            summary_step(s, &network_subject, &r);
            log_step(log, &r);
            progress_step(show, &r);
            if (!isfinite(r.loss))
                return RUEDA_OK;
        }
    }
    return RUEDA_OK;
}

static void say_hello(const trainer *t, const run_summary *s, progress *show)
{
    char what[128];
    snprintf(what, sizeof what, "%d images, batch %d for each worker, by %s", t->training->count,
             (int)t->o->batch, gemm_name());
    progress_start(show, &network_subject, &t->o->run, s, what);
}

bool train(const settings *o, const dataset *training, const dataset *test_set, log_file *log,
           progress *show, run_summary *summary, char error[IDX_ERROR_BYTES])
{
    trainer t;
    error[0] = '\0';
    if (!trainer_init(&t, o, training, test_set)) {
        snprintf(error, IDX_ERROR_BYTES, "out of memory for %d workers", t.local);
    } else if (t.steps == 0) {
        snprintf(error, IDX_ERROR_BYTES, "%d images are too few for %d workers with batches of %d",
                 training->count, t.workers, (int)o->batch);
    } else {
        summary_start(summary, t.op, rueda_op_name(t.op), t.workers, (int)o->run.epochs);
        say_hello(&t, summary, show);
        rueda_status status = share_parameters(&t);
        if (status == RUEDA_OK)
            status = run(&t, log, show, summary);
        if (status != RUEDA_OK)
            snprintf(error, IDX_ERROR_BYTES, "%s", rueda_error());
        else if (o->run.save != NULL && t.rank == 0)
            job_save(o->run.save, t.parameters, NETWORK_PARAMETERS, error, IDX_ERROR_BYTES);
    }
    trainer_free(&t);
    return error[0] == '\0';
}
