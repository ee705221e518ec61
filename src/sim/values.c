/* values.c: inputs are small whole numbers, so that sums are exact in every type and every order. */
#include "sim/values.h"
#include "kernel/kernel.h"

#include <math.h>
#include <stdio.h>

/* ---- Elements ----------------------------------------------------------------------------------- */

static void put(void *to, rueda_dtype dtype, uint64_t i, double value)
{
    switch (dtype) {
    case RUEDA_BOOL:
        ((uint8_t *)to)[i] = value != 0;
        break;
    case RUEDA_U8:
        ((uint8_t *)to)[i] = (uint8_t)value;
        break;
    case RUEDA_I8:
        ((int8_t *)to)[i] = (int8_t)value;
        break;
    case RUEDA_U16:
        ((uint16_t *)to)[i] = (uint16_t)value;
        break;
    case RUEDA_I16:
        ((int16_t *)to)[i] = (int16_t)value;
        break;
    case RUEDA_I32:
        ((int32_t *)to)[i] = (int32_t)value;
        break;
    case RUEDA_I64:
        ((int64_t *)to)[i] = (int64_t)value;
        break;
    case RUEDA_F16:
        ((uint16_t *)to)[i] = kernel_f16_from_float((float)value);
        break;
    case RUEDA_BF16:
        ((uint16_t *)to)[i] = kernel_bf16_from_float((float)value);
        break;
    case RUEDA_F32:
        ((float *)to)[i] = (float)value;
        break;
    case RUEDA_F64:
        ((double *)to)[i] = value;
        break;
    }
}

static double get(const void *from, rueda_dtype dtype, uint64_t i)
{
    switch (dtype) {
    case RUEDA_BOOL:
    case RUEDA_U8:
        return ((const uint8_t *)from)[i];
    case RUEDA_I8:
        return ((const int8_t *)from)[i];
    case RUEDA_U16:
        return ((const uint16_t *)from)[i];
    case RUEDA_I16:
        return ((const int16_t *)from)[i];
    case RUEDA_I32:
        return ((const int32_t *)from)[i];
    case RUEDA_I64:
        return (double)((const int64_t *)from)[i];
    case RUEDA_F16:
        return (double)kernel_f16_to_float(((const uint16_t *)from)[i]);
    case RUEDA_BF16:
        return (double)kernel_bf16_to_float(((const uint16_t *)from)[i]);
    case RUEDA_F32:
        return (double)((const float *)from)[i];
    case RUEDA_F64:
        return ((const double *)from)[i];
    }
    return NAN;
}

static bool is_whole(rueda_dtype dtype)
{
    return dtype < RUEDA_F16;
}

/* ---- Inputs ------------------------------------------------------------------------------------- */

/* Ranks of a gathering bring different numbers of rows. */
static uint64_t own_rows(const task *k, int index)
{
    return k->count + (uint64_t)index % 3;
}

/* The member to which an element of an Adasum of orthogonal gradients belongs. */
static bool owns(const trial *t, const task *k, int index, uint64_t i)
{
    return i % (uint64_t)t->sets[k->set].size == (uint64_t)index;
}

/* What member `index` has at place i. */
static double value_of(const trial *t, const task *k, int index, uint64_t i)
{
    const uint64_t base = (i * 7 + k->number * 3) % 5;
    if (k->dtype == RUEDA_BOOL)
        return (double)((base + (uint64_t)index) % 2);
    if (k->op == RUEDA_PRODUCT) /* at most 8, which all types hold */
        return index < 3 && (base + (uint64_t)index) % 2 != 0 ? 2 : 1;
    if (k->op == RUEDA_ADASUM && k->kind == TASK_ALLREDUCE)
        return k->alike ? (double)(base + 1) : owns(t, k, index, i) ? (double)(base + 1) : 0;
    return (double)(base + ((uint64_t)index * 5 + i) % 6);
}

static int size_of(const trial *t, const task *k)
{
    return t->sets[k->set].size;
}

uint64_t values_split(const task *k, int from, int to)
{
    return k->uneven ? k->count / 2 + (uint64_t)(from + 2 * to) % 3 : k->count;
}

/* Rows that member `from` has for the members before `to`. */
static uint64_t split_before(const task *k, int from, int to)
{
    uint64_t rows = 0;
    for (int i = 0; i < to; i++)
        rows += values_split(k, from, i);
    return rows;
}

uint64_t values_in_count(const trial *t, const task *k, int rank)
{
    const int index = trial_index(t, k->set, rank);
    switch (k->kind) {
    case TASK_BARRIER:
        return 0;
    case TASK_ALLGATHER:
    case TASK_GATHER:
        return own_rows(k, index);
    case TASK_ALLTOALL:
        return split_before(k, index, size_of(t, k));
    case TASK_SCATTER:
        return rank == k->root ? split_before(k, index, size_of(t, k)) : 0;
    case TASK_ALLREDUCE:
    case TASK_GROUP:
    case TASK_BROADCAST:
    case TASK_REDUCESCATTER:
    case TASK_REDUCE:
    case TASK_MESSAGE:
    case TASK_KINDS:
        break;
    }
    return k->count;
}

void values_fill(const trial *t, const task *k, int rank, void *input)
{
    const int index = trial_index(t, k->set, rank);
    const uint64_t count = values_in_count(t, k, rank);
    for (uint64_t i = 0; i < count; i++)
        put(input, k->dtype, i, value_of(t, k, index, i));
}

/* ---- Results ------------------------------------------------------------------------------------ */

static uint64_t all_rows(const trial *t, const task *k)
{
    uint64_t rows = 0;
    for (int i = 0; i < size_of(t, k); i++)
        rows += own_rows(k, i);
    return rows;
}

/* The first ranks get one row more where they do not divide evenly. */
static uint64_t share(const trial *t, const task *k, int index, uint64_t *first)
{
    const uint64_t size = (uint64_t)size_of(t, k), each = k->count / size, more = k->count % size;
    const uint64_t place = (uint64_t)index;
    *first = place * each + (place < more ? place : more);
    return each + (place < more);
}

uint64_t values_out_count(const trial *t, const task *k, int rank)
{
    const int index = trial_index(t, k->set, rank);
    uint64_t first, rows = 0;
    switch (k->kind) {
    case TASK_BARRIER:
        return 0;
    case TASK_ALLGATHER:
        return all_rows(t, k);
    case TASK_GATHER:
        return rank == k->root ? all_rows(t, k) : 0;
    case TASK_ALLTOALL:
        for (int i = 0; i < size_of(t, k); i++)
            rows += values_split(k, i, index);
        return rows;
    case TASK_SCATTER:
        return values_split(k, trial_index(t, k->set, k->root), index);
    case TASK_REDUCESCATTER:
        return share(t, k, index, &first);
    case TASK_REDUCE:
        return rank == k->root ? k->count : 0;
    case TASK_MESSAGE:
        return rank == k->peer ? k->count : 0;
    case TASK_ALLREDUCE:
    case TASK_GROUP:
    case TASK_BROADCAST:
    case TASK_KINDS:
        break;
    }
    return k->count;
}

static double combine(const task *k, double a, double b)
{
    const bool is_bool = k->dtype == RUEDA_BOOL;
    switch (k->op) {
    case RUEDA_MIN:
        return a < b ? a : b;
    case RUEDA_MAX:
        return a > b ? a : b;
    case RUEDA_PRODUCT:
        return a * b;
    case RUEDA_ADASUM:
        return k->alike ? b : a + b; /* parallel gradients average, orthogonal ones add */
    case RUEDA_SUM:
    case RUEDA_AVERAGE:
        break;
    }
    return is_bool ? a != 0 || b != 0 : a + b;
}

/* Who has joined brings zeros, and counts where the sum is divided. */
static double combined(const trial *t, const task *k, uint64_t i)
{
    const int size = size_of(t, k);
    double result = 0;
    bool first = true;
    for (int m = 0; m < size; m++) {
        if ((k->absent >> t->sets[k->set].ranks[m] & 1) != 0)
            continue;
        const double next = value_of(t, k, m, i) * k->prescale;
        result = first ? next : combine(k, result, next);
        first = false;
    }
    if (k->op == RUEDA_AVERAGE)
        result = is_whole(k->dtype) ? trunc(result / size) : result / size;
    return result * k->postscale;
}

static double gathered(const trial *t, const task *k, uint64_t i)
{
    int index = 0;
    while (i >= own_rows(k, index))
        i -= own_rows(k, index++);
    return value_of(t, k, index, i);
}

static double expected(const trial *t, const task *k, int rank, uint64_t i)
{
    const int index = trial_index(t, k->set, rank), root = trial_index(t, k->set, k->root);
    int from = 0;
    uint64_t first = 0;
    switch (k->kind) {
    case TASK_ALLGATHER:
    case TASK_GATHER:
        return gathered(t, k, i);
    case TASK_ALLTOALL:
        while (i >= values_split(k, from, index))
            i -= values_split(k, from++, index);
        return value_of(t, k, from, split_before(k, from, index) + i);
    case TASK_SCATTER:
        return value_of(t, k, root, split_before(k, root, index) + i);
    case TASK_BROADCAST:
    case TASK_MESSAGE:
        return value_of(t, k, root, i);
    case TASK_REDUCESCATTER:
        share(t, k, index, &first);
        return combined(t, k, first + i);
    case TASK_ALLREDUCE:
    case TASK_GROUP:
    case TASK_REDUCE:
    case TASK_BARRIER:
    case TASK_KINDS:
        break;
    }
    return combined(t, k, i);
}

/* Only what divides, or multiplies by a fraction, is rounded. */
static double allowed(const task *k, double right)
{
    const bool reduces = k->kind == TASK_ALLREDUCE || k->kind == TASK_GROUP ||
                         k->kind == TASK_REDUCE || k->kind == TASK_REDUCESCATTER;
    if (!reduces || is_whole(k->dtype) || (k->op != RUEDA_AVERAGE && k->op != RUEDA_ADASUM))
        return 0;
    const bool half = k->dtype == RUEDA_F16 || k->dtype == RUEDA_BF16;
    return fabs(right) * (half ? 0.02 : 1e-5);
}

bool values_check(const trial *t, const task *k, int rank, const void *output, char *text,
                  size_t size)
{
    const uint64_t count = values_out_count(t, k, rank);
    for (uint64_t i = 0; i < count; i++) {
        const double is = get(output, k->dtype, i), right = expected(t, k, rank, i);
        if (fabs(is - right) <= allowed(k, right))
            continue;
        snprintf(text, size, "%s '%s' of %s: element %llu of %llu is %g, not %g",
                 task_name(k->kind), k->name, rueda_dtype_name(k->dtype), (unsigned long long)i,
                 (unsigned long long)count, is, right);
        return false;
    }
    return true;
}
