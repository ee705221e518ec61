/* board_test.c: whom ranks that wait in rueda_init take for missing, by what the board says of those that have ended. */
#include "boot/board.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define RANKS 4
#define NOBODY (-1)

static board *new_board(void)
{
    char path[BOARD_PATH];
    board *b = board_make(RANKS, "job", path);
    assert_non_null(b);
    return b;
}

static void the_lowest_that_names_nobody_is_missing(void **state)
{
    (void)state;
    board *b = new_board();
    assert_int_equal(board_missing(b, 1), -1);
    board_note_end(b, 0, 0, 2);
    assert_int_equal(board_missing(b, 1), -1); /* what rank 2 has to say is not known yet */
    board_note_end(b, 3, 0, NOBODY);
    assert_int_equal(board_missing(b, 1), 3);
    board_note_end(b, 2, 0, NOBODY);
    assert_int_equal(board_missing(b, 1), 2);
    board_close(b);
}

static void who_has_joined_is_not_missing(void **state)
{
    (void)state;
    board *b = new_board();
    board_note_end(b, 1, 1, NOBODY);
    assert_int_equal(board_missing(b, 1), -1);
    assert_int_equal(board_missing(b, 2), 1);
    board_close(b);
}

/* Two that were cut off from each other: a third one does not wait for them for ever. */
static void of_those_that_name_each_other_one_is_missing(void **state)
{
    (void)state;
    board *b = new_board();
    board_note_end(b, 2, 0, 3);
    board_note_end(b, 0, 0, 3);
    assert_int_equal(board_missing(b, 1), -1);
    board_note_end(b, 3, 0, 0);
    const int missing = board_missing(b, 1);
    assert_true(missing == 0 || missing == 3);
    board_close(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_lowest_that_names_nobody_is_missing),
        cmocka_unit_test(who_has_joined_is_not_missing),
        cmocka_unit_test(of_those_that_name_each_other_one_is_missing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
