/* host_job_test.c: a job arrives at an agent as it was sent, and what is no job is refused. The sources
 * are included because the library for tests holds no commands. */
#include "cli/launch/bytes.c"    // NOLINT
#include "cli/launch/host_job.c" // NOLINT
#include "cli/launch/wire.c"     // NOLINT

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#define MUTATIONS 20000

static char *environment[] = {"A=1", "EMPTY=", "B=x y\nz", NULL};
static char *own[] = {"CUDA_VISIBLE_DEVICES=3", NULL};
static char *train[] = {"python", "train.py", "", "--name=ä", NULL};
static char *test[] = {"true", NULL};
static char **steps[] = {train, test};

static host_job example(host_rank ranks[3])
{
    for (int i = 0; i < 3; i++)
        ranks[i] = (host_rank){.cross_rank = i % 2, .cross_size = 2};
    ranks[1].environment = own;
    return (host_job){.host = "node1",
                      .name = "0123",
                      .key = "abcd",
                      .directory = "/work",
                      .size = 9,
                      .first = 4,
                      .count = 3,
                      .ranks = ranks,
                      .environment = environment,
                      .step_count = 2,
                      .steps = steps,
                      .bind = LAUNCH_BIND_CORE,
                      .worker = {3, 12, INT64_C(4096) << 20},
                      .silence_s = 60,
                      .plain = true,
                      .results = true};
}

static void assert_list_equal(char *const *a, char *const *b)
{
    for (; *a != NULL && *b != NULL; a++, b++)
        assert_string_equal(*a, *b);
    assert_ptr_equal(*a, *b);
}

static void job_arrives_as_sent(void **state)
{
    (void)state;
    host_rank ranks[3];
    const host_job sent = example(ranks);
    bytes packed = {0};
    host_job_pack(&sent, &packed);
    host_job got;
    assert_true(host_job_unpack(&got, bytes_first(&packed), bytes_used(&packed)));
    bytes_free(&packed); /* the texts have memory of their own */
    assert_string_equal(got.host, "node1");
    assert_string_equal(got.key, "abcd");
    assert_string_equal(got.interfaces, "");
    assert_int_equal(got.first, 4);
    assert_int_equal(got.count, 3);
    assert_list_equal(got.ranks[1].environment, own);
    assert_null(got.ranks[2].environment[0]);
    assert_list_equal(got.environment, environment);
    assert_list_equal(got.steps[0], train);
    assert_list_equal(got.steps[1], test);
    assert_int_equal(got.worker.ranks, 3);
    assert_int_equal(got.worker.cpus, 12);
    assert_int_equal(got.worker.memory_bytes, INT64_C(4096) << 20);
    assert_int_equal(got.bind, LAUNCH_BIND_CORE);
    assert_true(got.plain);
    assert_true(got.results);
    host_job_free(&got);
}

static void cut_jobs_are_refused(void **state)
{
    (void)state;
    host_rank ranks[3];
    const host_job sent = example(ranks);
    bytes packed = {0};
    host_job_pack(&sent, &packed);
    for (size_t length = 0; length < bytes_used(&packed); length++) {
        host_job got;
        assert_false(host_job_unpack(&got, bytes_first(&packed), length));
        host_job_free(&got);
    }
    bytes_add(&packed, "", 1);
    host_job got;
    assert_false(host_job_unpack(&got, bytes_first(&packed), bytes_used(&packed)));
    host_job_free(&got);
    bytes_free(&packed);
}

/* Nothing is asserted but that the sanitizers stay silent. */
static void changed_jobs_do_no_harm(void **state)
{
    (void)state;
    host_rank ranks[3];
    const host_job sent = example(ranks);
    bytes packed = {0};
    uint32_t random = 1;
    host_job_pack(&sent, &packed);
    for (int i = 0; i < MUTATIONS; i++) {
        random = random * 1664525u + 1013904223u;
        char *byte = bytes_first(&packed) + (random >> 8) % bytes_used(&packed);
        const char before = *byte;
        *byte = (char)random;
        host_job got;
        host_job_unpack(&got, bytes_first(&packed), bytes_used(&packed));
        host_job_free(&got);
        *byte = before;
    }
    bytes_free(&packed);
}

static void frames_come_in_any_pieces(void **state)
{
    (void)state;
    bytes all = {0}, come = {0};
    wire_frame f;
    wire_put(&all, WIRE_OUTPUT, WIRE_STDERR, 7, "a line\n", 7);
    wire_put(&all, WIRE_IDLE, 0, 0, NULL, 0);
    for (size_t i = 0; i < bytes_used(&all); i++) {
        const int expected = i >= WIRE_HEADER + 7 ? 1 : 0;
        assert_int_equal(wire_peek(&come, &f), expected);
        bytes_add(&come, bytes_first(&all) + i, 1);
    }
    assert_int_equal(wire_peek(&come, &f), 1);
    assert_int_equal(f.type, WIRE_OUTPUT);
    assert_int_equal(f.kind, WIRE_STDERR);
    assert_int_equal(f.number, 7);
    assert_memory_equal(f.body, "a line\n", f.length);
    wire_drop(&come, &f);
    assert_int_equal(wire_peek(&come, &f), 1);
    assert_int_equal(f.type, WIRE_IDLE);
    wire_drop(&come, &f);
    assert_int_equal(wire_peek(&come, &f), 0);
    bytes_add(&come, "GET / HTTP/1.1\r\n", 16);
    assert_int_equal(wire_peek(&come, &f), -1);
    bytes_free(&all);
    bytes_free(&come);
}

static void answers_arrive_as_sent(void **state)
{
    (void)state;
    host_answer sent = {.interface = "10.0.0.1", .ssh_here = "fe80::1%eth0"}, got;
    bytes packed = {0};
    host_answer_pack(&sent, &packed);
    assert_true(host_answer_unpack(&got, bytes_first(&packed), bytes_used(&packed)));
    assert_string_equal(got.ssh_here, "fe80::1%eth0");
    assert_string_equal(got.ssh_there, "");
    assert_false(host_answer_unpack(&got, bytes_first(&packed), bytes_used(&packed) - 1));
    bytes_free(&packed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(job_arrives_as_sent),     cmocka_unit_test(cut_jobs_are_refused),
        cmocka_unit_test(changed_jobs_do_no_harm), cmocka_unit_test(frames_come_in_any_pieces),
        cmocka_unit_test(answers_arrive_as_sent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
