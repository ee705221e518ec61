/* train.c: training on many workers. This is the file to read: everything that makes the training
 * distributed is here, and it is short. There are two ways.
 *
 * Sparse gradients (gather). All workers stand at the same parameters and find the gradient of the loss
 * over a few lines each. Only rows of words that occurred there are not zero, so instead of two whole
 * tables each worker hands over its rows and their numbers; allgather gives all of them to all, and all
 * take the same step. N workers with L lines each do what one does with N · L lines.
 *
 * Changes (adasum, average). Each worker trains by itself on its lines, pair after pair, and what
 * counts is how far that has moved it. Between two steps the tables of all workers are the same; the
 * changes are combined and applied. Averaging divides by N what only one worker has learned about a
 * rare word; Adasum does not, since what the others have learned is orthogonal to it.
 */
#include "train.h"

#include "common/combine.h"
#include "common/job.h"
#include "words.h"

#include <string.h>

enum { WEIGHTS_STREAM = 0, SHUFFLE_STREAM = 1, LINES_STREAM = 1 << 20 };

/* ---- Before the first step ------------------------------------------------------------------- */

/* All ranks begin with the vectors of rank 0. */
static rueda_status share_parameters(trainer *t)
{
    if (t->rank == 0) {
        random_state random = random_stream((uint64_t)t->o->run.seed, WEIGHTS_STREAM);
        model_init(t->parameters, t->text->words.count, (int)t->o->size, &random);
    }
    const int64_t shape[] = {(int64_t)(TABLES * t->table)};
    rueda_tensor tensor = RUEDA_TENSOR("parameters", t->parameters, RUEDA_F32, 1, shape);
    rueda_options options = RUEDA_OPTIONS(RUEDA_SUM);
    options.root = 0;
    return rueda_broadcast(&tensor, &options, NULL);
}

/* Every rank shuffles all lines in the same way; of those of a step worker w takes the w-th part. */
static void shuffle(trainer *t, int epoch)
{
    random_state random = random_stream((uint64_t)t->o->run.seed, SHUFFLE_STREAM + (uint64_t)epoch);
    for (int i = 0; i < t->text->lines; i++)
        t->order[i] = i;
    random_shuffle(&random, t->order, t->text->lines);
    t->epoch = epoch;
}

/* ---- The work of one worker ------------------------------------------------------------------ */

typedef void pair_function(trainer *t, float *tables, double rate, const pair *p);

static float *row(const trainer *t, float *tables, int table, int32_t word)
{
    return tables + (size_t)table * t->table + (size_t)word * (size_t)t->o->size;
}

/* A step of training in these tables, at once. */
static void learn_pair(trainer *t, float *tables, double rate, const pair *p)
{
    float *outputs[MAX_OUTPUTS], *center = row(t, tables, INPUT, p->center);
    const int size = (int)t->o->size;
    for (int i = 0; i < t->maker.outputs; i++)
        outputs[i] = row(t, tables, OUTPUT, p->outputs[i]);
    memset(t->d_center, 0, sizeof(float) * (size_t)size);
    t->sums.loss += model_pair(size, center, (const float *const *)outputs, t->maker.outputs,
                               (float)-rate, t->d_center, outputs);
    for (int i = 0; i < size; i++)
        center[i] += t->d_center[i];
}

/* Only the gradient, added to the sparse rows. */
static void differentiate_pair(trainer *t, float *tables, double rate, const pair *p)
{
    const float *outputs[MAX_OUTPUTS], *center = row(t, tables, INPUT, p->center);
    float *d_outputs[MAX_OUTPUTS];
    (void)rate;
    for (int i = 0; i < t->maker.outputs; i++) {
        outputs[i] = row(t, tables, OUTPUT, p->outputs[i]);
        d_outputs[i] = sparse_row(&t->gradients[OUTPUT], p->outputs[i]);
    }
    t->sums.loss += model_pair((int)t->o->size, center, outputs, t->maker.outputs, 1,
                               sparse_row(&t->gradients[INPUT], p->center), d_outputs);
}

/* Random numbers come with the line, not with the worker: whoever takes it finds the same pairs. */
static void work_lines(trainer *t, int w, int step_of_epoch, double rate, float *tables,
                       pair_function *function)
{
    const int first = (step_of_epoch * t->workers + t->rank * t->local + w) * t->lines;
    for (int i = first; i < first + t->lines; i++) {
        const uint64_t place =
            (uint64_t)t->epoch * (uint64_t)t->text->lines + (uint64_t)t->order[i];
        random_state random = random_stream((uint64_t)t->o->run.seed, LINES_STREAM + place);
        const int pairs = make_pairs(&t->maker, t->order[i], &random);
        for (int p = 0; p < pairs; p++)
            function(t, tables, rate, &t->maker.pairs[p]);
        t->sums.pairs += pairs;
    }
}

/* ---- Sparse gradients ------------------------------------------------------------------------ */

/* One table's rows and their numbers, on their way to all ranks. */
typedef struct gathering {
    rueda_request *indices, *values;
} gathering;

static rueda_status start_gathering(trainer *t, int table, gathering *g)
{
    static const char *const names[TABLES][2] = {{"input.rows", "input.values"},
                                                 {"output.rows", "output.values"}};
    sparse *s = &t->gradients[table];
    const int64_t shape[] = {s->count, s->size};
    const rueda_tensor indices = RUEDA_TENSOR(names[table][0], s->indices, RUEDA_I32, 1, shape);
    const rueda_tensor values = RUEDA_TENSOR(names[table][1], s->values, RUEDA_F32, 2, shape);
    rueda_status status = rueda_allgather(&indices, NULL, &g->indices);
    if (status == RUEDA_OK)
        status = rueda_allgather(&values, NULL, &g->values);
    return status;
}

/* Rows come in the order of workers, so all ranks round in the same way. */
static void apply_rows(trainer *t, int table, double rate, const rueda_output *indices,
                       const rueda_output *values)
{
    const int32_t *words = indices->data;
    const float *gradient = values->data, factor = (float)-rate;
    const int size = (int)t->o->size;
    for (int64_t i = 0; i < indices->shape[0]; i++, gradient += size) {
        float *to = row(t, t->parameters, table, words[i]);
        for (int j = 0; j < size; j++)
            to[j] += factor * gradient[j];
    }
}

static rueda_status finish_gathering(trainer *t, int table, double rate, const gathering *g)
{
    rueda_output indices = RUEDA_OUTPUT, values = RUEDA_OUTPUT;
    rueda_request *const requests[] = {g->indices, g->values};
    rueda_status status = rueda_wait_all(requests, 2, -1);
    if (status == RUEDA_OK)
        status = rueda_take_output(g->indices, &indices);
    if (status == RUEDA_OK)
        status = rueda_take_output(g->values, &values);
    if (status == RUEDA_OK)
        apply_rows(t, table, rate, &indices, &values);
    rueda_output_free(&indices);
    rueda_output_free(&values);
    return status;
}

static rueda_status gather_step(trainer *t, int step_of_epoch, double rate)
{
    gathering under_way[TABLES] = {{NULL, NULL}, {NULL, NULL}};
    rueda_status status = RUEDA_OK;
    for (int table = 0; table < TABLES; table++)
        sparse_clear(&t->gradients[table]);
    for (int w = 0; w < t->local; w++) {
        for (int table = 0; table < TABLES; table++)
            sparse_next_worker(&t->gradients[table]);
        work_lines(t, w, step_of_epoch, rate, t->parameters, differentiate_pair);
    }
    for (int table = 0; table < TABLES && status == RUEDA_OK; table++)
        status = start_gathering(t, table, &under_way[table]);
    for (int table = 0; table < TABLES && status == RUEDA_OK; table++)
        status = finish_gathering(t, table, rate, &under_way[table]);
    for (int table = 0; table < TABLES; table++) {
        rueda_request_free(under_way[table].indices);
        rueda_request_free(under_way[table].values);
    }
    return status;
}

/* ---- Changes --------------------------------------------------------------------------------- */

/* Trains in a copy of the tables; updates[w] is then what has changed in it. */
static void change(trainer *t, int w, int step_of_epoch, double rate)
{
    const size_t count = TABLES * t->table;
    float *tables = t->updates[w];
    memcpy(tables, t->parameters, sizeof *tables * count);
    work_lines(t, w, step_of_epoch, rate, tables, learn_pair);
    for (size_t i = 0; i < count; i++)
        tables[i] -= t->parameters[i];
}

static rueda_status change_step(trainer *t, int step_of_epoch, double rate)
{
    const rueda_op op = t->o->how == HOW_ADASUM ? RUEDA_ADASUM : RUEDA_AVERAGE;
    rueda_options options = RUEDA_OPTIONS(op);
    if (t->workers == 1) { /* alone there is nothing to combine */
        work_lines(t, 0, step_of_epoch, rate, t->parameters, learn_pair);
        return RUEDA_OK;
    }
    for (int w = 0; w < t->local; w++)
        change(t, w, step_of_epoch, rate);
    combine_workers(op, &t->about, t->updates, t->local, t->sums.norms); /* those in this process */
    if (op == RUEDA_AVERAGE)
        options.postscale = 1.0 / t->local; /* they were only summed */
    const rueda_status status = rueda_grouped_allreduce(t->tensors, TABLES, &options, NULL);
    for (size_t i = 0; status == RUEDA_OK && i < TABLES * t->table; i++)
        t->parameters[i] += t->updates[0][i];
    return status;
}

/* ---- How it goes ----------------------------------------------------------------------------- */

static rueda_status add_up(trainer *t)
{
    const int64_t shape[] = {METRICS};
    const rueda_tensor sums = RUEDA_TENSOR("metrics", &t->sums, RUEDA_F64, 1, shape);
    const rueda_options add = RUEDA_OPTIONS(RUEDA_SUM);
    return rueda_allreduce(&sums, &add, NULL);
}

static void note_orthogonality(const trainer *t, step_record *r)
{
    if (t->o->how != HOW_ADASUM || t->workers == 1)
        no_orthogonality(&t->about, r);
    else if (t->local == 1)
        ask_orthogonality(&t->about, r);
    else
        measure_orthogonality(&t->about, t->updates[0], t->sums.norms, r);
}

/* Rank 0 alone: the vectors are the same everywhere. */
static double test(const trainer *t)
{
    words w;
    double found = NAN;
    if (words_init(&w, &t->text->words, t->parameters, (int)t->o->size))
        found = words_partners(&w);
    words_free(&w);
    return found;
}

/* ---- The loop -------------------------------------------------------------------------------- */

static rueda_status train_step(trainer *t, int step_of_epoch, step_record *r)
{
    const double start = job_now();
    t->sums = (metrics){0};
    r->rate = t->o->run.lr * (r->steps - r->step + 1) / r->steps;
    rueda_status status = t->o->how == HOW_GATHER ? gather_step(t, step_of_epoch, r->rate)
                                                  : change_step(t, step_of_epoch, r->rate);
    if (status == RUEDA_OK)
        status = add_up(t);
    if (status != RUEDA_OK)
        return status;
    note_orthogonality(t, r);
    r->seconds += job_now() - start;
    r->items += t->sums.pairs;
    r->loss = t->sums.pairs > 0 ? t->sums.loss / t->sums.pairs : 0;
    return RUEDA_OK;
}

static bool is_due(const trainer *t, const step_record *r, bool epoch_ends)
{
    return t->rank == 0 &&
           (epoch_ends || (t->o->run.eval_every > 0 && r->step % t->o->run.eval_every == 0));
}

static rueda_status run(trainer *t, log_file *log, progress *show, run_summary *s)
{
    step_record r = {.steps = t->steps, .accuracy = NAN};
    for (int epoch = 0; epoch < s->epochs; epoch++) {
        shuffle(t, epoch);
        r.epoch = epoch + 1;
        for (int step = 0; step < t->epoch_steps; step++) {
            r.step++;
            r.test = NAN;
            const rueda_status status = train_step(t, step, &r);
            if (status != RUEDA_OK)
                return status;
            if (is_due(t, &r, step + 1 == t->epoch_steps || !isfinite(r.loss)))
                r.test = test(t);
            summary_step(s, &t->about, &r);
            log_step(log, &r);
            progress_step(show, &r);
            if (!isfinite(r.loss)) /* the same on all ranks: the loss was combined */
                return RUEDA_OK;
        }
    }
    return RUEDA_OK;
}

static void say_hello(const trainer *t, const run_summary *s, progress *show)
{
    char what[160];
    snprintf(what, sizeof what,
             "%lld words of %d different ones in %d lines; each worker takes %d lines in a step",
             (long long)t->text->starts[t->text->lines], t->text->words.count, t->text->lines,
             t->lines);
    progress_start(show, &t->about, &t->o->run, s, what);
}

bool train(trainer *t, log_file *log, progress *show, run_summary *summary,
           char error[CORPUS_ERROR_BYTES])
{
    const rueda_op op = t->o->how == HOW_ADASUM ? RUEDA_ADASUM : RUEDA_AVERAGE;
    error[0] = '\0';
    summary_start(summary, op, how_words[t->o->how], t->workers, (int)t->o->run.epochs);
    say_hello(t, summary, show);
    rueda_status status = share_parameters(t);
    if (status == RUEDA_OK)
        status = run(t, log, show, summary);
    if (status != RUEDA_OK)
        snprintf(error, CORPUS_ERROR_BYTES, "%s", rueda_error());
    return status == RUEDA_OK;
}
