/* queue_test.c: names, the inbox, and when a record may be forgotten. */
#include "queue/queue.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static entry *new_entry(void)
{
    return calloc(1, sizeof(entry));
}

static rueda_status submit_one(queue *q, entry *e, const char *name)
{
    return queue_submit(q, &e, &name, 1);
}

/* As whoever drives does when a request ends. */
static void finish(queue *q, entry *e)
{
    record *r = e->record;
    queue_finish(q, e);
    entry_free(e);
    queue_forget(q, r);
}

static void entries_are_taken_in_order(void **state)
{
    (void)state;
    queue q;
    entry *entries[1000];
    assert_int_equal(queue_init(&q), RUEDA_OK);
    assert_false(queue_has_mail(&q));
    for (int i = 0; i < 1000; i++) { /* more than the table's first size */
        char name[16];
        snprintf(name, sizeof name, "%d", i);
        entries[i] = new_entry();
        assert_int_equal(submit_one(&q, entries[i], name), RUEDA_OK);
        assert_string_equal(entries[i]->record->name, name);
    }
    assert_true(queue_has_mail(&q));
    int count = 0;
    for (entry *e = queue_take(&q); e != NULL; e = e->next)
        assert_ptr_equal(e, entries[count++]);
    assert_int_equal(count, 1000);
    assert_false(queue_has_mail(&q));
    assert_null(queue_take(&q));
    for (int i = 0; i < 1000; i++)
        finish(&q, entries[i]);
    assert_int_equal(q.record_count, 0);
    queue_fini(&q);
}

static void a_name_is_free_again_after_its_end(void **state)
{
    (void)state;
    queue q;
    assert_int_equal(queue_init(&q), RUEDA_OK);
    entry *first = new_entry(), *second = new_entry();
    assert_int_equal(submit_one(&q, first, "name"), RUEDA_OK);
    assert_int_equal(submit_one(&q, second, "name"), RUEDA_ERR_DUPLICATE);
    assert_non_null(strstr(status_text(), "'name'"));
    queue_take(&q);
    finish(&q, first);
    assert_int_equal(submit_one(&q, second, "name"), RUEDA_OK);
    queue_take(&q);
    finish(&q, second);
    queue_fini(&q);
}

/* All or none: a group with a name in flight leaves no trace. */
static void a_refused_group_leaves_nothing(void **state)
{
    (void)state;
    queue q;
    assert_int_equal(queue_init(&q), RUEDA_OK);
    entry *busy = new_entry(), *group[] = {new_entry(), new_entry(), new_entry()};
    const char *const names[] = {"a", "b", "busy"};
    assert_int_equal(submit_one(&q, busy, "busy"), RUEDA_OK);
    assert_int_equal(queue_submit(&q, group, names, 3), RUEDA_ERR_DUPLICATE);
    assert_ptr_equal(queue_take(&q), busy);
    assert_null(busy->next);
    finish(&q, busy);
    assert_int_equal(queue_submit(&q, group, names, 3), RUEDA_OK);
    queue_take(&q);
    for (int i = 0; i < 3; i++)
        finish(&q, group[i]);
    queue_fini(&q);
}

static void unnamed_tensors_are_numbered_by_kind(void **state)
{
    (void)state;
    queue q;
    assert_int_equal(queue_init(&q), RUEDA_OK);
    entry *entries[4];
    for (int i = 0; i < 4; i++) {
        entries[i] = new_entry();
        entries[i]->signature.kind = i < 2 ? SIGNATURE_ALLREDUCE : SIGNATURE_BARRIER;
        assert_int_equal(submit_one(&q, entries[i], NULL), RUEDA_OK);
    }
    assert_string_equal(entries[1]->record->name, "ALLREDUCE.noname.1");
    assert_string_equal(entries[2]->record->name, "BARRIER.noname.0");
    queue_take(&q);
    for (int i = 0; i < 4; i++)
        finish(&q, entries[i]);
    queue_fini(&q);
}

/* Numbers count what was submitted, here or (while we had joined) by the others. */
static void refused_and_skipped_numbers(void **state)
{
    (void)state;
    queue q;
    assert_int_equal(queue_init(&q), RUEDA_OK);
    entry *busy = new_entry(), *e = new_entry();
    e->signature.kind = SIGNATURE_BARRIER;
    assert_int_equal(submit_one(&q, busy, "BARRIER.noname.0"), RUEDA_OK);
    assert_int_equal(submit_one(&q, e, NULL), RUEDA_ERR_DUPLICATE);
    queue_take(&q);
    finish(&q, busy);
    record *others = queue_record(&q, "BARRIER.noname.62", 17, true);
    others->agreed.kind = SIGNATURE_BARRIER;
    queue_skip_unnamed(&q, others); /* far ahead is behind: numbers of barriers come again */
    queue_forget(&q, others);
    others = queue_record(&q, "BARRIER.noname.0", 16, true);
    others->agreed.kind = SIGNATURE_BARRIER;
    queue_skip_unnamed(&q, others);
    queue_forget(&q, others);
    assert_int_equal(submit_one(&q, e, NULL), RUEDA_OK);
    assert_string_equal(e->record->name, "BARRIER.noname.1");
    queue_take(&q);
    finish(&q, e);
    queue_fini(&q);
}

static void a_closed_queue_says_why(void **state)
{
    (void)state;
    queue q;
    assert_int_equal(queue_init(&q), RUEDA_OK);
    queue_close(&q, RUEDA_ERR_PEER, "rank 3 died");
    queue_close(&q, RUEDA_ERR_SHUTDOWN, "too late"); /* the first reason stays */
    entry *e = new_entry();
    assert_int_equal(submit_one(&q, e, "x"), RUEDA_ERR_PEER);
    assert_string_equal(status_text(), "rank 3 died");
    entry_free(e);
    queue_fini(&q);
}

static void a_record_stays_while_somebody_needs_it(void **state)
{
    (void)state;
    queue q;
    assert_int_equal(queue_init(&q), RUEDA_OK);
    record *r = queue_record(&q, "name", 4, true);
    assert_null(queue_record(&q, "nam", 3, false));
    r->cache.bit = 7; /* the cache remembers it */
    queue_forget(&q, r);
    assert_ptr_equal(queue_record(&q, "name", 4, false), r);
    r->cache.bit = -1;
    r->news.open_index = 0; /* it is being described */
    queue_forget(&q, r);
    assert_ptr_equal(queue_record(&q, "name", 4, false), r);
    r->news.open_index = -1;
    queue_forget(&q, r);
    assert_null(queue_record(&q, "name", 4, false));
    queue_fini(&q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(entries_are_taken_in_order),
        cmocka_unit_test(a_name_is_free_again_after_its_end),
        cmocka_unit_test(a_refused_group_leaves_nothing),
        cmocka_unit_test(unnamed_tensors_are_numbered_by_kind),
        cmocka_unit_test(refused_and_skipped_numbers),
        cmocka_unit_test(a_closed_queue_says_why),
        cmocka_unit_test(a_record_stays_while_somebody_needs_it),
    };
    return cmocka_run_group_tests_name("queue", tests, NULL, NULL);
}
