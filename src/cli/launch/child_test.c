/* child_test.c: what is started gets what it was promised, and what is not says why. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cli/launch/child.h"
#include "cli/launch/subprocess.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINE(text) ((char *const[]){"sh", "-c", (text), NULL})

static int run(const child *c, int *killer)
{
    const pid_t pid = child_start(c);
    assert_true(pid > 0);
    return child_wait(pid, killer);
}

static void ends_are_told_as_the_shell_counts(void **state)
{
    (void)state;
    int killer = -1;
    assert_int_equal(run(&(child){.command = LINE("exit 7")}, &killer), 7);
    assert_int_equal(killer, 0);
    assert_int_equal(run(&(child){.command = LINE("kill -TERM $$")}, &killer), EXIT_SIGNAL + 15);
    assert_int_equal(killer, 15);
    assert_int_equal(child_shell("exit 5"), 5);
}

static void a_command_that_is_not_there_says_so(void **state)
{
    (void)state;
    char *const nowhere[] = {"no-such-program-here", NULL}, *const folder[] = {"/tmp", NULL};
    assert_int_equal(run(&(child){.command = nowhere}, NULL), EXIT_NOT_FOUND);
    assert_int_equal(run(&(child){.command = folder}, NULL), EXIT_NOT_EXECUTABLE);
    int report = -1, reason = 0;
    assert_int_equal(run(&(child){.command = nowhere, .report = &report}, NULL), EXIT_NOT_FOUND);
    assert_int_equal(read(report, &reason, sizeof reason), sizeof reason);
    assert_int_equal(reason, ENOENT);
    close(report);
    assert_int_equal(run(&(child){.command = LINE("exit 3"), .report = &report}, NULL), 3);
    assert_int_equal(read(report, &reason, sizeof reason), 0);
    close(report);
    assert_false(child_exists("no-such-program-here"));
    assert_false(child_exists("/no/such/program"));
    assert_true(child_exists("sh"));
    assert_true(child_exists("/bin/sh"));
}

static bool refuse(void *context)
{
    errno = *(int *)context;
    return false;
}

static void preparing_may_refuse(void **state)
{
    (void)state;
    int reason = EPERM, report = -1, told = 0;
    const child c = {
        .command = LINE("exit 0"), .prepare = refuse, .context = &reason, .report = &report};
    assert_int_equal(run(&c, NULL), EXIT_NOT_EXECUTABLE);
    assert_int_equal(read(report, &told, sizeof told), sizeof told);
    assert_int_equal(told, EPERM);
    close(report);
}

static void descriptors_and_place_are_as_asked(void **state)
{
    (void)state;
    int ends[2];
    char said[256] = "";
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    const child c = {
        .command =
            LINE("read x || echo none; echo err >&2; cut -d' ' -f5,6 /proc/$$/stat; echo $$"),
        .input = CHILD_NOTHING,
        .output = ends[1],
        .errors = ends[1],
        .place = CHILD_OWN_SESSION};
    assert_int_equal(run(&c, NULL), 0);
    close(ends[1]);
    ssize_t count, used = 0;
    while ((count = read(ends[0], said + used, sizeof said - 1 - (size_t)used)) > 0)
        used += count;
    close(ends[0]);
    char expected[256];
    const char *last = strrchr(said, ' ');
    assert_non_null(last);
    const int pid = atoi(last + 1); /* group and session are its own number */
    snprintf(expected, sizeof expected, "none\nerr\n%d %d\n%d\n", pid, pid, pid);
    assert_string_equal(said, expected);
}

static void what_is_asked_is_read_whole(void **state)
{
    (void)state;
    char *said;
    assert_int_equal(subprocess_ask(LINE("echo one; echo two >&2; printf 'no end'; exit 4"), &said),
                     4);
    assert_string_equal(said, "one\ntwo\nno end\n");
    free(said);
    assert_int_equal(subprocess_ask((char *const[]){"no-such-program-here", NULL}, &said),
                     EXIT_NOT_FOUND);
    assert_string_equal(said, "");
    free(said);
    int caught = -1;
    assert_int_equal(subprocess_run(LINE("exit 6"), NULL, NULL, &caught), 6);
    assert_int_equal(caught, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ends_are_told_as_the_shell_counts),
        cmocka_unit_test(a_command_that_is_not_there_says_so),
        cmocka_unit_test(preparing_may_refuse),
        cmocka_unit_test(descriptors_and_place_are_as_asked),
        cmocka_unit_test(what_is_asked_is_read_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
