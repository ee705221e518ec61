/* train.c: training on many workers. This is the file to read: everything that makes the training
 * distributed is here, and it is short. In each step
 *
 *   1. every worker takes a batch of its own and finds the gradient;
 *   2. the workers' steps are combined into one, by rueda_grouped_allreduce;
 *   3. all add the same combined step to the same parameters, which so stay the same everywhere.
 *
 * When a rank of an elastic job is lost (`rueda run --min-np`), the others go on from where rank 0 is: see go_on.
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

#include <string.h>

enum { SHUFFLE_STREAM = 1, WEIGHTS_STREAM = 0 };

/* ---- Before the first step ------------------------------------------------------------------- */

/* All ranks get what rank 0 has. */
static rueda_status share(const char *name, void *data, rueda_dtype dtype, int64_t count)
{
    const rueda_tensor tensor = RUEDA_TENSOR(name, data, dtype, 1, &count);
    rueda_options options = RUEDA_OPTIONS(RUEDA_SUM);
    options.root = 0;
    return rueda_broadcast(&tensor, &options, NULL);
}

/* All ranks begin with the weights of rank 0. */
static rueda_status share_parameters(trainer *t)
{
    if (t->rank == 0) {
        random_state random = random_stream((uint64_t)t->o->run.seed, WEIGHTS_STREAM);
        network_init_parameters(t->parameters, &random);
    }
    return share("parameters", t->parameters, RUEDA_F32, NETWORK_PARAMETERS);
}

/* ---- One step -------------------------------------------------------------------------------- */

/* Every rank shuffles all images in the same way; worker w takes the w-th part. */
static void shuffle(trainer *t)
{
    random_state random =
        random_stream((uint64_t)t->o->run.seed, SHUFFLE_STREAM + (uint64_t)t->at.epoch);
    for (int i = 0; i < t->training->count; i++)
        t->order[i] = i;
    random_shuffle(&random, t->order, t->training->count);
}

/* 1: one worker's batch. Leaves its gradient, or with Adasum its own update, in updates[w]. */
static void work(trainer *t, int w, double rate)
{
    const int worker = t->rank * t->local + w, batch = (int)t->o->batch;
    const int done = ((int)t->at.seen - t->begins) / t->workers; /* by each worker, of its share */
    int correct;
    network_load(t->net, t->training, t->order + t->begins + worker * t->share + done, batch);
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

static rueda_status train_step(trainer *t, step_record *r)
{
    const double images = (double)t->workers * (double)t->o->batch, start = job_now();
    t->sums = (metrics){0};
    r->step = (int)t->at.step + 1;
    r->rate = learning_rate(t->o->run.lr, r->step - 1, r->steps);
    for (int w = 0; w < t->local; w++)
        work(t, w, r->rate);
    const rueda_status status = combine(t);
    if (status != RUEDA_OK)
        return status;
    note_orthogonality(t, r);
    apply(t, r->rate);
    t->at.step++;
    t->at.seen += (int64_t)images;
    r->seconds += job_now() - start;
    r->items += images;
    r->loss = t->sums.loss / images;
    r->accuracy = t->sums.correct / images;
    return RUEDA_OK;
}

static bool is_due(const trainer *t, const step_record *r)
{
    return trainer_steps_left(t) == 0 || !isfinite(r->loss) ||
           (t->o->run.eval_every > 0 && r->step % t->o->run.eval_every == 0);
}

static void begin_epoch(trainer *t, int64_t epoch)
{
    t->at.epoch = epoch;
    t->at.seen = 0;
    trainer_divide(t);
    shuffle(t);
}

/* A step, or, where a change of members came before the test at the end of an epoch, that test alone. */
static rueda_status move_on(trainer *t, step_record *r)
{
    r->epoch = (int)t->at.epoch + 1;
    r->test = NAN;
    rueda_status status = trainer_steps_left(t) > 0 ? train_step(t, r) : RUEDA_OK;
    if (status == RUEDA_OK && is_due(t, r))
        status = test(t, &r->test);
    return status;
}

/* By way of the memory for updates: if rank 0 is lost in the midst of it, what this rank has stays whole. */
static rueda_status share_floats(trainer *t, const char *name, float *values)
{
    const size_t bytes = sizeof *values * NETWORK_PARAMETERS;
    memcpy(t->updates[0], values, bytes);
    const rueda_status status = share(name, t->updates[0], RUEDA_F32, NETWORK_PARAMETERS);
    if (status == RUEDA_OK)
        memcpy(values, t->updates[0], bytes);
    return status;
}

/* Members were lost. A step may have ended well on some ranks and not on others, so all go on from where rank 0 of the
 * new view is, with its weights and momentum; with Adasum every worker keeps a momentum of its own. */
static rueda_status go_on(trainer *t, step_record *r)
{
    place at = t->at;
    rueda_status status = rueda_members_update(NULL);
    if (status == RUEDA_OK)
        status = share("place", &at, RUEDA_I64, PLACE_NUMBERS);
    if (status == RUEDA_OK)
        status = share_floats(t, "parameters", t->parameters);
    if (status == RUEDA_OK && t->op != RUEDA_ADASUM)
        status = share_floats(t, "momentum", t->velocities[0]);
    if (status != RUEDA_OK)
        return status;
    t->at = at;
    shuffle(t); /* rank 0 may be in another epoch than this rank was */
    trainer_divide(t);
    r->steps = trainer_steps(t);
    return RUEDA_OK;
}

static rueda_status survive(trainer *t, step_record *r, progress *show)
{
    rueda_status status;
    do
        status = go_on(t, r);
    while (status == RUEDA_ERR_MEMBERS); /* more were lost meanwhile */
    if (status == RUEDA_OK)
        progress_change(show, &t->o->run, t->workers, (int)t->at.step);
    return status;
}

/* All ranks do the same here: the loss was combined, so all see the same divergence. */
static rueda_status run(trainer *t, log_file *log, progress *show, run_summary *s)
{
    step_record r = {.steps = trainer_steps(t)};
    for (begin_epoch(t, 0); t->at.epoch < s->epochs;) {
        rueda_status status = move_on(t, &r);
        if (status == RUEDA_ERR_MEMBERS) {
            status = survive(t, &r, show);
            if (status == RUEDA_OK)
                continue;
        }
        if (status != RUEDA_OK)
            return status;
        summary_step(s, &network_subject, &r);
        log_step(log, &r);
        progress_step(show, &r);
        if (!isfinite(r.loss))
            return RUEDA_OK;
        if (trainer_steps_left(t) == 0)
            begin_epoch(t, t->at.epoch + 1);
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
    } else if (trainer_steps(&t) == 0) {
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
