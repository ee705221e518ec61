/* timeline_text_test.c: from notes to events: names, nesting, order, whatever the notes are. */
#include "observe/timeline_text.h"

#include "observe/timeline_check.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define NOTE_ROOM 4096

/* A note with its tail, as the ring would hold it. */
typedef struct made_note {
    _Alignas(8) char bytes[NOTE_ROOM];
} made_note;

static made_note make(const timeline_note *start, const char *name, const timeline_ready *ready,
                      const int64_t *shape)
{
    made_note made = {0};
    timeline_note note = *start;
    note.name_length = (uint32_t)strlen(name);
    char *at = made.bytes;
    memcpy(at, &note, sizeof note);
    at += sizeof note;
    if (note.ready_count > 0)
        memcpy(at, ready, note.ready_count * sizeof *ready);
    at += note.ready_count * sizeof *ready;
    if (note.ndim > 0)
        memcpy(at, shape, note.ndim * sizeof *shape);
    at += note.ndim * sizeof *shape;
    memcpy(at, name, note.name_length);
    return made;
}

static void add(timeline_text *t, const made_note *made)
{
    assert_true(timeline_text_add(t, (const timeline_note *)made->bytes));
}

static void add_negotiated(timeline_text *t, const char *name, uint64_t submitted, uint64_t decided,
                           const timeline_ready *ready, uint32_t ready_count)
{
    const timeline_note note = {.kind = TIMELINE_NOTE_NEGOTIATED,
                                .op = "ALLREDUCE",
                                .submitted_ns = submitted,
                                .decided_ns = decided,
                                .ready_count = ready_count};
    const made_note made = make(&note, name, ready, NULL);
    add(t, &made);
}

static void add_done(timeline_text *t, const char *name, uint64_t decided, uint64_t began,
                     uint64_t ended, rueda_status status)
{
    const int64_t shape[] = {3, 4};
    const timeline_note note = {.kind = TIMELINE_NOTE_DONE,
                                .op = "ALLREDUCE",
                                .engine = "shm",
                                .algorithm = "ring",
                                .dtype = RUEDA_BF16,
                                .ndim = 2,
                                .status = status,
                                .tensors = 5,
                                .number = 42,
                                .decided_ns = decided,
                                .began_ns = began,
                                .ended_ns = ended};
    const made_note made = make(&note, name, NULL, shape);
    add(t, &made);
}

static void add_waiting(timeline_text *t, const char *name, uint64_t submitted, uint64_t now)
{
    const timeline_note note = {.kind = TIMELINE_NOTE_WAITING,
                                .op = "BROADCAST",
                                .submitted_ns = submitted,
                                .decided_ns = now};
    const made_note made = make(&note, name, NULL, NULL);
    add(t, &made);
}

static timeline_text new_text(void)
{
    timeline_text t;
    assert_int_equal(timeline_text_init(&t, 3, 1000), RUEDA_OK);
    return t;
}

/* The text as the array it is a part of. */
static check_timeline parse(const timeline_text *t)
{
    char *whole = malloc(byte_queue_used(&t->text) + 8);
    whole[0] = '[';
    memcpy(whole + 1, t->text.bytes, t->text.end);
    memcpy(whole + 1 + t->text.end, "]", 2);
    check_timeline parsed;
    assert_true(check_parse(&parsed, whole));
    return parsed;
}

static void a_tensor_has_the_events_of_horovod(void **state)
{
    (void)state;
    timeline_text t = new_text();
    const timeline_ready ready[] = {{2500, 0}, {2000, 7}};
    add_negotiated(&t, "grad", 2200, 3000, ready, 2);
    add_done(&t, "grad", 3000, 3500, 4123, RUEDA_OK);
    static const char *const expected[] = {
        "{\"pid\": 0, \"tid\": 3, \"ph\": \"M\", \"name\": \"thread_name\", \"args\": {\"name\": \"rank 3\"}}",
        "{\"pid\": P, \"tid\": 3, \"ph\": \"M\", \"name\": \"process_name\", \"args\": {\"name\": \"grad\"}}",
        "{\"pid\": P, \"tid\": 3, \"ph\": \"M\", \"name\": \"process_sort_index\", \"args\": "
        "{\"sort_index\": 1}}",
        "{\"pid\": P, \"tid\": 3, \"ph\": \"M\", \"name\": \"thread_name\", \"args\": {\"name\": \"rank 3\"}}",
        "{\"pid\": P, \"tid\": 3, \"ph\": \"B\", \"ts\": 2.000, \"name\": \"NEGOTIATE_ALLREDUCE\"}",
        "{\"pid\": P, \"tid\": 3, \"ph\": \"X\", \"ts\": 2.500, \"dur\": 0, \"name\": \"0\"}",
        "{\"pid\": P, \"tid\": 3, \"ph\": \"X\", \"ts\": 2.000, \"dur\": 0, \"name\": \"7\"}",
        "{\"pid\": P, \"tid\": 3, \"ph\": \"E\", \"ts\": 3.000}",
        "{\"pid\": P, \"tid\": 3, \"ph\": \"B\", \"ts\": 3.000, \"name\": \"ALLREDUCE\"}",
        "{\"pid\": P, \"tid\": 3, \"ph\": \"B\", \"ts\": 3.000, \"name\": \"QUEUE\"}",
        "{\"pid\": P, \"tid\": 3, \"ph\": \"E\", \"ts\": 3.500}",
        "{\"pid\": P, \"tid\": 3, \"ph\": \"B\", \"ts\": 3.500, \"name\": \"SHM_ALLREDUCE\", \"args\": "
        "{\"algorithm\": \"ring\", \"operation\": 42, \"tensors\": 5}}",
        "{\"pid\": P, \"tid\": 3, \"ph\": \"E\", \"ts\": 4.123}",
        "{\"pid\": P, \"tid\": 3, \"ph\": \"E\", \"ts\": 4.123, \"args\": {\"dtype\": \"bfloat16\", "
        "\"shape\": \"[3, 4]\"}}"};
    check_timeline parsed = parse(&t);
    assert_int_equal(parsed.count, sizeof expected / sizeof expected[0]);
    const unsigned pid = check_pid(&parsed, "grad");
    const char *at = parsed.text;
    for (size_t i = 0; i < parsed.count; i++) {
        char line[512];
        const char *p = strchr(expected[i], 'P');
        if (strncmp(expected[i], "{\"pid\": P", 9) == 0)
            snprintf(line, sizeof line, "{\"pid\": %u%s", pid, p + 1);
        else
            snprintf(line, sizeof line, "%s", expected[i]);
        at = strchr(at, '{');
        assert_memory_equal(at, line, strlen(line));
        at += strlen(line);
        assert_true(*at == ',' || *at == ']' || *at == '\n'); /* one event a line */
    }
    check_free(&parsed);
    timeline_text_fini(&t);
}

static void strange_names_are_shown_as_json_allows(void **state)
{
    (void)state;
    static const char *const names[] = {"",
                                        "a\"b\\c",
                                        "line\nbreak\ttab\x01\x1f",
                                        "gr\303\244dient \342\210\221 \360\237\230\200",
                                        "cut \xc3",
                                        "\xff\xfe",
                                        "\xc0\x80 overlong",
                                        "\xed\xa0\x80 surrogate",
                                        "\xf8\x88\x80\x80\x80"};
    timeline_text t = new_text();
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        add_done(&t, names[i], 3000, 3500, 4000, RUEDA_OK);
    char longest[RUEDA_MAX_NAME + 1];
    memset(longest, '\x02', RUEDA_MAX_NAME);
    longest[RUEDA_MAX_NAME] = '\0';
    for (int i = 0; i < 200; i++) { /* more text than there was room at first */
        longest[0] = (char)(i + 1);
        add_done(&t, longest, 5000, 5500, 6000, RUEDA_OK);
    }
    check_timeline parsed = parse(&t);
    assert_null(check_nesting(&parsed, false));
    assert_int_not_equal(check_pid(&parsed, "a\"b\\c"), 0);
    assert_int_not_equal(check_pid(&parsed, "gr\303\244dient \342\210\221 \360\237\230\200"), 0);
    assert_int_not_equal(check_pid(&parsed, "cut \xef\xbf\xbd"), 0);
    assert_int_not_equal(check_pid(&parsed, "\xef\xbf\xbd\xef\xbf\xbd overlong"), 0);
    check_free(&parsed);
    timeline_text_fini(&t);
}

/* ---- Whatever comes, in whichever order ------------------------------------------------------ */

static void lost_notes_leave_no_open_ends(void **state)
{
    (void)state;
    timeline_text t = new_text();
    add_waiting(&t, "a", 2000, 3000); /* then the end of the negotiation is lost */
    add_done(&t, "a", 4000, 4500, 5000, RUEDA_OK);
    add_waiting(&t, "b", 2000, 3000); /* told twice */
    add_waiting(&t, "b", 2000, 4000);
    add_negotiated(&t, "b", 2000, 6000, NULL, 0);
    add_done(&t, "c", 7000, 0, 8000, RUEDA_ERR_PEER); /* never began */
    add_waiting(&t, "d", 2000, 3000);                 /* still waits at the end */
    check_timeline parsed = parse(&t);
    assert_string_equal(check_nesting(&parsed, false), "a beginning without an end");
    assert_null(check_nesting(&parsed, true));
    check_free(&parsed);
    timeline_text_close(&t, 9000);
    parsed = parse(&t);
    assert_null(check_nesting(&parsed, false));
    assert_int_equal(check_count(&parsed, 'B', "NEGOTIATE_BROADCAST"), 3);
    assert_int_equal(check_count(&parsed, 'B', "SHM_ALLREDUCE"), 1);
    assert_non_null(strstr(parsed.text, "\"status\": \"RUEDA_ERR_PEER\""));
    assert_non_null(strstr(parsed.text, "\"status\": \"RUEDA_PENDING\""));
    check_free(&parsed);
    timeline_text_fini(&t);
}

static void times_never_go_back(void **state)
{
    (void)state;
    timeline_text t = new_text();
    const timeline_ready early[] = {{1, 0}, {2000, 1}};
    add_negotiated(&t, "a", 500, 3000, early, 2); /* ready, and submitted, before the start */
    add_done(&t, "a", 3000, 3100, 9000, RUEDA_OK);
    add_negotiated(&t, "a", 9500, 9600, early, 2); /* ready while we were at the one before */
    add_done(&t, "a", 900, 950, 960, RUEDA_OK);    /* of a time before this timeline: left out */
    check_timeline parsed = parse(&t);
    assert_null(check_nesting(&parsed, false));
    assert_int_equal(check_count(&parsed, 'B', "ALLREDUCE"), 1);
    for (size_t i = 0; i < parsed.count; i++)
        assert_true(parsed.events[i].ph == 'M' || parsed.events[i].ts >= 1.0);
    check_free(&parsed);
    timeline_text_fini(&t);
}

static void an_offset_moves_all_times(void **state)
{
    (void)state;
    timeline_text t = new_text();
    t.offset_ns = -500;
    add_done(&t, "a", 2000, 2100, 2200, RUEDA_OK);
    check_timeline parsed = parse(&t);
    assert_non_null(strstr(parsed.text, "\"ts\": 1.500, \"name\": \"ALLREDUCE\""));
    check_free(&parsed);
    timeline_text_fini(&t);
}

static void ranks_number_tensors_alike(void **state)
{
    (void)state;
    timeline_text one = new_text(), other = new_text();
    for (int i = 0; i < 100; i++) {
        char name[32];
        snprintf(name, sizeof name, "layer.%d", i);
        add_done(&one, name, 2000, 2100, 2200, RUEDA_OK);
        snprintf(name, sizeof name, "layer.%d", 99 - i);
        add_done(&other, name, 2000, 2100, 2200, RUEDA_OK);
    }
    check_timeline a = parse(&one), b = parse(&other);
    for (int i = 0; i < 100; i++) {
        char name[32];
        snprintf(name, sizeof name, "layer.%d", i);
        assert_int_not_equal(check_pid(&a, name), 0);
        assert_int_equal(check_pid(&a, name), check_pid(&b, name));
    }
    check_free(&a);
    check_free(&b);
    timeline_text_fini(&one);
    timeline_text_fini(&other);
}

static void names_that_never_come_again_are_forgotten(void **state)
{
    (void)state;
    timeline_text t = new_text();
    add_waiting(&t, "open", 2000, 3000);
    for (int i = 0; i < 2 * TIMELINE_NAMES_MAX + 10; i++) {
        char name[32];
        snprintf(name, sizeof name, "once.%d", i);
        add_done(&t, name, 2000, 2100, 2200, RUEDA_OK);
        timeline_text_clear(&t);
        assert_true(t.row_count <= TIMELINE_NAMES_MAX);
    }
    timeline_text_close(&t, 9000); /* what was open is remembered */
    assert_non_null(memmem(t.text.bytes, t.text.end, "RUEDA_PENDING", 13));
    timeline_text_fini(&t);
}

static void rounds_and_drops_are_marked(void **state)
{
    (void)state;
    timeline_text t = new_text();
    const timeline_note note = {
        .kind = TIMELINE_NOTE_ROUND, .set = 2, .number = 7, .decided_ns = 5000};
    const made_note made = make(&note, "", NULL, NULL);
    add(&t, &made);
    timeline_text_add_dropped(&t, 12, 6000);
    check_timeline parsed = parse(&t);
    assert_int_equal(check_count(&parsed, 'i', "CYCLE_START"), 1);
    assert_non_null(strstr(parsed.text, "{\"set\": 2, \"round\": 7}"));
    assert_non_null(strstr(parsed.text, "\"DROPPED\", \"args\": {\"notes\": 12}"));
    check_free(&parsed);
    timeline_text_fini(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tensor_has_the_events_of_horovod),
        cmocka_unit_test(strange_names_are_shown_as_json_allows),
        cmocka_unit_test(lost_notes_leave_no_open_ends),
        cmocka_unit_test(times_never_go_back),
        cmocka_unit_test(an_offset_moves_all_times),
        cmocka_unit_test(ranks_number_tensors_alike),
        cmocka_unit_test(names_that_never_come_again_are_forgotten),
        cmocka_unit_test(rounds_and_drops_are_marked),
    };
    return cmocka_run_group_tests_name("timeline_text", tests, NULL, NULL);
}
