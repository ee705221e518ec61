/* tensors.c: memory and allreduce trials. */
#include "tensors.h"

#include <stdlib.h>
#include <string.h>

static bool is_shared(memory_kind kind)
{
    return kind == MEMORY_SHARED || (kind == MEMORY_MIXED && rueda_rank() % 2 == 0);
}

void *memory_take(memory_kind kind, size_t bytes)
{
    void *memory = is_shared(kind) ? rueda_alloc(bytes) : malloc(bytes + 1);
    if (memory == NULL)
        rank_fail(__FILE__, __LINE__, "no memory for %zu bytes: %s", bytes, rueda_error());
    return memory;
}

void memory_give(memory_kind kind, void *memory)
{
    if (is_shared(kind))
        rueda_free(memory);
    else
        free(memory);
}

void trial_submit(trial *t)
{
    const size_t bytes = t->count * rueda_dtype_bytes(t->recipe.dtype);
    const int64_t shape[] = {(int64_t)t->count};
    t->input = memory_take(t->memory, bytes);
    recipe_fill(&t->recipe, rueda_rank(), 0, t->input, t->count);
    rueda_tensor tensor = RUEDA_TENSOR(t->name, t->input, t->recipe.dtype, 1, shape);
    if (!t->in_place) {
        t->output = memory_take(t->memory, bytes);
        memset(t->output, 0xa5, bytes);
        tensor.output = t->output;
    }
    rueda_options options = RUEDA_OPTIONS(t->recipe.op);
    options.prescale = t->recipe.prescale;
    options.postscale = t->recipe.postscale;
    options.process_set = t->set;
    t->request = NULL;
    CHECK_OK(rueda_allreduce(&tensor, &options, &t->request));
    CHECK(t->request != NULL);
}

void trial_finish(trial *t)
{
    CHECK_OK(rueda_wait(t->request, -1));
    CHECK(rueda_poll(t->request));
    const int size = t->set_size > 0 ? t->set_size : rueda_size();
    recipe_check(&t->recipe, t->set_ranks, size, 0, t->in_place ? t->input : t->output, t->count);
    if (!t->in_place) {
        recipe_check_copy(&t->recipe, rueda_rank(), 0, t->input, t->count);
        memory_give(t->memory, t->output);
    }
    memory_give(t->memory, t->input);
    rueda_request_free(t->request);
}

void trial_run(trial *t)
{
    trial_submit(t);
    trial_finish(t);
}

void *rows_of(const recipe *r, int rank, size_t rows, size_t width, memory_kind memory)
{
    void *data = memory_take(memory, rows * width * rueda_dtype_bytes(r->dtype));
    recipe_fill(r, rank, 0, data, rows * width);
    return data;
}
