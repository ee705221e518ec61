/* trainer.c: see trainer.h. */
#include "trainer.h"

#include <stdlib.h>

static bool has_own_momentum(const trainer *t, int worker)
{
    return t->op == RUEDA_ADASUM || worker == 0;
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

void trainer_free(trainer *t)
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

/* One tensor for each layer's weights and biases: Adasum looks at each one by itself. */
static void name_tensors(trainer *t)
{
    for (int i = 0; i < TENSORS; i++) {
        const tensor_place *place = &network_tensors[i];
        t->tensors[i] = RUEDA_TENSOR(place->name, t->updates[0] + place->offset, RUEDA_F32,
                                     place->ndim, place->shape);
    }
}

void trainer_divide(trainer *t)
{
    t->rank = rueda_rank();
    t->workers = rueda_size() * t->local;
    t->begins = (int)t->at.seen;
    t->share = (t->training->count - t->begins) / t->workers;
}

int trainer_steps_left(const trainer *t)
{
    const int batch = (int)t->o->batch, done = ((int)t->at.seen - t->begins) / t->workers;
    return (t->share - done) / batch;
}

int trainer_steps(const trainer *t)
{
    const int of_epoch = t->training->count / t->workers / (int)t->o->batch;
    const int epochs_left = (int)(t->o->run.epochs - t->at.epoch) - 1;
    return (int)t->at.step + trainer_steps_left(t) + epochs_left * of_epoch;
}

bool trainer_init(trainer *t, const settings *o, const dataset *training, const dataset *test)
{
    *t = (trainer){
        .o = o, .op = settings_op(o), .training = training, .test = test, .rank = rueda_rank()};
    t->local = (int)o->run.workers_per_rank;
    trainer_divide(t);
    if (!take_memory(t))
        return false;
    for (int i = 0; i < test->count; i++)
        t->test_order[i] = i;
    name_tensors(t);
    return true;
}
