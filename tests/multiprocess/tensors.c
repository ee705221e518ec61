/* tensors.c: memory and tasks. */
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

const char *task_kind_name(task_kind kind)
{
    static const char *const names[] = {"allreduce", "allgather",     "broadcast",
                                        "alltoall",  "reducescatter", "reduce",
                                        "gather",    "scatter",       "barrier"};
    return names[kind];
}

bool task_counts_rows(task_kind kind)
{
    return kind == TASK_ALLGATHER || kind == TASK_ALLTOALL || kind == TASK_GATHER ||
           kind == TASK_SCATTER;
}

size_t rows_of_member(int rows, int index)
{
    switch (rows) {
    case ROWS_EVEN:
        return 3;
    case ROWS_UNEVEN:
        return (size_t)(index % 3) * 5;
    case ROWS_ONE:
        return index == 0 ? 7 : 0;
    case ROWS_NONE:
        return 0;
    default:
        return 2001 + (size_t)(index % 7) * 1000;
    }
}

/* Rows that member `from` sends to member `to`. */
static size_t split(const task *t, int from, int to)
{
    return t->count == ROWS_EVEN ? 4 : rows_of_member((int)t->count, (from * 2 + to) % 5);
}

static size_t sum_sent(const task *t, int from, int end)
{
    size_t sum = 0;
    for (int to = 0; to < end; to++)
        sum += split(t, from, to);
    return sum;
}

static size_t sum_received(const task *t, int to, int size)
{
    size_t sum = 0;
    for (int from = 0; from < size; from++)
        sum += split(t, from, to);
    return sum;
}

static size_t sum_gathered(const task *t, int size)
{
    size_t sum = 0;
    for (int i = 0; i < size; i++)
        sum += rows_of_member((int)t->count, i);
    return sum;
}

/* The first (rows % size) members get one row more. */
static size_t share(size_t rows, size_t size, size_t index)
{
    return rows / size + (index < rows % size);
}

static size_t share_start(size_t rows, size_t size, size_t index)
{
    size_t start = 0;
    for (size_t i = 0; i < index; i++)
        start += share(rows, size, i);
    return start;
}

/* Without splits there is a row more than can be shared evenly. */
static size_t scattered_to(const task *t, int size, int index)
{
    return t->count == ROWS_EVEN ? share(3 * (size_t)size + 1, (size_t)size, (size_t)index)
                                 : rows_of_member((int)t->count, index);
}

static size_t scattered_before(const task *t, int size, int index)
{
    size_t sum = 0;
    for (int i = 0; i < index; i++)
        sum += scattered_to(t, size, i);
    return sum;
}

static bool is_root(const task *t)
{
    return rueda_process_set_rank(t->set) == t->root;
}

static void count_rows(const task *t, size_t *in, size_t *out)
{
    const int index = rueda_process_set_rank(t->set), size = rueda_process_set_size(t->set);
    *in = *out = t->count;
    if (t->kind == TASK_GATHER) {
        *in = rows_of_member((int)t->count, index);
        *out = is_root(t) ? sum_gathered(t, size) : 0;
    } else if (t->kind == TASK_SCATTER) {
        *in = is_root(t) ? scattered_before(t, size, size) : 0;
        *out = scattered_to(t, size, index);
    }
    if (t->kind == TASK_ALLGATHER) {
        *in = rows_of_member((int)t->count, index);
        *out = sum_gathered(t, size);
    } else if (t->kind == TASK_ALLTOALL) {
        *in = sum_sent(t, index, size);
        *out = sum_received(t, index, size);
    } else if (t->kind == TASK_REDUCESCATTER) {
        *out = share(t->count, (size_t)size, (size_t)index);
    }
}

void task_name(task *t)
{
    snprintf(t->name, sizeof t->name, "%s.%s.%s.%zu.%zu.%d.%s.%d.%g.%g", task_kind_name(t->kind),
             rueda_dtype_name(t->recipe.dtype), rueda_op_name(t->recipe.op), t->count, t->width,
             t->root, t->in_place ? "in" : "out", t->memory, t->recipe.prescale,
             t->recipe.postscale);
}

static int32_t global_root(const task *t)
{
    int32_t ranks[HARNESS_MAX_RANKS];
    rueda_process_set_ranks(t->set, ranks, HARNESS_MAX_RANKS);
    return ranks[t->root];
}

static const collective calls[] = {rueda_allreduce, rueda_allgather,     rueda_broadcast,
                                   rueda_alltoall,  rueda_reducescatter, rueda_reduce,
                                   rueda_gather,    rueda_scatter};

static void fill_splits(const task *t, int64_t *splits)
{
    const int index = rueda_process_set_rank(t->set), size = rueda_process_set_size(t->set);
    for (int i = 0; i < size; i++)
        splits[i] =
            (int64_t)(t->kind == TASK_SCATTER ? scattered_to(t, size, i) : split(t, index, i));
}

static void submit_data(task *t)
{
    const int index = rueda_process_set_rank(t->set);
    const size_t element = rueda_dtype_bytes(t->recipe.dtype);
    size_t in, out;
    count_rows(t, &in, &out);
    t->input = memory_take(t->memory, in * t->width * element);
    recipe_fill(&t->recipe, index, 0, t->input, in * t->width);
    const int64_t shape[] = {(int64_t)in, (int64_t)t->width};
    const int64_t unknown[] = {77, (int64_t)t->width};
    rueda_tensor tensor = RUEDA_TENSOR(t->name, t->input, t->recipe.dtype, 2, shape);
    if (t->kind == TASK_SCATTER && !is_root(t)) { /* what is not looked at */
        tensor.input = NULL;
        tensor.shape = unknown;
    }
    if (!t->in_place) {
        t->output = memory_take(t->memory, out * t->width * element);
        memset(t->output, 0xa5, out * t->width * element);
        tensor.output = t->output;
        tensor.output_bytes = out * t->width * element;
    }
    rueda_options options = RUEDA_OPTIONS(t->recipe.op);
    options.prescale = t->recipe.prescale;
    options.postscale = t->recipe.postscale;
    options.process_set = t->set;
    options.root = global_root(t);
    int64_t splits[HARNESS_MAX_RANKS];
    fill_splits(t, splits);
    options.splits = t->count == ROWS_EVEN ? NULL : splits;
    CHECK_OK(calls[t->kind](&tensor, &options, &t->request));
}

void task_submit(task *t)
{
    doing("submit %s", t->name);
    t->width = t->width == 0 ? 1 : t->width;
    t->request = NULL;
    t->input = t->output = NULL;
    if (t->kind == TASK_BARRIER)
        CHECK_OK(rueda_barrier(t->set, &t->request));
    else
        submit_data(t);
    CHECK(t->request != NULL);
}

static void check_gathered(const task *t, const uint8_t *at, int size)
{
    for (int i = 0; i < size; i++) {
        const size_t elements = rows_of_member((int)t->count, i) * t->width;
        recipe_check_copy(&t->recipe, i, 0, at, elements);
        at += elements * rueda_dtype_bytes(t->recipe.dtype);
    }
}

static void check_exchanged(const task *t, const rueda_output *output, int index, int size)
{
    const uint8_t *at = output->data;
    CHECK_EQUAL(output->received_count, size);
    for (int from = 0; from < size; from++) {
        const size_t rows = split(t, from, index);
        CHECK_EQUAL(output->received_splits[from], rows);
        recipe_check_copy(&t->recipe, from, sum_sent(t, from, index) * t->width, at,
                          rows * t->width);
        at += rows * t->width * rueda_dtype_bytes(t->recipe.dtype);
    }
}

/* Operations whose output has a size of its own. */
static void check_output(task *t, size_t rows)
{
    const int index = rueda_process_set_rank(t->set), size = rueda_process_set_size(t->set);
    rueda_output output = RUEDA_OUTPUT;
    CHECK_OK(rueda_take_output(t->request, &output));
    CHECK_EQUAL(output.bytes, rows * t->width * rueda_dtype_bytes(t->recipe.dtype));
    CHECK_EQUAL(output.ndim, 2);
    CHECK_EQUAL(output.shape[0], rows);
    CHECK_EQUAL(output.shape[1], t->width);
    CHECK_EQUAL(output.owned, t->in_place);
    CHECK(t->in_place || output.data == t->output);
    if (t->kind == TASK_ALLGATHER || (t->kind == TASK_GATHER && is_root(t)))
        check_gathered(t, output.data, size);
    else if (t->kind == TASK_SCATTER)
        recipe_check_copy(&t->recipe, t->root, scattered_before(t, size, index) * t->width,
                          output.data, rows * t->width);
    else if (t->kind == TASK_ALLTOALL)
        check_exchanged(t, &output, index, size);
    else if (t->kind == TASK_REDUCESCATTER)
        recipe_check(&t->recipe, NULL, size,
                     share_start(t->count, (size_t)size, (size_t)index) * t->width, output.data,
                     rows * t->width);
    rueda_output_free(&output);
    CHECK(output.data == NULL);
    CHECK_STATUS(rueda_take_output(t->request, &output), RUEDA_ERR_STATE); /* works once */
}

void task_drop(task *t)
{
    rueda_request_free(t->request);
    memory_give(t->memory, t->output);
    memory_give(t->memory, t->input);
    t->request = NULL;
    t->input = t->output = NULL;
}

/* The root has the result; whatever the others gave as output is as it was. */
static void check_reduced(const task *t, size_t elements)
{
    const uint8_t *untouched = t->output;
    if (is_root(t)) {
        recipe_check(&t->recipe, NULL, rueda_process_set_size(t->set), 0,
                     t->in_place ? t->input : t->output, elements);
        return;
    }
    for (size_t i = 0; !t->in_place && i < elements * rueda_dtype_bytes(t->recipe.dtype); i++)
        CHECK_EQUAL(untouched[i], 0xa5);
}

/* Whether the operation leaves its input alone. */
static bool keeps_input(const task *t)
{
    switch (t->kind) {
    case TASK_ALLREDUCE:
    case TASK_BROADCAST:
        return !t->in_place;
    case TASK_REDUCE:
        return !t->in_place || !is_root(t);
    default:
        return t->kind != TASK_BARRIER;
    }
}

void task_finish(task *t)
{
    doing("wait for %s", t->name);
    CHECK_OK(rueda_wait(t->request, -1));
    CHECK(rueda_poll(t->request));
    doing("check %s", t->name);
    size_t in, out;
    count_rows(t, &in, &out);
    const void *result = t->in_place ? t->input : t->output;
    if (t->kind == TASK_ALLREDUCE)
        recipe_check(&t->recipe, NULL, rueda_process_set_size(t->set), 0, result, in * t->width);
    else if (t->kind == TASK_BROADCAST)
        recipe_check_copy(&t->recipe, t->root, 0, result, in * t->width);
    else if (t->kind == TASK_REDUCE)
        check_reduced(t, in * t->width);
    else if (t->kind != TASK_BARRIER)
        check_output(t, out);
    if (keeps_input(t))
        recipe_check_copy(&t->recipe, rueda_process_set_rank(t->set), 0, t->input, in * t->width);
    task_drop(t);
}

void task_run(task *t)
{
    task_submit(t);
    task_finish(t);
}

rueda_status run_and_drop(collective call, const rueda_tensor *tensor, const rueda_options *options)
{
    rueda_request *request = NULL;
    rueda_status status = call(tensor, options, &request);
    if (status == RUEDA_OK)
        status = rueda_wait(request, -1);
    rueda_request_free(request);
    return status;
}
