/* trace_test.c: what is put into the ring comes out, also while somebody writes.
 * ctest: threads */
#include "observe/trace.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static const char *kind_name(uint8_t kind)
{
    return kind == 7 ? "AWAIT" : "COPY";
}

static const char *collective_name(uint8_t collective)
{
    return collective == 2 ? "broadcast" : "allreduce";
}

static const char *algorithm_name(uint8_t algorithm)
{
    return algorithm == 5 ? "tree" : "direct";
}

static const trace_names names = {kind_name, collective_name, algorithm_name};

/* Every field from one number, so that a record of two halves is found. */
static trace_record record_of(uint64_t i)
{
    return (trace_record){.time_ns = i * 7,
                          .number = i,
                          .set = (uint32_t)(i % 32),
                          .phase = (uint32_t)(i % 60000),
                          .tick = (uint32_t)(i % 16000000),
                          .first_step = (uint32_t)(i * 3 % 16000000),
                          .last_step = (uint32_t)(i * 5 % 16000000),
                          .event = (uint8_t)(i % TRACE_EVENT_COUNT),
                          .kind = (uint8_t)(i % 11),
                          .collective = (uint8_t)(i % 6),
                          .algorithm = (uint8_t)(i % 10),
                          .peer = (uint16_t)(i % 4096)};
}

static void assert_is(const trace_record *r, uint64_t i)
{
    const trace_record wanted = record_of(i);
    assert_int_equal(r->time_ns, wanted.time_ns);
    assert_int_equal(r->number, wanted.number);
    assert_int_equal(r->set, wanted.set);
    assert_int_equal(r->phase, wanted.phase);
    assert_int_equal(r->tick, wanted.tick);
    assert_int_equal(r->first_step, wanted.first_step);
    assert_int_equal(r->last_step, wanted.last_step);
    assert_int_equal(r->event, wanted.event);
    assert_int_equal(r->kind, wanted.kind);
    assert_int_equal(r->collective, wanted.collective);
    assert_int_equal(r->algorithm, wanted.algorithm);
    assert_int_equal(r->peer, wanted.peer);
}

static void put(trace *t, uint64_t i)
{
    const trace_record r = record_of(i);
    trace_put(t, &r);
}

static void the_latest_records_come_out_in_order(void **state)
{
    (void)state;
    trace t;
    trace_record got[100];
    assert_int_equal(trace_init(&t, 50, 3), RUEDA_OK); /* rounded up to 64 */
    assert_int_equal(trace_read(&t, got, 100), 0);
    for (uint64_t i = 0; i < 1000; i++) {
        put(&t, i);
        const size_t count = trace_read(&t, got, 100), wanted = i < 63 ? i + 1 : 63;
        assert_int_equal(count, wanted);
        for (size_t k = 0; k < count; k++) {
            assert_is(&got[k], i + 1 - count + k);
            assert_int_equal(got[k].generation, 3);
        }
    }
    assert_int_equal(trace_read(&t, got, 7), 7);
    assert_is(&got[6], 999);
    trace_fini(&t);
}

static void a_ring_of_no_records_is_off(void **state)
{
    (void)state;
    trace t;
    trace_record got[1];
    assert_int_equal(trace_init(&t, 0, 1), RUEDA_OK);
    assert_null(trace_if_on(&t));
    assert_int_equal(trace_read(&t, got, 1), 0);
    trace_dump(&t, &names, "/nonexistent/folder/x", &(logger){LOG_ERROR, 0});
    trace_fini(&t);
}

/* ---- A reader beside the writer -------------------------------------------------------------- */

#define BUSY_RECORDS 300000

static void *write_many(void *argument)
{
    for (uint64_t i = 0; i < BUSY_RECORDS; i++)
        put(argument, i);
    return NULL;
}

static void a_reader_that_is_overtaken_sees_whole_records(void **state)
{
    (void)state;
    trace t;
    trace_record got[64];
    assert_int_equal(trace_init(&t, 64, 1), RUEDA_OK);
    pthread_t writer;
    assert_int_equal(pthread_create(&writer, NULL, write_many, &t), 0);
    uint64_t last = 0;
    while (last + 1 < BUSY_RECORDS) {
        const size_t count = trace_read(&t, got, 64);
        for (size_t i = 0; i < count; i++) {
            assert_is(&got[i], got[0].number + i);
            last = got[i].number;
        }
    }
    pthread_join(writer, NULL);
    trace_fini(&t);
}

/* ---- For people ------------------------------------------------------------------------------ */

static void assert_told(const trace_record *r, const char *line)
{
    char text[TRACE_LINE_MAX];
    assert_string_equal(trace_format(r, &names, text), line);
}

static void records_are_told_in_words(void **state)
{
    (void)state;
    trace_record r = {.time_ns = 1500000007,
                      .number = 17,
                      .set = 2,
                      .generation = 1,
                      .collective = 2,
                      .algorithm = 5,
                      .phase = 1,
                      .tick = 4,
                      .first_step = 6,
                      .last_step = 9,
                      .peer = TRACE_NOBODY};
#define START "1.500000007 generation 1 set 2 operation 17, broadcast by tree: phase 1 tick 4 "
    assert_told(&r, START "steps 6 to 9 done, COPY");
    r.event = TRACE_ENDS;
    assert_told(&r, START "steps 6 to 9 done, COPY; the operation ends");
    r.event = TRACE_FAILS;
    assert_told(&r, START "fails at step 6, COPY");
    r.event = TRACE_WAITS;
    assert_told(&r, START "waits at step 6, COPY");
    r.peer = 3;
    r.kind = 7;
    assert_told(&r, START "waits at step 6, AWAIT, for rank 3 of the set");
}

static void the_longest_record_fits(void **state)
{
    (void)state;
    char text[TRACE_LINE_MAX];
    trace_record r = {.event = TRACE_WAITS, .kind = 7, .peer = TRACE_NOBODY - 1};
    r.time_ns = r.number = UINT64_MAX;
    r.set = r.generation = r.phase = r.tick = r.first_step = UINT32_MAX;
    assert_non_null(strstr(trace_format(&r, &names, text), "of the set"));
}

static size_t lines_of(const char *path)
{
    size_t lines = 0;
    FILE *from = fopen(path, "r");
    assert_non_null(from);
    for (int c; (c = fgetc(from)) != EOF;)
        lines += c == '\n';
    fclose(from);
    return lines;
}

static void a_dump_goes_to_a_file_of_the_rank(void **state)
{
    (void)state;
    char folder[] = "/tmp/rueda-trace-XXXXXX", path[64], file[80];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/trace", folder);
    snprintf(file, sizeof file, "%s.4", path);
    const logger log = {LOG_ERROR, 4};
    for (uint64_t generation = 1; generation <= 2; generation++) {
        trace t;
        assert_int_equal(trace_init(&t, 16, generation), RUEDA_OK);
        for (uint64_t i = 0; i < 100; i++)
            put(&t, i);
        trace_dump(&t, &names, path, &log);
        if (generation == 1)
            trace_dump(&t, &names, path, &log); /* the same one again takes its place */
        trace_fini(&t);
    }
    assert_int_equal(lines_of(file), 30);
    unlink(file);
    rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_latest_records_come_out_in_order),
        cmocka_unit_test(a_ring_of_no_records_is_off),
        cmocka_unit_test(a_reader_that_is_overtaken_sees_whole_records),
        cmocka_unit_test(records_are_told_in_words),
        cmocka_unit_test(the_longest_record_fits),
        cmocka_unit_test(a_dump_goes_to_a_file_of_the_rank),
    };
    return cmocka_run_group_tests_name("trace", tests, NULL, NULL);
}
