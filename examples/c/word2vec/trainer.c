/* trainer.c: see trainer.h. */
#include "trainer.h"

#include <stdlib.h>

static bool take_updates(trainer *t)
{
    const size_t bytes = sizeof(float) * TABLES * t->table;
    t->updates = calloc((size_t)t->local, sizeof *t->updates);
    if (t->updates == NULL)
        return false;
    for (int w = 0; w < t->local; w++) {
        /* The ranks of this machine reach rueda_alloc's memory: no copy is needed to combine it. */
        t->updates[w] = w == 0 ? rueda_alloc(bytes) : malloc(bytes);
        if (t->updates[w] == NULL)
            return false;
    }
    return true;
}

static bool take_memory(trainer *t)
{
    const int words = t->text->words.count, size = (int)t->o->size;
    t->order = malloc(sizeof *t->order * (size_t)t->text->lines);
    t->keep = malloc(sizeof *t->keep * (size_t)words);
    t->parameters = malloc(sizeof(float) * TABLES * t->table);
    t->d_center = malloc(sizeof(float) * (size_t)size);
    if (t->order == NULL || t->keep == NULL || t->parameters == NULL || t->d_center == NULL ||
        !sampler_init(&t->negatives, &t->text->words))
        return false;
    keeping_chances(&t->text->words, t->o->frequent, t->keep);
    if (!pair_maker_init(&t->maker, t->text, &t->negatives, t->keep, (int)t->o->window,
                         1 + (int)t->o->negatives))
        return false;
    if (t->o->how != HOW_GATHER)
        return take_updates(t);
    return sparse_init(&t->gradients[INPUT], words, size, t->local) &&
           sparse_init(&t->gradients[OUTPUT], words, size, t->local);
}

void trainer_free(trainer *t)
{
    for (int w = 0; t->updates != NULL && w < t->local; w++) {
        if (w == 0)
            rueda_free(t->updates[w]);
        else
            free(t->updates[w]);
    }
    free(t->updates);
    sparse_free(&t->gradients[INPUT]);
    sparse_free(&t->gradients[OUTPUT]);
    pair_maker_free(&t->maker);
    sampler_free(&t->negatives);
    free(t->d_center);
    free(t->parameters);
    free(t->keep);
    free(t->order);
}

static void describe(trainer *t)
{
    const int64_t words = t->text->words.count, size = t->o->size;
    t->places[INPUT] = (tensor_place){"input", 0, t->table, 2, {words, size}};
    t->places[OUTPUT] = (tensor_place){"output", t->table, t->table, 2, {words, size}};
    t->about = (subject){.title = "word2vec",
                         .items = "pairs",
                         .test = "partners found",
                         .guessing = 0.693147 * (double)(1 + t->o->negatives), /* ln 2 for each */
                         .recovered = 0.45 * (double)(1 + t->o->negatives),
                         .places = t->places,
                         .tensors = TABLES};
    for (int i = 0; t->updates != NULL && i < TABLES; i++)
        t->tensors[i] = RUEDA_TENSOR(t->places[i].name, t->updates[0] + t->places[i].offset,
                                     RUEDA_F32, t->places[i].ndim, t->places[i].shape);
}

/* As much as all workers together can take between two combinations without loss. Gradients of many
 * lines at once add up to steps that are too long for frequent words. */
static int choose_lines(const settings *o, int workers)
{
    const int together = o->how == HOW_GATHER ? 16 : 256;
    if (o->lines > 0)
        return (int)o->lines;
    return workers < together ? together / workers : 1;
}

bool trainer_init(trainer *t, const settings *o, const corpus *text)
{
    *t = (trainer){.o = o, .text = text, .rank = rueda_rank()};
    t->local = (int)o->run.workers_per_rank;
    t->workers = rueda_size() * t->local;
    t->lines = choose_lines(o, t->workers);
    t->epoch_steps = text->lines / t->lines / t->workers;
    t->steps = t->epoch_steps * (int)o->run.epochs;
    t->table = (size_t)text->words.count * (size_t)o->size;
    if (!take_memory(t))
        return false;
    describe(t);
    return true;
}
