/* sheet_test.c: what a sheet has quoted, a parser and a shell read back as it was. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cli/job_file/tree.h"
#include "cli/submit/sheet.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const nasty[] = {
    "",
    "plain",
    "two words",
    "yes",
    "Null",
    "~",
    "12",
    "1e3",
    "0x1f",
    "12:30:45",
    "2026-11-16",
    ".5",
    "it's",
    "a \"quoted\" word",
    "back\\slash \\n",
    "# no comment",
    "key: value",
    "- item",
    "trailing: ",
    " leading",
    "trailing ",
    "[flow]",
    "{map}",
    "*alias",
    "&anchor",
    "!tag",
    "%percent",
    "@at",
    "`tick`",
    "|",
    ">",
    "tab\there",
    "one\ntwo",
    "one\n\n  indented\nthree",
    "one\n",
    "one\n\n",
    "\none",
    " one\ntwo",
    "one\n\ttwo",
    "one\n--- two\n...",
    "one\r\ntwo",
    "bell\a",
    "del\x7f",
    "\xC2\x85 next line",
    "\xE2\x80\xA8 separator",
    "\xEF\xBB\xBF mark",
    "caf\xC3\xA9 \xF0\x9F\x92\x83",
    "$HOME $(date) `date` ${x} $$",
    "a;b|c&d>e<f*g?h",
    "{name}",
    "{=name}",
};
#define NASTY_COUNT (sizeof nasty / sizeof nasty[0])

static char *fill(sheet_language language, const char *template, const char *value)
{
    char *text = NULL;
    size_t bytes;
    FILE *to = open_memstream(&text, &bytes);
    assert_non_null(to);
    sheet_write(to, language, template, (sheet_field[]){{"value", value}, {NULL, NULL}});
    assert_int_equal(fclose(to), 0);
    return text;
}

/* Also in a list, and with something behind it. */
static void yaml_is_read_back(void **state)
{
    (void)state;
    for (size_t i = 0; i < NASTY_COUNT; i++) {
        job_complaints complaints = {0};
        char *text = fill(SHEET_YAML, "first: {value}\nsecond:\n  - {value}\n  - end\n", nasty[i]);
        job_tree tree = job_tree_read(text, strlen(text), &complaints);
        if (tree.root == NULL)
            fail_msg("no YAML: %s", text);
        const job_node *first = tree.root->first->next, *list = first->next->next;
        assert_string_equal(first->text, nasty[i]);
        assert_string_equal(list->first->text, nasty[i]);
        assert_string_equal(list->first->next->text, "end");
        job_tree_free(&tree);
        free(text);
    }
}

static void invalid_bytes_are_replaced(void **state)
{
    (void)state;
    char *text = fill(SHEET_YAML, "{value}\n", "a\xFFz");
    assert_string_equal(text, "\"a\\uFFFDz\"\n");
    free(text);
}

static void the_shell_reads_it_back(void **state)
{
    (void)state;
    for (size_t i = 0; i < NASTY_COUNT; i++) {
        char *command = fill(SHEET_SHELL, "printf %s. {value}", nasty[i]), read[256];
        FILE *shell = popen(command, "r");
        assert_non_null(shell);
        const size_t bytes = fread(read, 1, sizeof read, shell);
        assert_int_equal(pclose(shell), 0);
        assert_int_equal(bytes, strlen(nasty[i]) + 1);
        assert_memory_equal(read, nasty[i], bytes - 1);
        free(command);
    }
}

static void lines_without_a_value_are_left_out(void **state)
{
    (void)state;
    char *text = fill(SHEET_YAML, "a: {value}\nb: 1\nc: [x, {=value}]\n", NULL);
    assert_string_equal(text, "b: 1\n");
    free(text);
}

static void braces_of_the_shell_stay(void **state)
{
    (void)state;
    char *text = fill(SHEET_SHELL, "echo ${NAME:-0} {} {=value}\n", "as is");
    assert_string_equal(text, "echo ${NAME:-0} {} as is\n");
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(yaml_is_read_back),
        cmocka_unit_test(invalid_bytes_are_replaced),
        cmocka_unit_test(the_shell_reads_it_back),
        cmocka_unit_test(lines_without_a_value_are_left_out),
        cmocka_unit_test(braces_of_the_shell_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
