/* status_test.c: names, sentences, and the sentence of each thread.
 * ctest: threads */
#include "base/status.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define THREADS 4
#define ROUNDS 1000

static void every_status_has_name_and_sentence(void **state)
{
    (void)state;
    static const struct {
        rueda_status status;
        const char *name;
    } all[] = {
#define ROW(name, value, scope, sentence) {RUEDA_##name, "RUEDA_" #name},
        RUEDA_STATUS_LIST(ROW)};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        assert_int_equal(all[i].status, i);
        assert_string_equal(rueda_status_name(all[i].status), all[i].name);
        assert_true(strlen(rueda_status_sentence(all[i].status)) > 0);
    }
    assert_string_equal(rueda_status_name((rueda_status)999), "?");
    assert_string_equal(rueda_status_sentence((rueda_status)999), "?");
}

static void a_scope_tells_what_has_ended(void **state)
{
    (void)state;
    assert_int_equal(rueda_status_scope(RUEDA_ERR_MISMATCH), RUEDA_SCOPE_OPERATION);
    assert_int_equal(rueda_status_scope(RUEDA_ERR_PEER), RUEDA_SCOPE_JOB);
    assert_int_equal(rueda_status_scope(RUEDA_ERR_CONFIG), RUEDA_SCOPE_PROCESS);
    assert_int_equal(rueda_status_scope((rueda_status)999), RUEDA_SCOPE_PROCESS);
}

static void failure_leaves_its_sentence(void **state)
{
    (void)state;
    assert_int_equal(status_fail(RUEDA_ERR_ARGUMENT, "rank %d: %s", 3, "no"), RUEDA_ERR_ARGUMENT);
    assert_string_equal(status_text(), "rank 3: no");
    assert_int_equal(status_restore(RUEDA_ERR_PEER, "rank 1 was lost"), RUEDA_ERR_PEER);
    assert_string_equal(status_text(), "rank 1 was lost");
}

static void system_error_is_appended(void **state)
{
    (void)state;
    errno = ENOENT;
    assert_int_equal(status_fail_errno(RUEDA_ERR_SYSTEM, "cannot open %s", "x"), RUEDA_ERR_SYSTEM);
    assert_string_equal(status_text(), "cannot open x: No such file or directory");
}

static void long_sentences_are_cut(void **state)
{
    (void)state;
    char text[2 * STATUS_TEXT_MAX];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    status_fail(RUEDA_ERR_INTERNAL, "%s", text);
    assert_int_equal(strlen(status_text()), STATUS_TEXT_MAX - 1);
    errno = EINTR;
    status_fail_errno(RUEDA_ERR_INTERNAL, "%s", text);
    assert_int_equal(strlen(status_text()), STATUS_TEXT_MAX - 1);
    status_restore(RUEDA_ERR_INTERNAL, text);
    assert_int_equal(strlen(status_text()), STATUS_TEXT_MAX - 1);
}

/* Returns NULL if the thread saw only its own sentences. */
static void *fail_repeatedly(void *argument)
{
    const int me = (int)(intptr_t)argument;
    if (status_text()[0] != '\0')
        return "a new thread has a sentence";
    for (int i = 0; i < ROUNDS; i++) {
        char expected[64];
        snprintf(expected, sizeof expected, "thread %d round %d", me, i);
        status_fail(RUEDA_ERR_STATE, "thread %d round %d", me, i);
        if (strcmp(status_text(), expected) != 0)
            return "a thread sees another's sentence";
    }
    return NULL;
}

static void threads_keep_their_own_sentences(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    status_fail(RUEDA_ERR_STATE, "main");
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, fail_repeatedly, (void *)(intptr_t)i),
                         0);
    for (int i = 0; i < THREADS; i++) {
        void *complaint;
        assert_int_equal(pthread_join(threads[i], &complaint), 0);
        assert_null(complaint);
    }
    assert_string_equal(status_text(), "main");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_status_has_name_and_sentence),
        cmocka_unit_test(a_scope_tells_what_has_ended),
        cmocka_unit_test(failure_leaves_its_sentence),
        cmocka_unit_test(system_error_is_appended),
        cmocka_unit_test(long_sentences_are_cut),
        cmocka_unit_test(threads_keep_their_own_sentences),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
