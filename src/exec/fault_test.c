/* fault_test.c: what RUEDA_FAULT may say, and for which operation it is meant. */
#include "exec/fault.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static fault parse(const char *text)
{
    fault f;
    assert_int_equal(fault_parse(text, &f), RUEDA_OK);
    return f;
}

static void nothing_is_no_fault(void **state)
{
    (void)state;
    fault f = parse("");
    assert_int_equal(f.kind, FAULT_NONE);
    assert_null(fault_for(&f, 0, 0, 0));
}

static void every_kind_is_understood(void **state)
{
    (void)state;
    const fault kill = parse("kill:rank=1:operation=5:step=12");
    assert_int_equal(kill.kind, FAULT_KILL);
    assert_true(kill.rank == 1 && kill.set == 0 && kill.operation == 5 && kill.step == 12);
    const fault early = parse("kill:rank=1:init=card");
    assert_int_equal(fault_in_init(&early, 1), BOOT_PHASE_CARD);
    assert_int_equal(fault_in_init(&early, 0), BOOT_PHASE_NONE);
    const fault stop = parse("stop:rank=65535:set=1024");
    assert_int_equal(stop.kind, FAULT_STOP);
    assert_true(stop.rank == 65535 && stop.set == 1024 && stop.operation == 0 && stop.step == 0);
    const fault delay = parse("delay:ms=50:step=4294967295:rank=0");
    assert_int_equal(delay.kind, FAULT_DELAY);
    assert_true(delay.rank == 0 && delay.step == UINT32_MAX && delay.ms == 50);
    static const mesh_links links[] = {MESH_ALL, MESH_DATA, MESH_TREE};
    static const char *const cuts[] = {"cut", "cut-data", "cut-tree"};
    for (size_t i = 0; i < 3; i++) {
        char text[64];
        snprintf(text, sizeof text, "%s:rank=0:peer=2", cuts[i]);
        const fault cut = parse(text);
        assert_int_equal(cut.kind, FAULT_CUT);
        assert_int_equal(cut.links, links[i]);
        assert_int_equal(cut.peer, 2);
    }
}

static void what_is_wrong_is_said_with_what_to_write(void **state)
{
    (void)state;
    static const struct {
        const char *text, *said;
    } cases[] = {
        {"murder:rank=1", "'murder'"},
        {"kil:rank=1", "'kil'"},
        {"kill:rank=1:init=breakfast", "'init=breakfast'"},
        {"stop:rank=1:init=card", "'init=card'"},
        {"killer:rank=1", "'killer'"},
        {":", "''"},
        {":rank=1", "''"},
        {"kill", "'kill' does not say all"},
        {"kill:", "''"},
        {"kill:rank=1:", "''"},
        {"kill:rank", "'rank'"},
        {"kill:rank=", "'rank='"},
        {"kill:rank=-1", "'rank=-1'"},
        {"kill:rank=1x", "'rank=1x'"},
        {"kill:rank= 1", "'rank= 1'"},
        {"kill:rank=65536", "'rank=65536'"},
        {"kill:rank=1:rank=1", "'rank=1'"},
        {"kill:rank=1:ms=5", "'ms=5'"},
        {"kill:rank=1:peer=5", "'peer=5'"},
        {"kill:rank=1:set=1025", "'set=1025'"},
        {"kill:rank=1:step=4294967296", "'step=4294967296'"},
        {"kill:rank=99999999999999999999999999", "'rank=999"},
        {"kill:operation=1", "does not say all"},
        {"delay:rank=1", "does not say all"},
        {"cut:rank=1", "does not say all"},
        {"cut:rank=1:peer=2:link=data", "'link=data'"},
        {"kill:rank=1 ", "'rank=1 '"},
        {"kill;rank=1", "'kill;rank=1'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fault f = {.step = 77};
        assert_int_equal(fault_parse(cases[i].text, &f), RUEDA_ERR_CONFIG);
        assert_int_equal(f.step, 77); /* outputs are set only on success */
        if (strstr(status_text(), cases[i].said) == NULL)
            fail_msg("'%s': no %s in: %s", cases[i].text, cases[i].said, status_text());
        assert_non_null(strstr(status_text(), "RUEDA_FAULT"));
        assert_non_null(strstr(status_text(), "write kill, stop"));
    }
}

static void it_is_meant_for_one_operation(void **state)
{
    (void)state;
    fault f = parse("kill:rank=1:set=2:operation=3");
    assert_ptr_equal(fault_for(&f, 1, 2, 3), &f);
    assert_null(fault_for(&f, 0, 2, 3));
    assert_null(fault_for(&f, 1, 0, 3));
    assert_null(fault_for(&f, 1, 2, 4));
}

static void it_happens_once_at_its_step(void **state)
{
    (void)state;
    fault f = parse("delay:rank=0:step=2:ms=1");
    const control nowhere = {.mesh = NULL};
    for (uint64_t step = 0; step < 2; step++) {
        fault_before_step(&f, step, &nowhere);
        assert_false(f.done);
    }
    fault_before_step(&f, 2, &nowhere);
    assert_true(f.done);
    f.ms = 86400000; /* a second time would take a day */
    fault_before_step(&f, 2, &nowhere);
}

static void without_a_network_there_is_nothing_to_cut(void **state)
{
    (void)state;
    fault f = parse("cut:rank=0:peer=1");
    fault_before_step(&f, 0, &(control){.mesh = NULL});
    assert_true(f.done);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_no_fault),
        cmocka_unit_test(every_kind_is_understood),
        cmocka_unit_test(what_is_wrong_is_said_with_what_to_write),
        cmocka_unit_test(it_is_meant_for_one_operation),
        cmocka_unit_test(it_happens_once_at_its_step),
        cmocka_unit_test(without_a_network_there_is_nothing_to_cut),
    };
    return cmocka_run_group_tests_name("fault", tests, NULL, NULL);
}
