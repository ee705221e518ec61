/* context_test.c: contexts are objects: one process may have several, each with its own jobs and memory.
 * ctest: threads timeout=60 */
#include "api/context.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define COUNT 20000

static void set_number(const char *name, int value)
{
    char text[16];
    snprintf(text, sizeof text, "%d", value);
    setenv(name, text, 1);
}

static void set_job(int rank, int size)
{
    char name[40];
    snprintf(name, sizeof name, "context-test-%d-%d", (int)getpid(), size);
    setenv("RUEDA_JOB", name, 1);
    set_number("RUEDA_RANK", rank);
    set_number("RUEDA_SIZE", size);
}

static rueda_status reduce(const context *here, const char *name, float *data)
{
    const int64_t shape[] = {COUNT};
    const rueda_tensor t = RUEDA_TENSOR(name, data, RUEDA_F32, 1, shape);
    return context_allreduce(here, &t, &RUEDA_OPTIONS(RUEDA_SUM), NULL);
}

/* Jobs of one rank each, beside each other and beside the process's own. */
static void contexts_do_not_share_jobs(void **state)
{
    (void)state;
    context a = CONTEXT_NEW, b = CONTEXT_NEW;
    rueda_stats stats = {.struct_size = sizeof stats};
    set_job(0, 1);
    assert_int_equal(context_init(&a, NULL), RUEDA_OK);
    assert_int_equal(rueda_is_initialized(), 0);
    assert_null(context_engine(&b, "a call"));
    assert_non_null(strstr(rueda_error(), "a call"));
    assert_int_equal(context_init(&b, NULL), RUEDA_OK);
    assert_int_equal(rueda_init(NULL), RUEDA_OK);
    assert_int_equal(context_init(&a, NULL), RUEDA_ERR_STATE);
    float *x = context_alloc(&a, COUNT * sizeof *x), *y = context_alloc(&b, COUNT * sizeof *y);
    assert_true(x != NULL && y != NULL && a.heap.fd != b.heap.fd);
    assert_false(heap_contains(&a.heap, y, sizeof *y));
    for (int i = 0; i < 3; i++)
        assert_int_equal(reduce(&a, "x", x), RUEDA_OK);
    assert_int_equal(context_shutdown(&a), RUEDA_OK);
    assert_int_equal(reduce(&a, "x", x), RUEDA_ERR_STATE);
    assert_int_equal(reduce(&b, "y", y), RUEDA_OK);
    assert_int_equal(context_get_stats(&b, &stats), RUEDA_OK);
    assert_int_equal(stats.operations, 1);
    assert_int_equal(rueda_get_stats(&stats), RUEDA_OK);
    assert_int_equal(stats.operations, 0);
    assert_int_equal(context_shutdown(&b), RUEDA_OK);
    assert_int_equal(rueda_shutdown(), RUEDA_OK);
    x[0] = y[0] = 1; /* the memory stays */
    assert_int_equal(heap_free(&a.heap, x), RUEDA_OK);
    assert_int_equal(heap_free(&b.heap, y), RUEDA_OK);
    assert_true(a.heap.base == NULL && b.heap.base == NULL);
}

/* ---- Two ranks of one job ---------------------------------------------------------------------- */

typedef struct rank_thread {
    context context;
    int rank;
    _Atomic int waits; /* in rueda_init: it has read its settings */
    rueda_status status;
    float *data;
} rank_thread;

static int note_waiting(void *argument)
{
    atomic_store(&((rank_thread *)argument)->waits, 1);
    return 0;
}

static void *live(void *argument)
{
    rank_thread *r = argument;
    const rueda_init_options options = {
        .struct_size = sizeof options, .interrupted = note_waiting, .interrupted_argument = r};
    r->status = context_init(&r->context, &options);
    if (r->status != RUEDA_OK)
        return NULL;
    r->data = context_alloc(&r->context, COUNT * sizeof *r->data);
    for (int i = 0; i < COUNT; i++)
        r->data[i] = (float)(i % 10 + r->rank);
    r->status = reduce(&r->context, "both", r->data);
    context_shutdown(&r->context);
    return NULL;
}

static void two_ranks_live_in_one_process(void **state)
{
    (void)state;
    rank_thread ranks[2] = {{.context = CONTEXT_NEW, .rank = 0},
                            {.context = CONTEXT_NEW, .rank = 1}};
    pthread_t thread;
    set_job(0, 2);
    assert_int_equal(pthread_create(&thread, NULL, live, &ranks[0]), 0);
    while (atomic_load(&ranks[0].waits) == 0)
        world_yield();
    set_job(1, 2);
    live(&ranks[1]);
    assert_int_equal(pthread_join(thread, NULL), 0);
    for (int r = 0; r < 2; r++) {
        assert_int_equal(ranks[r].status, RUEDA_OK);
        for (int i = 0; i < COUNT; i++)
            assert_true(ranks[r].data[i] == (float)(2 * (i % 10) + 1));
        assert_int_equal(heap_free(&ranks[r].context.heap, ranks[r].data), RUEDA_OK);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(contexts_do_not_share_jobs),
        cmocka_unit_test(two_ranks_live_in_one_process),
    };
    return cmocka_run_group_tests_name("context", tests, NULL, NULL);
}
