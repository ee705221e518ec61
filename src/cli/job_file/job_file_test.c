/* job_file_test.c: what a job file says arrives in the struct with its place; what no editor would
 * write is refused without harm. What people get wrong is in tests/cli/jobs/bad. */
#include "cli/job_file/job_file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static job_complaints complaints;

static job_file parse_bytes(const char *text, size_t bytes)
{
    complaints = (job_complaints){0};
    return job_parse(text, bytes, &complaints);
}

static job_file parse(const char *text)
{
    return parse_bytes(text, strlen(text));
}

static void assert_place(job_place at, int line, int column)
{
    assert_int_equal(at.line, line);
    assert_int_equal(at.column, column);
}

static void assert_refused_bytes(const char *text, size_t bytes, int line, int column,
                                 const char *why)
{
    job_file job = parse_bytes(text, bytes);
    assert_int_equal(complaints.count, 1);
    assert_place(complaints.list[0].at, line, column);
    assert_non_null(strstr(complaints.list[0].text, why));
    job_free(&job);
}

static void assert_refused(const char *text, int line, int column, const char *why)
{
    assert_refused_bytes(text, strlen(text), line, column, why);
}

static void long_form_is_read_with_places(void **state)
{
    (void)state;
    job_file job = parse("project: example\n"
                         "train:\n"
                         "  framework: tensorflow\n"
                         "  tensorflow:\n"
                         "    version: 2.21.0\n"
                         "    horovod:\n"
                         "      workers: 32\n"
                         "  resources:\n"
                         "    gpus: 4\n"
                         "    cpus: 12\n"
                         "    mem: 4096\n"
                         "  run:\n"
                         "  - python train.py\n");
    assert_int_equal(complaints.count, 0);
    assert_string_equal(job.project.text, "example");
    assert_string_equal(job.framework.text, "tensorflow");
    assert_string_equal(job.version.text, "2.21.0");
    assert_place(job.version.at, 5, 14);
    assert_int_equal(job_worker_count(&job), 32);
    assert_place(job.workers.at, 7, 16);
    assert_int_equal(job.resources.gpus.value, 4);
    assert_int_equal(job.resources.cpus.value, 12);
    assert_int_equal(job.resources.mem_mib.value, 4096);
    assert_int_equal(job_processes_of_worker(&job), 4);
    assert_int_equal(job.run_count, 1);
    assert_string_equal(job.run[0].text, "python train.py");
    assert_place(job.run[0].at, 13, 5);
    job_free(&job);
}

static void short_form_is_read_too(void **state)
{
    (void)state;
    job_file job = parse("hosts: [ada:8, '[fe80::1]:2', 'fe80::2', {host: mary, gpus: 2}]\n"
                         "workers: {count: 3, processes: 2}\n"
                         "env: {A: 1, B: 'x y'}\n"
                         "run:\n"
                         "- first\n"
                         "- |\n"
                         "  second\n"
                         "  third\n");
    assert_int_equal(complaints.count, 0);
    assert_int_equal(job.host_count, 4);
    assert_string_equal(job.hosts[0].name.text, "ada");
    assert_int_equal(job.hosts[0].slots.value, 8);
    assert_string_equal(job.hosts[1].name.text, "fe80::1");
    assert_int_equal(job.hosts[1].slots.value, 2);
    assert_string_equal(job.hosts[2].name.text, "fe80::2");
    assert_int_equal(job.hosts[2].slots.at.line, 0);
    assert_int_equal(job.hosts[3].has.gpus.value, 2);
    assert_int_equal(job_worker_count(&job), 3);
    assert_int_equal(job_processes_of_worker(&job), 2);
    assert_int_equal(job.env_count, 2);
    assert_string_equal(job.env[0].name.text, "A");
    assert_string_equal(job.env[1].value.text, "x y");
    assert_string_equal(job.run[1].text, "second\nthird\n");
    job_free(&job);
}

static void one_process_where_nothing_is_said(void **state)
{
    (void)state;
    job_file job = parse("run: x");
    assert_int_equal(complaints.count, 0);
    assert_int_equal(job_worker_count(&job), 1);
    assert_int_equal(job_processes_of_worker(&job), 1);
    job_free(&job);
    job = parse("run: x\nresources: {gpus: 3}");
    assert_int_equal(job_processes_of_worker(&job), 3);
    job_free(&job);
    job = parse("run: x\nresources: {gpus: 3}\nprocesses: 1");
    assert_int_equal(job_processes_of_worker(&job), 1);
    job_free(&job);
}

static void bytes_that_are_no_text_have_a_place(void **state)
{
    (void)state;
    assert_refused("run: x\nenv: {A: \xff}\n", 2, 10, "no text");
    assert_refused("run: x\x01\n", 1, 7, "no text");
    assert_refused("run: \"x\\0y\"\n", 1, 6, "a zero byte");
    assert_refused_bytes("run: x\0y", 8, 1, 7, "no text");
    assert_refused("", 0, 0, "empty");
}

static void what_a_file_says_does_not_steer_the_terminal(void **state)
{
    (void)state;
    assert_refused("\"\\e[31m\": 1\nrun: x\n", 1, 1, "'?[31m' is no key");
}

/* Each level holds the one before ten times: read as a tree, these would be 10^9 words. */
static void alias_bomb_costs_nothing(void **state)
{
    (void)state;
    char text[2048] = "a0: &a0 x\n";
    for (int i = 1; i < 10; i++) {
        char line[160];
        snprintf(line, sizeof line, "a%d: &a%d [", i, i);
        for (int k = 0; k < 10; k++)
            snprintf(line + strlen(line), sizeof line - strlen(line), "*a%d,", i - 1);
        strcat(strcat(text, line), "]\n");
    }
    strcat(text, "run: *a9\n");
    job_file job = parse(text);
    assert_int_equal(complaints.count, JOB_COMPLAINTS_MAX);
    job_free(&job);
}

static void limits_are_named(void **state)
{
    (void)state;
    char *text = malloc(JOB_BYTES_MAX + 1);
    memset(text, ' ', JOB_BYTES_MAX + 1);
    assert_refused_bytes(text, JOB_BYTES_MAX + 1, 0, 0, "larger than 262144 bytes");
    memset(text, '[', 100);
    assert_refused_bytes(text, 100, 1, 17, "nested deeper than 16 levels");
    text[0] = '\0';
    for (int i = 0; i <= JOB_ENTRIES_MAX; i++)
        sprintf(text + strlen(text), "A%d: x\n", i);
    assert_refused(text, JOB_ENTRIES_MAX + 1, 1, "more than 1024 keys");
    text[0] = '\0';
    for (int i = 0; i <= JOB_ANCHORS_MAX; i++)
        sprintf(text + strlen(text), "- &a%d x\n", i);
    assert_refused(text, JOB_ANCHORS_MAX + 1, 3, "more than 64 anchors");
    free(text);
}

static void complaints_beyond_the_list_are_counted(void **state)
{
    (void)state;
    char text[4096] = "run: x\n";
    for (int i = 0; i < JOB_COMPLAINTS_MAX + 7; i++)
        sprintf(text + strlen(text), "unheard_of_%d: x\n", i);
    job_file job = parse(text);
    assert_int_equal(complaints.count, JOB_COMPLAINTS_MAX);
    assert_int_equal(complaints.dropped, 7);
    job_free(&job);
}

static void complaints_are_in_order(void **state)
{
    (void)state;
    job_file job = parse("python: 3\nbad: 1\nworkers: x\nrun: x\n");
    assert_int_equal(complaints.count, 3);
    for (int i = 0; i < 3; i++)
        assert_int_equal(complaints.list[i].at.line, i + 1);
    job_free(&job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(long_form_is_read_with_places),
        cmocka_unit_test(short_form_is_read_too),
        cmocka_unit_test(one_process_where_nothing_is_said),
        cmocka_unit_test(bytes_that_are_no_text_have_a_place),
        cmocka_unit_test(what_a_file_says_does_not_steer_the_terminal),
        cmocka_unit_test(alias_bomb_costs_nothing),
        cmocka_unit_test(limits_are_named),
        cmocka_unit_test(complaints_beyond_the_list_are_counted),
        cmocka_unit_test(complaints_are_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
