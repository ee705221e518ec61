/* timeline_file_test.c: the file is a complete array whenever it is looked at, whoever adds to it and
 * however a writer ends.
 * ctest: timeout=120 */
#include "observe/timeline_file.h"

#include "base/os.h"
#include "observe/timeline_check.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define FIRST "{\"first\": 0}"
#define PLENTY (UINT64_C(1) << 40)

typedef struct place {
    char folder[64], path[80], part[96];
} place;

static place new_place(void)
{
    place p = {.folder = "/tmp/rueda-timeline-XXXXXX"};
    assert_non_null(mkdtemp(p.folder));
    snprintf(p.path, sizeof p.path, "%s/t.json", p.folder);
    snprintf(p.part, sizeof p.part, "%s" TIMELINE_PART, p.path);
    return p;
}

static void leave_place(const place *p)
{
    unlink(p->path);
    unlink(p->part);
    assert_int_equal(rmdir(p->folder), 0);
}

static timeline_file open_file(const place *p)
{
    timeline_file f;
    assert_int_equal(timeline_file_init(&f, p->path, FIRST, PLENTY), RUEDA_OK);
    return f;
}

static void assert_complete(const place *p)
{
    char *text = check_read(p->path);
    assert_non_null(text);
    assert_true(check_is_array(text));
    free(text);
}

static size_t count_in(const char *text, const char *part)
{
    size_t count = 0;
    for (const char *at = text; (at = strstr(at, part)) != NULL; at++)
        count++;
    return count;
}

static void lines_are_added_in_order(void **state)
{
    (void)state;
    const place p = new_place();
    timeline_file f = open_file(&p);
    assert_int_equal(timeline_file_create(&f), RUEDA_OK);
    assert_complete(&p);
    for (int i = 0; i < 50; i++) {
        char lines[64];
        snprintf(lines, sizeof lines, "{\"n\": %d},\n{\"m\": %d}", i, i);
        assert_int_equal(timeline_file_add(&f, lines, strlen(lines)), RUEDA_OK);
        assert_complete(&p);
    }
    timeline_file_finish(&f);
    char *text = check_read(p.path), *at = text;
    for (int i = 0; i < 50; i++) {
        char lines[64];
        snprintf(lines, sizeof lines, ",\n{\"n\": %d},\n{\"m\": %d}", i, i);
        at = strstr(at, lines);
        assert_non_null(at);
    }
    assert_int_equal(count_in(text, "\"n\""), 50);
    free(text);
    assert_int_not_equal(access(p.part, F_OK), 0);
    leave_place(&p);
}

static void a_fresh_file_takes_the_place_of_an_old_one(void **state)
{
    (void)state;
    const place p = new_place();
    for (int i = 0; i < 2; i++) {
        timeline_file f = open_file(&p);
        assert_int_equal(timeline_file_create(&f), RUEDA_OK);
        assert_int_equal(timeline_file_add(&f, "1", 1), RUEDA_OK);
        timeline_file_finish(&f);
    }
    char *text = check_read(p.path);
    assert_string_equal(text, "[\n" FIRST ",\n1\n]\n");
    free(text);
    leave_place(&p);
}

/* ---- What stands in the way ------------------------------------------------------------------ */

static void bad_places_are_refused_with_a_reason(void **state)
{
    (void)state;
    timeline_file f;
    char long_path[TIMELINE_PATH_MAX + 8];
    memset(long_path, 'x', sizeof long_path);
    long_path[sizeof long_path - 1] = '\0';
    assert_int_equal(timeline_file_init(&f, "", FIRST, PLENTY), RUEDA_ERR_ARGUMENT);
    assert_int_equal(timeline_file_init(&f, long_path, FIRST, PLENTY), RUEDA_ERR_ARGUMENT);
    assert_int_equal(timeline_file_init(&f, "/tmp", FIRST, PLENTY), RUEDA_ERR_SYSTEM);
    assert_non_null(strstr(status_text(), "/tmp"));
    assert_int_equal(timeline_file_init(&f, "/nonexistent/t.json", FIRST, PLENTY), RUEDA_OK);
    assert_int_equal(timeline_file_create(&f), RUEDA_ERR_SYSTEM);
    assert_non_null(strstr(status_text(), "/nonexistent/t.json"));
    assert_int_equal(timeline_file_add(&f, "1", 1), RUEDA_ERR_SYSTEM);
}

static void a_link_is_followed(void **state)
{
    (void)state;
    const place p = new_place();
    char link[96];
    snprintf(link, sizeof link, "%s/link", p.folder);
    timeline_file f = open_file(&p);
    assert_int_equal(timeline_file_create(&f), RUEDA_OK);
    assert_int_equal(symlink("t.json", link), 0);
    assert_int_equal(timeline_file_init(&f, link, FIRST, PLENTY), RUEDA_OK);
    assert_int_equal(timeline_file_add(&f, "7", 1), RUEDA_OK);
    struct stat status;
    assert_int_equal(lstat(link, &status), 0);
    assert_true(S_ISLNK(status.st_mode));
    char *text = check_read(p.path);
    assert_non_null(strstr(text, "7"));
    free(text);
    unlink(link);
    leave_place(&p);
}

static void the_largest_size_is_kept(void **state)
{
    (void)state;
    const place p = new_place();
    timeline_file f;
    assert_int_equal(timeline_file_init(&f, p.path, FIRST, 100), RUEDA_OK);
    assert_int_equal(timeline_file_create(&f), RUEDA_OK);
    rueda_status status = RUEDA_OK;
    for (int i = 0; i < 100 && status == RUEDA_OK; i++)
        status = timeline_file_add(&f, "\"ten bytes\"", 11);
    assert_int_equal(status, RUEDA_ERR_MEMORY);
    assert_non_null(strstr(status_text(), "RUEDA_TIMELINE_MAX"));
    struct stat there;
    assert_int_equal(stat(p.path, &there), 0);
    assert_in_range(there.st_size, 60, 110);
    assert_complete(&p);
    leave_place(&p);
}

static void a_lock_that_is_kept_is_not_waited_for_long(void **state)
{
    (void)state;
    const place p = new_place();
    timeline_file f = open_file(&p);
    assert_int_equal(timeline_file_create(&f), RUEDA_OK);
    const int other = open(p.path, O_RDONLY);
    assert_int_equal(flock(other, LOCK_EX), 0);
    assert_int_equal(timeline_file_add(&f, "1", 1), RUEDA_ERR_TIMEOUT);
    assert_complete(&p);
    close(other);
    assert_int_equal(timeline_file_add(&f, "1", 1), RUEDA_OK);
    leave_place(&p);
}

/* A file system that cannot exchange names: as if it had said so. */
static void lines_can_be_written_in_place(void **state)
{
    (void)state;
    const place p = new_place();
    timeline_file f = open_file(&p);
    f.in_place = true;
    assert_int_equal(timeline_file_create(&f), RUEDA_OK);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(timeline_file_add(&f, "{\"n\": 1}", 8), RUEDA_OK);
        assert_complete(&p);
        assert_int_not_equal(access(p.part, F_OK), 0);
    }
    char *text = check_read(p.path);
    assert_int_equal(count_in(text, "\"n\""), 10);
    free(text);
    timeline_file_finish(&f);
    leave_place(&p);
}

/* What a killed writer leaves of the other file says nothing. */
static void rubbish_in_the_other_file_is_ignored(void **state)
{
    (void)state;
    static const char *const rubbish[] = {"", "[\n{\"half\": ", "[\n" FIRST ",\n" FIRST "\n]\n",
                                          "[\n" FIRST ",\n1,\n2,\n3,\n4,\n5,\n6\n]\n"};
    const place p = new_place();
    timeline_file f = open_file(&p);
    for (size_t i = 0; i < sizeof rubbish / sizeof rubbish[0]; i++) {
        assert_int_equal(timeline_file_create(&f), RUEDA_OK);
        FILE *part = fopen(p.part, "w");
        fputs(rubbish[i], part);
        fclose(part);
        assert_int_equal(timeline_file_add(&f, "7", 1), RUEDA_OK);
        char *text = check_read(p.path);
        assert_string_equal(text, "[\n" FIRST ",\n7\n]\n");
        free(text);
    }
    leave_place(&p);
}

static void who_reads_slowly_keeps_what_he_has(void **state)
{
    (void)state;
    const place p = new_place();
    timeline_file f = open_file(&p);
    assert_int_equal(timeline_file_create(&f), RUEDA_OK);
    FILE *readers[20];
    for (int i = 0; i < 20; i++) {
        readers[i] = fopen(p.path, "r");
        assert_int_equal(timeline_file_add(&f, "{\"n\": 1}", 8), RUEDA_OK);
        assert_complete(&p);
    }
    for (int i = 0; i < 20; i++) {
        char text[1024];
        text[fread(text, 1, sizeof text - 1, readers[i])] = '\0';
        fclose(readers[i]);
        assert_true(check_is_array(text));
        assert_int_equal(count_in(text, "\"n\""), i);
    }
    leave_place(&p);
}

/* ---- Several writers, and their deaths ------------------------------------------------------- */

/* Adds, if need be until it is killed: lines of `writer`, numbered, of many sizes. */
static void write_forever(const place *p, int writer, int most)
{
    timeline_file f = open_file(p);
    char *lines = malloc(1 << 20);
    for (int i = 0; i < most; i++) {
        size_t used = (size_t)sprintf(lines, "{\"w%d\": %d, \"text\": \"", writer, i);
        const size_t filled = (size_t)(i * 7919 % 300000);
        memset(lines + used, 'a' + writer, filled);
        used += filled;
        used += (size_t)sprintf(lines + used, "\"}");
        if (timeline_file_add(&f, lines, used) != RUEDA_OK)
            _exit(1);
    }
    free(lines);
    timeline_file_finish(&f);
    _exit(0);
}

static pid_t start_writer(const place *p, int writer, int most)
{
    const pid_t pid = fork();
    if (pid == 0)
        write_forever(p, writer, most);
    assert_true(pid > 0);
    return pid;
}

static void several_processes_add_to_one_file(void **state)
{
    (void)state;
    const place p = new_place();
    timeline_file f = open_file(&p);
    assert_int_equal(timeline_file_create(&f), RUEDA_OK);
    pid_t pids[4];
    for (int w = 0; w < 4; w++)
        pids[w] = start_writer(&p, w, 20);
    for (int w = 0; w < 4; w++) {
        int status;
        while (waitpid(pids[w], &status, WNOHANG) == 0)
            assert_complete(&p);
        assert_int_equal(status, 0);
    }
    char *text = check_read(p.path);
    assert_true(check_is_array(text));
    for (int w = 0; w < 4; w++) {
        char key[16];
        snprintf(key, sizeof key, "\"w%d\"", w);
        assert_int_equal(count_in(text, key), 20);
    }
    free(text);
    assert_int_not_equal(access(p.part, F_OK), 0);
    leave_place(&p);
}

static void a_killed_writer_leaves_a_complete_file(void **state)
{
    (void)state;
    const place p = new_place();
    unsigned seed = 1;
    for (int i = 0; i < 60; i++) {
        timeline_file f = open_file(&p);
        assert_int_equal(timeline_file_create(&f), RUEDA_OK);
        const pid_t pid = start_writer(&p, 0, INT32_MAX);
        usleep((useconds_t)(rand_r(&seed) % 20000));
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        assert_complete(&p);
        /* and the next one goes on from there */
        assert_int_equal(timeline_file_add(&f, "1", 1), RUEDA_OK);
        assert_complete(&p);
    }
    leave_place(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_are_added_in_order),
        cmocka_unit_test(a_fresh_file_takes_the_place_of_an_old_one),
        cmocka_unit_test(bad_places_are_refused_with_a_reason),
        cmocka_unit_test(a_link_is_followed),
        cmocka_unit_test(the_largest_size_is_kept),
        cmocka_unit_test(a_lock_that_is_kept_is_not_waited_for_long),
        cmocka_unit_test(lines_can_be_written_in_place),
        cmocka_unit_test(rubbish_in_the_other_file_is_ignored),
        cmocka_unit_test(who_reads_slowly_keeps_what_he_has),
        cmocka_unit_test(several_processes_add_to_one_file),
        cmocka_unit_test(a_killed_writer_leaves_a_complete_file),
    };
    return cmocka_run_group_tests_name("timeline_file", tests, NULL, NULL);
}
