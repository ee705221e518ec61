/* errors_test.c: disagreements between ranks, bad arguments and calls in the wrong state.
 * ctest: not_asan timeout=180 */
#include "tensors.h"

#include <limits.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static double room[64];

static void check_job_still_works(void)
{
    task t = {.recipe = RECIPE(RUEDA_F32, RUEDA_SUM, 1), .count = 100, .name = "after"};
    task_run(&t);
}

/* All ranks have the same sentence. */
static void check_same_sentence(const char *sentence)
{
    char text[2048] = "";
    const int64_t shape[] = {sizeof text};
    const rueda_tensor t = RUEDA_TENSOR("sentence", text, RUEDA_U8, 1, shape);
    snprintf(text, sizeof text, "%s", sentence);
    CHECK_OK(rueda_broadcast(&t, NULL, NULL));
    if (strcmp(text, sentence) != 0)
        rank_fail(__FILE__, __LINE__, "'%s', but rank 0 says '%s'", sentence, text);
}

/* ---- Disagreements --------------------------------------------------------------------------- */

/* How rank 1 differs from the others, and what the sentence must name. */
typedef struct difference {
    const char *what;
    rueda_dtype dtype;
    int64_t rows, width;
    int32_t ndim;
    rueda_op op;
    double prescale, postscale;
    int32_t root;
    task_kind kind;
    const char *says[4];
} difference;

static const difference usual = {.dtype = RUEDA_F32,
                                 .rows = 4,
                                 .width = 3,
                                 .ndim = 2,
                                 .op = RUEDA_SUM,
                                 .prescale = 1,
                                 .postscale = 1};

static rueda_status submit_different(const difference *d, const char *name, task_kind kind)
{
    const int64_t shape[] = {d->rows, d->width};
    rueda_tensor t = RUEDA_TENSOR(name, room, d->dtype, d->ndim, shape);
    rueda_options o = RUEDA_OPTIONS(d->op);
    o.prescale = d->prescale;
    o.postscale = d->postscale;
    o.root = d->root;
    switch (kind) {
    case TASK_ALLREDUCE:
        return rueda_allreduce(&t, &o, NULL);
    case TASK_ALLGATHER:
        return run_and_drop(rueda_allgather, &t, &o);
    case TASK_BROADCAST:
        return rueda_broadcast(&t, &o, NULL);
    case TASK_REDUCESCATTER:
        return run_and_drop(rueda_reducescatter, &t, &o);
    case TASK_REDUCE:
        return rueda_reduce(&t, &o, NULL);
    case TASK_GATHER:
        return run_and_drop(rueda_gather, &t, &o);
    case TASK_SCATTER:
        return run_and_drop(rueda_scatter, &t, &o);
    default: {
        int64_t splits[HARNESS_MAX_RANKS] = {d->rows};
        o.splits = splits;
        return run_and_drop(rueda_alltoall, &t, &o);
    }
    }
}

static void disagree(const difference *d, task_kind kind)
{
    char name[64], named[80];
    snprintf(name, sizeof name, "%s.%s", task_kind_name(kind), d->what);
    snprintf(named, sizeof named, "'%s'", name);
    doing("%s", name);
    difference mine = rueda_rank() == 1 ? *d : usual;
    CHECK_STATUS(submit_different(&mine, name, rueda_rank() == 1 && d->kind != 0 ? d->kind : kind),
                 RUEDA_ERR_MISMATCH);
    char sentence[2048];
    snprintf(sentence, sizeof sentence, "%s", rueda_error());
    CHECK_SAYS(named);
    CHECK_SAYS("rank 0 and rank 1;");
    for (int i = 0; i < 4 && d->says[i] != NULL; i++)
        CHECK_SAYS(d->says[i]);
    check_same_sentence(sentence);
    /* the same name, now alike */
    CHECK_OK(submit_different(&usual, name, kind));
}

static difference different(const char *what)
{
    difference d = usual;
    d.what = what;
    return d;
}

static void disagree_about_reductions(task_kind kind)
{
    difference d = different("op");
    d.op = RUEDA_MAX;
    d.says[0] = "Mismatched reduction operation", d.says[1] = "sum", d.says[2] = "max";
    disagree(&d, kind);
    d = different("prescale");
    d.prescale = 0.25;
    d.says[0] = "prescale", d.says[1] = "0.25";
    disagree(&d, kind);
    d = different("postscale");
    d.postscale = 7.5;
    d.says[0] = "postscale", d.says[1] = "7.5";
    disagree(&d, kind);
}

static void disagree_about_everything(int rank, int size, const void *argument)
{
    (void)rank, (void)size, (void)argument;
    CHECK_OK(rueda_init(NULL));
    for (int kind = 0; kind < TASK_BARRIER; kind++) {
        difference d = different("dtype");
        d.dtype = RUEDA_I32;
        d.says[0] = "Mismatched data types: One rank had type float32, but another rank had type "
                    "int32.";
        disagree(&d, (task_kind)kind);
        d = different("width");
        d.width = 2;
        d.says[0] = "shape", d.says[1] = "[4, 3]", d.says[2] = "[4, 2]";
        disagree(&d, (task_kind)kind);
        d = different("ndim");
        d.ndim = 1;
        d.says[0] = "shape", d.says[1] = "[4, 3]", d.says[2] = "[4]";
        disagree(&d, (task_kind)kind);
        if (kind == TASK_ALLREDUCE || kind == TASK_REDUCESCATTER || kind == TASK_REDUCE)
            disagree_about_reductions((task_kind)kind);
    }
    static const struct {
        task_kind kind;
        const char *says;
    } rooted[] = {{TASK_BROADCAST, "Mismatched BROADCAST root ranks"},
                  {TASK_REDUCE, "Mismatched REDUCE root ranks"},
                  {TASK_GATHER, "Mismatched GATHER root ranks"},
                  {TASK_SCATTER, "Mismatched SCATTER root ranks"}};
    difference d = different("root");
    d.root = 1;
    d.says[1] = "root rank 0", d.says[2] = "root rank 1";
    for (size_t i = 0; i < sizeof rooted / sizeof rooted[0]; i++) {
        d.says[0] = rooted[i].says;
        disagree(&d, rooted[i].kind);
    }
    d = different("kind");
    d.kind = TASK_ALLGATHER;
    d.says[0] = "Mismatched operations", d.says[1] = "ALLREDUCE", d.says[2] = "ALLGATHER";
    disagree(&d, TASK_ALLREDUCE);
    d = different("lists"); /* only one of them says how it splits its rows */
    d.kind = TASK_ALLTOALL;
    d.says[0] = "Mismatched operations", d.says[1] = "ALLREDUCE", d.says[2] = "ALLTOALL";
    disagree(&d, TASK_ALLREDUCE);
    check_job_still_works();
    CHECK_OK(rueda_shutdown());
}

static void disagreements_give_all_ranks_the_same_sentence(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= 5; ranks++)
        run_ranks(ranks, disagree_about_everything, NULL);
    static const char *const none[] = {"RUEDA_CACHE_CAPACITY=0", NULL};
    run_job(&(job){.ranks = 3, .body = disagree_about_everything, .environment = none});
}

/* A root is named by its global rank, also in a set where its index is another. */
static void disagree_in_set(int rank, int size, const void *argument)
{
    (void)size, (void)argument;
    const int32_t members[] = {1, 2};
    const int32_t *const lists[] = {members};
    const rueda_init_options options = {.struct_size = sizeof options,
                                        .set_count = 1,
                                        .set_ranks = lists,
                                        .set_sizes = &(int32_t){2}};
    CHECK_OK(rueda_init(&options));
    if (rank > 0) {
        const int64_t shape[] = {2};
        const rueda_tensor t = RUEDA_TENSOR("t", room, RUEDA_F32, 1, shape);
        rueda_options o = RUEDA_OPTIONS(RUEDA_SUM);
        o.process_set = 1;
        o.root = rank;
        CHECK_STATUS(rueda_broadcast(&t, &o, NULL), RUEDA_ERR_MISMATCH);
        CHECK_SAYS("One rank specified root rank 1, but another rank specified root rank 2.");
        CHECK_SAYS("rank 1 and rank 2;");
        o.root = 0;
        CHECK_STATUS(rueda_broadcast(&t, &o, NULL), RUEDA_ERR_ARGUMENT);
        CHECK_SAYS("root 0");
    }
    CHECK_OK(rueda_shutdown());
}

static void sentences_name_global_ranks(void **state)
{
    (void)state;
    run_ranks(3, disagree_in_set, NULL);
}

/* ---- Names in flight ------------------------------------------------------------------------- */

static void repeat_a_name(int rank, int size, const void *argument)
{
    (void)argument;
    float first = 1, second = 2;
    const int64_t shape[] = {1};
    const rueda_tensor a = RUEDA_TENSOR("twice", &first, RUEDA_F32, 1, shape);
    const rueda_tensor b = RUEDA_TENSOR("twice", &second, RUEDA_F32, 1, shape);
    rueda_request *request = NULL, *other = NULL;
    CHECK_OK(rueda_init(NULL));
    meet();
    if (rank == 0) {
        CHECK_OK(rueda_allreduce(&a, &RUEDA_OPTIONS(RUEDA_SUM), &request));
        CHECK_STATUS(rueda_allreduce(&b, &RUEDA_OPTIONS(RUEDA_SUM), &other), RUEDA_ERR_DUPLICATE);
        CHECK_SAYS("'twice'");
        CHECK_STATUS(rueda_allgather(&b, NULL, &other), RUEDA_ERR_DUPLICATE);
        const rueda_tensor group[] = {RUEDA_TENSOR("fresh", &second, RUEDA_F32, 1, shape), b};
        CHECK_STATUS(rueda_grouped_allreduce(group, 2, NULL, &other), RUEDA_ERR_DUPLICATE);
        CHECK(other == NULL);
    }
    meet();
    if (rank != 0)
        CHECK_OK(rueda_allreduce(&a, &RUEDA_OPTIONS(RUEDA_SUM), &request));
    CHECK_OK(rueda_wait(request, -1));
    CHECK(first == (float)size && second == 2);
    rueda_request_free(request);
    /* nothing of the refused group is left: its names are free */
    const rueda_tensor fresh = RUEDA_TENSOR("fresh", &second, RUEDA_F32, 1, shape);
    CHECK_OK(rueda_allreduce(&fresh, &RUEDA_OPTIONS(RUEDA_SUM), NULL));
    CHECK_OK(rueda_shutdown());
}

static void a_name_in_flight_is_refused_at_the_call(void **state)
{
    (void)state;
    run_ranks(2, repeat_a_name, NULL);
    run_ranks(3, repeat_a_name, NULL);
}

/* ---- Arguments ------------------------------------------------------------------------------- */

static void refused(const rueda_tensor *t, const rueda_options *o)
{
    rueda_request *request = NULL;
    CHECK_STATUS(rueda_allreduce(t, o, &request), RUEDA_ERR_ARGUMENT);
    CHECK_STATUS(rueda_grouped_allreduce(t, 1, o, &request), RUEDA_ERR_ARGUMENT);
    CHECK(request == NULL);
    CHECK(rueda_error()[0] != '\0');
}

static void give_bad_tensors(const rueda_tensor *good)
{
    char name[RUEDA_MAX_NAME + 2];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    rueda_tensor t = *good;
    refused(NULL, NULL);
#define REFUSED_WITH(field, value)                                                                 \
    t = *good;                                                                                     \
    t.field = (value);                                                                             \
    doing("tensor." #field " = " #value);                                                          \
    refused(&t, NULL)
    REFUSED_WITH(struct_size, 0);
    REFUSED_WITH(struct_size, offsetof(rueda_tensor, device) - 1);
    REFUSED_WITH(name, name);
    REFUSED_WITH(dtype, (rueda_dtype)11);
    REFUSED_WITH(dtype, (rueda_dtype)-1);
    REFUSED_WITH(ndim, -1);
    REFUSED_WITH(ndim, RUEDA_MAX_DIMS + 1);
    REFUSED_WITH(shape, NULL);
    REFUSED_WITH(shape, ((const int64_t[]){-1}));
    REFUSED_WITH(shape, ((const int64_t[]){INT64_MAX}));
    REFUSED_WITH(input, NULL);
    REFUSED_WITH(device, RUEDA_CUDA);
    REFUSED_WITH(dtype, RUEDA_BOOL); /* has no average */
    const int64_t huge[] = {INT64_C(1) << 31, INT64_C(1) << 31, INT64_C(1) << 31};
    t = *good;
    t.ndim = 3;
    t.shape = huge;
    refused(&t, NULL);
}

static void give_bad_options(const rueda_tensor *good)
{
    rueda_options o;
#define REFUSED_OPTION(field, value)                                                               \
    o = RUEDA_OPTIONS(RUEDA_SUM);                                                                  \
    o.field = (value);                                                                             \
    doing("options." #field " = " #value);                                                         \
    refused(good, &o)
    REFUSED_OPTION(struct_size, 0);
    REFUSED_OPTION(op, (rueda_op)6);
    CHECK_SAYS("op=6 is no operation; give RUEDA_AVERAGE");
    REFUSED_OPTION(op, (rueda_op)-1);
    REFUSED_OPTION(op, (rueda_op)77);
    CHECK_SAYS("op=77 is no operation");
    REFUSED_OPTION(prescale, NAN);
    REFUSED_OPTION(postscale, INFINITY);
    REFUSED_OPTION(process_set, 1);
    REFUSED_OPTION(process_set, -1);
    REFUSED_OPTION(process_set, INT_MAX);
    o = RUEDA_OPTIONS(RUEDA_ADASUM);
    rueda_tensor t = *good;
    t.dtype = RUEDA_I32;
    refused(&t, &o);
    CHECK_STATUS(rueda_reducescatter(good, &o, NULL), RUEDA_ERR_ARGUMENT); /* no adasum there */
    CHECK_SAYS("only rueda_allreduce combines by adasum");
    CHECK_STATUS(rueda_reduce(good, &o, NULL), RUEDA_ERR_ARGUMENT);
    CHECK_SAYS("only rueda_allreduce combines by adasum");
    static const collective rooted[] = {rueda_broadcast, rueda_reduce, rueda_gather, rueda_scatter};
    o.op = RUEDA_SUM;
    for (int i = 0; i < 8; i++) {
        o.root = i < 4 ? rueda_size() : -1;
        CHECK_STATUS(rooted[i % 4](good, &o, NULL), RUEDA_ERR_ARGUMENT);
        CHECK_SAYS("is not a rank of process set 0");
    }
}

static void give_bad_rows(const rueda_tensor *good)
{
    rueda_tensor scalar = *good;
    scalar.ndim = 0;
    CHECK_STATUS(rueda_alltoall(&scalar, NULL, NULL), RUEDA_ERR_ARGUMENT);
    CHECK_STATUS(rueda_reducescatter(&scalar, NULL, NULL), RUEDA_ERR_ARGUMENT);
    CHECK_STATUS(rueda_scatter(&scalar, NULL, NULL), RUEDA_ERR_ARGUMENT);
    CHECK_SAYS("a scalar has no rows");
    rueda_tensor absent = *good;
    absent.input = NULL; /* on the root */
    CHECK_STATUS(rueda_scatter(&absent, NULL, NULL), RUEDA_ERR_ARGUMENT);
    CHECK_STATUS(rueda_gather(&absent, NULL, NULL), RUEDA_ERR_ARGUMENT);
    CHECK_SAYS("input is NULL");
    rueda_options o = RUEDA_OPTIONS(RUEDA_SUM);
    rueda_request *request = NULL;
    CHECK_STATUS(rueda_alltoall(good, &o, &request), RUEDA_ERR_ARGUMENT); /* 5 rows on 2 ranks */
    CHECK_SAYS("cannot be split evenly");
    const int64_t bad[][2] = {{5, 1}, {-1, 6}, {6, -1}, {2, 2}, {INT64_MAX, INT64_MAX}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        o.splits = bad[i];
        CHECK_STATUS(rueda_alltoall(good, &o, &request), RUEDA_ERR_ARGUMENT);
        CHECK_STATUS(rueda_scatter(good, &o, &request), RUEDA_ERR_ARGUMENT);
        CHECK_SAYS("split");
    }
    CHECK_STATUS(rueda_grouped_allreduce(good, 0, NULL, NULL), RUEDA_ERR_ARGUMENT);
    CHECK_STATUS(rueda_grouped_allreduce(good, -1, NULL, NULL), RUEDA_ERR_ARGUMENT);
    const rueda_tensor pair[] = {*good, *good}; /* one name twice */
    CHECK_STATUS(rueda_grouped_allreduce(pair, 2, NULL, NULL), RUEDA_ERR_DUPLICATE);
    CHECK_STATUS(rueda_wait(NULL, 0), RUEDA_ERR_ARGUMENT);
    CHECK_EQUAL(rueda_poll(NULL), 0);
    rueda_output output = RUEDA_OUTPUT;
    CHECK_STATUS(rueda_take_output(NULL, &output), RUEDA_ERR_ARGUMENT);
    CHECK_STATUS(rueda_get_stats(NULL), RUEDA_ERR_ARGUMENT);
    CHECK_STATUS(rueda_get_stats(&(rueda_stats){0}), RUEDA_ERR_ARGUMENT);
    CHECK_STATUS(rueda_orthogonality("x", NULL), RUEDA_ERR_ARGUMENT);
    rueda_request_free(NULL);
    rueda_output_free(NULL);
    rueda_free(NULL);
}

/* Only rank 0 errs: had anything been submitted, the others would wait or disagree. */
static void give_bad_arguments(int rank, int size, const void *argument)
{
    (void)size, (void)argument;
    const int64_t shape[] = {5};
    const rueda_tensor good = RUEDA_TENSOR("good", room, RUEDA_F32, 1, shape);
    CHECK_OK(rueda_init(NULL));
    if (rank == 0) {
        give_bad_tensors(&good);
        give_bad_options(&good);
        give_bad_rows(&good);
    }
    CHECK_OK(rueda_allreduce(&good, NULL, NULL));
    check_job_still_works();
    CHECK_OK(rueda_shutdown());
}

static void bad_arguments_are_refused_and_submit_nothing(void **state)
{
    (void)state;
    run_ranks(2, give_bad_arguments, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(disagreements_give_all_ranks_the_same_sentence),
        cmocka_unit_test(sentences_name_global_ranks),
        cmocka_unit_test(a_name_in_flight_is_refused_at_the_call),
        cmocka_unit_test(bad_arguments_are_refused_and_submit_nothing),
    };
    return cmocka_run_group_tests_name("errors", tests, NULL, NULL);
}
