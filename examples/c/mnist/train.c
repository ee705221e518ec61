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
#include "optimizer.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SHUFFLE_STREAM = 1, WEIGHTS_STREAM = 0 };

/* What is summed over all workers in each step, beside the update. */
typedef struct metrics {
    double loss, correct;
    double norms[TENSORS]; /* Σ‖update of a worker‖², for each tensor */
} metrics;
#define METRICS (int64_t)(sizeof(metrics) / sizeof(double))

typedef struct trainer {
    const options *o;
    const dataset *training, *test;
    int rank, workers; /* all workers of all ranks */
    int local;         /* those of this rank: rank · local, rank · local + 1, … */
    int share;         /* images of a worker in an epoch */
    int steps;         /* in the whole run */
    network *net;
    int *order;         /* of the training images in this epoch, the same on all ranks */
    int *test_order;    /* 0, 1, 2, … */
    float *parameters;  /* */
    float **updates;    /* of each local worker; the first is what is combined between ranks */
    float **velocities; /* momentum: of each local worker with Adasum, otherwise only the first */
    rueda_tensor tensors[TENSORS]; /* the first update, tensor by tensor */
    metrics sums;
} trainer;

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- Before the first step ------------------------------------------------------------------- */

static bool has_own_momentum(const trainer *t, int worker)
{
    return t->o->op == RUEDA_ADASUM || worker == 0;
}

static bool take_memory(trainer *t)
{
    const size_t bytes = sizeof(float) * NETWORK_PARAMETERS;
    t->net = network_new((int)t->o->batch);
    t->order = malloc(sizeof *t->order * (size_t)t->training->count);
    t->test_order = malloc(sizeof *t->test_order * (size_t)t->test->count);
    t->parameters = malloc(bytes);
    t->updates = calloc((size_t)t->local, sizeof *t->updates);
    t->velocities = calloc((size_t)t->local, sizeof *t->velocities);
    if (t->net == NULL || t->order == NULL || t->test_order == NULL || t->parameters == NULL ||
        t->updates == NULL || t->velocities == NULL)
        return false;
    for (int w = 0; w < t->local; w++) {
        /* The ranks of this machine reach rueda_alloc's memory: no copy is needed to combine it. */
        t->updates[w] = w == 0 ? rueda_alloc(bytes) : malloc(bytes);
        t->velocities[w] = has_own_momentum(t, w) ? calloc(1, bytes) : NULL;
        if (t->updates[w] == NULL || (has_own_momentum(t, w) && t->velocities[w] == NULL))
            return false;
    }
    return true;
}

static void give_memory_back(trainer *t)
{
    for (int w = 0; t->updates != NULL && t->velocities != NULL && w < t->local; w++) {
        if (w == 0)
            rueda_free(t->updates[w]);
        else
            free(t->updates[w]);
        free(t->velocities[w]);
    }
    free(t->velocities);
    free(t->updates);
    free(t->parameters);
    free(t->test_order);
    free(t->order);
    network_free(t->net);
}

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

/* One tensor for each layer's weights and biases: Adasum looks at each one by itself. */
static void name_tensors(trainer *t)
{
    for (int i = 0; i < TENSORS; i++) {
        const tensor_place *place = &network_tensors[i];
        t->tensors[i] = RUEDA_TENSOR(place->name, t->updates[0] + place->offset, RUEDA_F32,
                                     place->ndim, place->shape);
    }
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

/* ---- What is measured ------------------------------------------------------------------------ */

/* ‖combined‖² / Σ‖update of a worker‖². The library tells it for what it has combined itself; where
 * a process stands in for several workers, their norms were summed beside the update. */
static void measure_orthogonality(const trainer *t, step_record *r)
{
    r->orthogonality = NAN;
    for (int i = 0; i < TENSORS; i++)
        r->tensor[i] = NAN;
    if (t->o->op != RUEDA_ADASUM || t->workers == 1)
        return;
    if (t->local == 1) {
        rueda_orthogonality(NULL, &r->orthogonality);
        for (int i = 0; i < TENSORS; i++)
            rueda_orthogonality(network_tensors[i].name, &r->tensor[i]);
        return;
    }
    double combined[TENSORS] = {0}, all = 0, leaves = 0;
    add_norms(t->updates[0], combined);
    for (int i = 0; i < TENSORS; i++) {
        r->tensor[i] = combined[i] / t->sums.norms[i];
        all += combined[i];
        leaves += t->sums.norms[i];
    }
    r->orthogonality = all / leaves;
}

/* The share of test images that are read right. Every rank reads a part of them. */
static rueda_status evaluate(trainer *t, double *accuracy)
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

/* Adds a step's orthogonality to the means of the first and the last tenth of the run. */
static void remember(run_summary *s, const step_record *r)
{
    const int tenth = r->steps >= 10 ? r->steps / 10 : 1;
    if (r->step <= tenth) {
        s->first += r->orthogonality / tenth;
        for (int i = 0; i < TENSORS; i++)
            s->tensor_first[i] += r->tensor[i] / tenth;
    }
    if (r->step > r->steps - tenth) {
        s->last += r->orthogonality / tenth;
        for (int i = 0; i < TENSORS; i++)
            s->tensor_last[i] += r->tensor[i] / tenth;
    }
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
                status = evaluate(t, &r.test_accuracy);
            if (status != RUEDA_OK)
                return status;
            if (epoch_ends)
                s->test_accuracy[epoch] = s->test_accuracy[s->epochs - 1] = r.test_accuracy;
            remember(s, &r);
            log_step(log, &r);
            progress_step(show, &r);
        }
    }
    s->steps = r.step;
    s->seconds = r.seconds;
    s->images_per_second = r.images / r.seconds;
    return RUEDA_OK;
}

bool train(const options *o, const dataset *training, const dataset *test, log_file *log,
           progress *show, run_summary *summary, char error[IDX_ERROR_BYTES])
{
    trainer t = {.o = o, .training = training, .test = test, .rank = rueda_rank()};
    t.local = (int)o->workers_per_rank;
    t.workers = rueda_size() * t.local;
    t.share = training->count / t.workers;
    t.steps = t.share / (int)o->batch * (int)o->epochs;
    *summary = (run_summary){
        .op = o->op, .ranks = rueda_size(), .workers = t.workers, .epochs = (int)o->epochs};
    for (int i = 0; i < MAX_EPOCHS; i++)
        summary->test_accuracy[i] = NAN;

    rueda_status status = RUEDA_OK;
    error[0] = '\0';
    if (t.steps == 0) {
        snprintf(error, IDX_ERROR_BYTES, "%d images are too few for %d workers with batches of %d",
                 training->count, t.workers, (int)o->batch);
    } else if (!take_memory(&t)) {
        snprintf(error, IDX_ERROR_BYTES, "out of memory for %d workers", t.local);
    } else {
        for (int i = 0; i < test->count; i++)
            t.test_order[i] = i;
        name_tensors(&t);
        progress_start(show, o, rueda_size(), t.workers, training->count);
        status = share_parameters(&t);
        if (status == RUEDA_OK)
            status = run(&t, log, show, summary);
        if (status != RUEDA_OK)
            snprintf(error, IDX_ERROR_BYTES, "%s", rueda_error());
    }
    give_memory_back(&t);
    return error[0] == '\0';
}
