/* adasum_test.c: Adasum against its definition: the binary tree over the ranks, per tensor, in double.
 * ctest: timeout=300 */
#include "adasum_values.h"
#include "tensors.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MOST_RANKS 8

static const rueda_dtype dtypes[] = {RUEDA_F16, RUEDA_BF16, RUEDA_F32, RUEDA_F64};

typedef struct adasum_trial {
    adasum_case tensor;
    memory_kind memory;
    char name[96];
    void *data; /* in place, unless there is an output */
    void *output;
    int64_t shape[1];
} adasum_trial;

static rueda_tensor make_tensor(adasum_trial *t, int index, int size)
{
    const adasum_case *c = &t->tensor;
    t->shape[0] = (int64_t)c->count;
    t->data = memory_take(t->memory, c->count * rueda_dtype_bytes(c->dtype));
    for (size_t i = 0; i < c->count; i++)
        value_store(c->dtype, t->data, i, (number){adasum_input(c, index, size, i), 0});
    snprintf(t->name, sizeof t->name, "adasum.%s.%s.%zu.%d", rueda_dtype_name(c->dtype),
             adasum_pattern_name(c->pattern), c->count, t->memory);
    doing("%s", t->name);
    return RUEDA_TENSOR(t->name, t->data, c->dtype, 1, t->shape);
}

/* The bytes of all members are the same. */
static void check_alike(void *result, size_t bytes, int32_t set)
{
    const int64_t shape[] = {(int64_t)bytes};
    rueda_tensor tensor = RUEDA_TENSOR("alike", result, RUEDA_U8, 1, shape);
    rueda_options options = RUEDA_OPTIONS(RUEDA_SUM);
    options.process_set = set;
    rueda_request *request;
    rueda_output output = RUEDA_OUTPUT;
    CHECK_OK(rueda_allgather(&tensor, &options, &request));
    CHECK_OK(rueda_wait(request, -1));
    CHECK_OK(rueda_take_output(request, &output));
    for (int i = 0; i < rueda_process_set_size(set); i++)
        CHECK(memcmp(result, (uint8_t *)output.data + (size_t)i * bytes, bytes) == 0);
    rueda_output_free(&output);
    rueda_request_free(request);
}

/* The first member of a set calculates what is expected; the others only compare with it. */
static bool is_judge(int32_t set)
{
    return rueda_process_set_rank(set) == 0;
}

static void judge(const adasum_trial *t, int size, const void *result, double value,
                  double *combined, double *leaves)
{
    adasum_result expected = adasum_expected(&t->tensor, size);
    adasum_check(&t->tensor, &expected, size, result);
    if (size > 1)
        adasum_check_orthogonality(t->tensor.dtype, value, expected.combined, expected.leaves);
    else
        CHECK(value == 1);
    *combined += expected.combined;
    *leaves += expected.leaves;
    free(expected.values);
}

/* Checks result, likeness and orthogonality; the judge's *combined and *leaves grow by the squared
 * norms. */
static void check_trial(adasum_trial *t, int32_t set, double *combined, double *leaves)
{
    const int size = rueda_process_set_size(set);
    void *result = t->output != NULL ? t->output : t->data;
    double value;
    doing("check %s", t->name);
    CHECK_OK(rueda_orthogonality(t->name, &value));
    if (is_judge(set))
        judge(t, size, result, value, combined, leaves);
    check_alike(result, t->tensor.count * rueda_dtype_bytes(t->tensor.dtype), set);
    check_alike(&value, sizeof value, set);
    for (size_t i = 0; i < t->tensor.count && t->output != NULL; i++) {
        const double input = adasum_input(&t->tensor, rueda_process_set_rank(set), size, i);
        const double kept = value_load(t->tensor.dtype, t->data, i).real;
        CHECK(kept == input || (isnan(kept) && isnan(input)));
    }
    memory_give(t->memory, t->output);
    memory_give(t->memory, t->data);
}

static void try_patterns(int rank, int size, const void *argument)
{
    (void)argument;
    static const size_t counts[] = {1, 17, 1001, 12011};
    double combined = 0, leaves = 0;
    CHECK_OK(rueda_init(NULL));
    for (int p = 0; p < PATTERN_COUNT; p++) {
        for (size_t i = 0; i < 16; i++) {
            adasum_trial t = {.tensor = {dtypes[i % 4], (adasum_pattern)p, counts[i / 4], 7 + i},
                              .memory = (i + (size_t)p) % 3};
            rueda_tensor tensor = make_tensor(&t, rank, size);
            if (p % 2 == 0) {
                tensor.output_bytes = t.tensor.count * rueda_dtype_bytes(t.tensor.dtype);
                tensor.output = t.output = memory_take(t.memory, tensor.output_bytes);
            }
            CHECK_OK(rueda_allreduce(&tensor, &RUEDA_OPTIONS(RUEDA_ADASUM), NULL));
            check_trial(&t, RUEDA_GLOBAL_SET, &combined, &leaves);
        }
    }
    CHECK_OK(rueda_shutdown());
}

static void adasum_follows_its_definition(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= MOST_RANKS; ranks++)
        run_ranks(ranks, try_patterns, NULL);
}

/* Tensors of very different lengths in one operation: each has coefficients of its own. */
#define TOGETHER 24
static void make_together(adasum_trial *trials, rueda_tensor *tensors, int rank, int size,
                          rueda_dtype dtype, memory_kind memory)
{
    for (size_t i = 0; i < TOGETHER; i++) {
        trials[i] = (adasum_trial){
            .tensor = {dtype, (adasum_pattern)(i % (PATTERN_SCALES + 1)), 1 + i * i * 17, i},
            .memory = memory};
        tensors[i] = make_tensor(&trials[i], rank, size);
    }
}

static void try_together(int rank, int size, const void *argument)
{
    const bool grouped = *(const bool *)argument;
    adasum_trial trials[TOGETHER];
    rueda_tensor tensors[TOGETHER];
    rueda_request *requests[TOGETHER];
    CHECK_OK(rueda_init(NULL));
    for (int round = 0; round < 12; round++) {
        const rueda_dtype dtype = dtypes[round % 4];
        const rueda_options options = RUEDA_OPTIONS(RUEDA_ADASUM);
        make_together(trials, tensors, rank, size, dtype, round / 4);
        if (grouped) {
            CHECK_OK(rueda_grouped_allreduce(tensors, TOGETHER, &options, NULL));
        } else {
            for (int i = 0; i < TOGETHER; i++)
                CHECK_OK(rueda_allreduce(&tensors[i], &options, &requests[i]));
            CHECK_OK(rueda_wait_all(requests, TOGETHER, -1));
            for (int i = 0; i < TOGETHER; i++)
                rueda_request_free(requests[i]);
        }
        double combined = 0, leaves = 0;
        for (int i = 0; i < TOGETHER; i++)
            check_trial(&trials[i], RUEDA_GLOBAL_SET, &combined, &leaves);
    }
    CHECK_OK(rueda_shutdown());
}

static void fused_tensors_keep_their_own_coefficients(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= MOST_RANKS; ranks++)
        run_ranks(ranks, try_together, &(bool){false});
}

static void grouped_tensors_keep_their_own_coefficients(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= 5; ranks++)
        run_ranks(ranks, try_together, &(bool){true});
}

/* Orthogonality × leaves that are not 0, weighted by the tensors' norms. */
static double expected_worth(const adasum_trial *trials, int size)
{
    double worth = 0, leaves = 0;
    for (int i = 0; i < TOGETHER; i++) {
        adasum_result expected = adasum_expected(&trials[i].tensor, size);
        worth += expected.combined * expected.counted;
        leaves += expected.leaves;
        free(expected.values);
    }
    return worth / leaves;
}

static void try_overall(int rank, int size, const void *argument)
{
    (void)argument;
    adasum_trial trials[TOGETHER];
    rueda_tensor tensors[TOGETHER];
    double value = -5, combined = 0, leaves = 0;
    rueda_stats stats = {.struct_size = sizeof stats};
    CHECK_OK(rueda_init(NULL));
    CHECK_STATUS(rueda_orthogonality(NULL, &value), RUEDA_ERR_ARGUMENT);
    CHECK_STATUS(rueda_orthogonality("nobody", &value), RUEDA_ERR_ARGUMENT);
    CHECK(value == -5); /* outputs are set only on success */
    CHECK_OK(rueda_get_stats(&stats));
    CHECK(isnan(stats.orthogonality));
    make_together(trials, tensors, rank, size, RUEDA_F64, MEMORY_PRIVATE);
    CHECK_OK(rueda_grouped_allreduce(tensors, TOGETHER, &RUEDA_OPTIONS(RUEDA_ADASUM), NULL));
    for (int i = 0; i < TOGETHER; i++)
        check_trial(&trials[i], RUEDA_GLOBAL_SET, &combined, &leaves);
    CHECK_OK(rueda_orthogonality(NULL, &value));
    if (is_judge(RUEDA_GLOBAL_SET))
        adasum_check_orthogonality(RUEDA_F64, value, combined, leaves);
    check_alike(&value, sizeof value, RUEDA_GLOBAL_SET);
    CHECK_OK(rueda_get_stats(&stats));
    CHECK(stats.orthogonality == value);
    if (is_judge(RUEDA_GLOBAL_SET))
        CHECK(fabs(stats.workers_worth - expected_worth(trials, size)) < 1e-11);
    CHECK_OK(rueda_shutdown());
}

static void orthogonality_weighs_tensors_by_their_norms(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 5; ranks++)
        run_ranks(ranks, try_overall, NULL);
}

/* 1 for orthogonal gradients, 1/size for equal ones. */
static void try_extremes(int rank, int size, const void *argument)
{
    (void)argument;
    static const adasum_pattern patterns[] = {PATTERN_ORTHOGONAL, PATTERN_EQUAL};
    CHECK_OK(rueda_init(NULL));
    for (int i = 0; i < 2; i++) {
        adasum_trial t = {.tensor = {RUEDA_F64, patterns[i], 1000, 3}};
        const rueda_tensor tensor = make_tensor(&t, rank, size);
        CHECK_OK(rueda_allreduce(&tensor, &RUEDA_OPTIONS(RUEDA_ADASUM), NULL));
        double value;
        CHECK_OK(rueda_orthogonality(t.name, &value));
        CHECK(fabs(value - (i == 0 ? 1.0 : 1.0 / size)) < 1e-12);
        free(t.data);
    }
    CHECK_OK(rueda_shutdown());
}

static void orthogonality_is_one_for_orthogonal_and_small_for_equal(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= MOST_RANKS; ranks++)
        run_ranks(ranks, try_extremes, NULL);
}

/* Whatever the tree: multiples of one vector come to their mean over the ranks that have something, and
 * orthogonal vectors to their sum. */
static void check_plain(const adasum_trial *t, int size)
{
    const adasum_case *c = &t->tensor;
    const double slack = ldexp(16, 2 - fraction_bits(c->dtype)); /* numbers are up to 4 */
    for (size_t i = 0; i < c->count; i++) {
        const double got = value_load(c->dtype, t->data, i).real;
        double sum = 0, several = 0;
        for (int r = 0; r < size; r++) {
            const double part = adasum_input(c, r, size, i);
            sum += part;
            several += part != 0;
        }
        CHECK(fabs(got - (several == 0 ? 0 : sum / several)) <= slack);
    }
}

static void try_plain(int rank, int size, const void *argument)
{
    (void)argument;
    static const adasum_pattern patterns[] = {PATTERN_ORTHOGONAL, PATTERN_PARALLEL, PATTERN_EQUAL};
    CHECK_OK(rueda_init(NULL));
    for (size_t i = 0; i < 12; i++) {
        adasum_trial t = {.tensor = {dtypes[i % 4], patterns[i / 4], 1009, i}, .memory = i % 3};
        const rueda_tensor tensor = make_tensor(&t, rank, size);
        CHECK_OK(rueda_allreduce(&tensor, &RUEDA_OPTIONS(RUEDA_ADASUM), NULL));
        check_plain(&t, size);
        memory_give(t.memory, t.data);
    }
    CHECK_OK(rueda_shutdown());
}

static void parallel_gradients_average_over_all_ranks(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= MOST_RANKS; ranks++)
        run_ranks(ranks, try_plain, NULL);
    run_ranks(12, try_plain, NULL);
}

/* Powers of two scale exactly: the result scales with the inputs. */
static void try_scales(int rank, int size, const void *argument)
{
    (void)argument;
    CHECK_OK(rueda_init(NULL));
    for (size_t i = 0; i < 6; i++) {
        adasum_trial t = {.tensor = {dtypes[i % 4], PATTERN_RANDOM, 3001, i}, .memory = i % 3};
        const rueda_tensor tensor = make_tensor(&t, rank, size);
        rueda_options options = RUEDA_OPTIONS(RUEDA_ADASUM);
        options.prescale = 4;
        options.postscale = i < 3 ? 0.25 : 2;
        CHECK_OK(rueda_allreduce(&tensor, &options, NULL));
        adasum_result expected = adasum_expected(&t.tensor, size);
        const double factor = options.prescale * options.postscale;
        expected.largest *= factor;
        for (size_t k = 0; k < t.tensor.count; k++)
            expected.values[k] *= factor;
        adasum_check(&t.tensor, &expected, size, t.data);
        free(expected.values);
        memory_give(t.memory, t.data);
    }
    CHECK_OK(rueda_shutdown());
}

static void scales_multiply_gradients_and_result(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 5; ranks++)
        run_ranks(ranks, try_scales, NULL);
}

static void adasum_is_the_same_by_every_algorithm(void **state)
{
    (void)state;
    static const char *const settings[] = {"RUEDA_ALGORITHM=direct", "RUEDA_ALGORITHM=ring",
                                           "RUEDA_ALGORITHM=hierarchical", "RUEDA_DETERMINISTIC=1"};
    /* the first works in shared memory alone */
    for (size_t i = harness_shares_memory() ? 0 : 1; i < sizeof settings / sizeof settings[0];
         i++) {
        const char *const environment[] = {settings[i], NULL};
        print_message("%s\n", settings[i]);
        for (int ranks = 3; ranks <= 4; ranks++)
            run_job(&(job){.ranks = ranks,
                           .body = try_together,
                           .argument = &(bool){false},
                           .environment = environment});
    }
}

/* The tree is over the index in the set, not the global rank. */
static void try_set(int rank, int size, const void *argument)
{
    (void)size, (void)argument;
    const int32_t members[] = {1, 2, 4};
    const int32_t *const lists[] = {members};
    const rueda_init_options init = {
        .struct_size = sizeof init, .set_count = 1, .set_ranks = lists, .set_sizes = &(int32_t){3}};
    double combined = 0, leaves = 0;
    CHECK_OK(rueda_init(&init));
    const int index = rueda_process_set_rank(1);
    for (int p = 0; p < PATTERN_COUNT && index >= 0; p++) {
        adasum_trial t = {.tensor = {RUEDA_F32, (adasum_pattern)p, 5003, 3}, .memory = p % 3};
        const rueda_tensor tensor = make_tensor(&t, index, 3);
        rueda_options options = RUEDA_OPTIONS(RUEDA_ADASUM);
        options.process_set = 1;
        CHECK_OK(rueda_allreduce(&tensor, &options, NULL));
        check_trial(&t, 1, &combined, &leaves);
    }
    CHECK_EQUAL(index >= 0, rank == 1 || rank == 2 || rank == 4);
    CHECK_OK(rueda_shutdown());
}

static void adasum_works_in_a_process_set(void **state)
{
    (void)state;
    run_ranks(5, try_set, NULL);
}

/* More tensors than one operation can carry sums for, and pieces that cut tensors. */
static void adasum_splits_what_does_not_fit_one_operation(void **state)
{
    (void)state;
    static const char *const environment[] = {"RUEDA_SLOT_BYTES=4K", NULL};
    run_job(&(job){
        .ranks = 3, .body = try_together, .argument = &(bool){false}, .environment = environment});
    run_job(&(job){.ranks = 4, .body = try_patterns, .environment = environment});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(adasum_follows_its_definition),
        cmocka_unit_test(fused_tensors_keep_their_own_coefficients),
        cmocka_unit_test(grouped_tensors_keep_their_own_coefficients),
        cmocka_unit_test(orthogonality_weighs_tensors_by_their_norms),
        cmocka_unit_test(orthogonality_is_one_for_orthogonal_and_small_for_equal),
        cmocka_unit_test(parallel_gradients_average_over_all_ranks),
        cmocka_unit_test(scales_multiply_gradients_and_result),
        cmocka_unit_test(adasum_is_the_same_by_every_algorithm),
        cmocka_unit_test(adasum_works_in_a_process_set),
        cmocka_unit_test(adasum_splits_what_does_not_fit_one_operation),
    };
    return cmocka_run_group_tests_name("adasum", tests, NULL, NULL);
}
