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
    "one \ntwo\n ",
    "one\n\xE2\x80\xA8two",
    "one\n\xC2\x85two",
    "one\r\ntwo",
    "bell\a",
    "del\x7f",
    "\xC2\x85 next line",
    "\xE2\x80\xA8 separator",
    "\xEF\xBB\xBF mark",
    "caf\xC3\xA9 \xF0\x9F\x92\x83",
    "$HOME $(date) `date` ${x} $$",
    "a;b|c&d>e<f*g?h",
    "<value>",
    "<=value>",
    "[<value>]...",
};
#define NASTY_COUNT (sizeof nasty / sizeof nasty[0])

typedef bool writer(FILE *to, const char *template, const sheet_field *fields);

/* NULL: it was refused. */
static char *fill_all(writer *write, const char *template, const sheet_field *fields)
{
    char *text = NULL;
    size_t bytes;
    FILE *to = open_memstream(&text, &bytes);
    assert_non_null(to);
    const bool good = write(to, template, fields);
    assert_int_equal(fclose(to), 0);
    if (good)
        return text;
    free(text);
    return NULL;
}

static char *fill(writer *write, const char *template, const char *value)
{
    const sheet_field fields[] = {{.name = "value", .value = value}, {.name = NULL}};
    return fill_all(write, template, fields);
}

static void becomes(writer *write, const char *template, const sheet_field *fields,
                    const char *expected)
{
    char *text = fill_all(write, template, fields);
    assert_non_null(text);
    assert_string_equal(text, expected);
    free(text);
}

/* Also in a list, and with something behind it. */
static void yaml_is_read_back(void **state)
{
    (void)state;
    for (size_t i = 0; i < NASTY_COUNT; i++) {
        job_complaints complaints = {0};
        char *text = fill(sheet_write_yaml,
                          "first: \"<value>\"\nsecond:\n  - \"<value>\"\n  - end\n", nasty[i]);
        assert_non_null(text);
        job_tree tree = job_tree_read(text, strlen(text), &complaints);
        if (tree.root == NULL)
            fail_msg("no YAML: %s", text);
        const job_node *first = tree.root->first->next, *list = first->next->next;
        assert_string_equal(first->text, nasty[i]);
        assert_false(first->plain);
        assert_string_equal(list->first->text, nasty[i]);
        assert_string_equal(list->first->next->text, "end");
        job_tree_free(&tree);
        free(text);
    }
}

static void words_of_a_template_keep_their_form(void **state)
{
    (void)state;
    const sheet_field fields[] = {{.name = "n", .value = "12"}, {.name = NULL}};
    becomes(sheet_write_yaml,
            "a: <n> # gone\nb: \"<n>\"\nc: [x, \"1\", <n>Mi]\nd: {}\n---\ne: true\n", fields,
            "a: 12\nb: \"12\"\nc: [x, \"1\", 12Mi]\nd: {}\n---\ne: true\n");
}

static void what_does_not_fit_is_refused(void **state)
{
    (void)state;
    assert_null(fill(sheet_write_yaml, "a: \"<value>\"\n", "no \xFF UTF-8"));
    assert_null(fill(sheet_write_yaml, "a: <value>\n", "no number"));
    assert_null(fill(sheet_write_yaml, "a: <value>\n", ""));
    assert_null(fill(sheet_write_yaml, "a: \"<another>\"\n", "x"));
    assert_null(fill(sheet_write_yaml, "a: [\n", "x"));
    assert_null(fill(sheet_write_shell, "echo <another>\n", "x"));
}

static void the_shell_reads_it_back(void **state)
{
    (void)state;
    for (size_t i = 0; i < NASTY_COUNT; i++) {
        char *command = fill(sheet_write_shell, "printf %s. <value>", nasty[i]), read[256];
        FILE *shell = popen(command, "r");
        assert_non_null(shell);
        const size_t bytes = fread(read, 1, sizeof read, shell);
        assert_int_equal(pclose(shell), 0);
        assert_int_equal(bytes, strlen(nasty[i]) + 1);
        assert_memory_equal(read, nasty[i], bytes - 1);
        free(command);
    }
}

/* One field with a value, one without, one with several, one with none of several. */
static const sheet_field mixed[] = {
    {.name = "one", .value = "1"},
    {.name = "none", .value = NULL},
    {.name = "each", .values = (const char *const[]){"x", "y y", NULL}},
    {.name = "name", .values = (const char *const[]){"A", "B", NULL}},
    {.name = "nobody", .values = (const char *const[]){NULL}},
    {.name = NULL}};

static void what_has_no_value_is_left_out(void **state)
{
    (void)state;
    becomes(sheet_write_yaml, "a: \"<none>\"\nb: [1, \"<none>\", <one>]\nc: {d: {e: \"<none>\"}}\n",
            mixed, "b: [1, 1]\n");
    becomes(sheet_write_yaml, "a:\n- \"<nobody>\"\nb: x\nc:\n- d: {\"<nobody>\": 1}\n", mixed,
            "b: x\n");
    becomes(sheet_write_shell, "a <none>\nb <one>\nc <nobody>\n", mixed, "b 1\n");
    becomes(sheet_write_shell, "a [--b=<none>] [--c=<one>] [<nobody>]... d\n", mixed,
            "a --c=1 d\n");
}

static void several_values_are_written_once_each(void **state)
{
    (void)state;
    becomes(sheet_write_yaml, "a:\n- \"<each>\"\n- end\n", mixed,
            "a:\n- \"x\"\n- \"y y\"\n- end\n");
    becomes(sheet_write_yaml, "- p:\n  - name: \"<name>\"\n    value: \"<each>\"\n", mixed,
            "- p:\n  - name: \"A\"\n    value: \"x\"\n  - name: \"B\"\n    value: \"y y\"\n");
    becomes(sheet_write_yaml, "a:\n  \"<name>\":\n    v: \"<each>\"\n", mixed,
            "a:\n  \"A\":\n    v: \"x\"\n  \"B\":\n    v: \"y y\"\n");
    becomes(sheet_write_shell, "<name>=<each>\n", mixed, "A=x\nB='y y'\n");
    becomes(sheet_write_shell, "run [-x <name>]... <each>\n", mixed,
            "run -x A -x B x\nrun -x A -x B 'y y'\n");
}

static void brackets_of_the_shell_stay(void **state)
{
    (void)state;
    char *text =
        fill(sheet_write_shell, "[ $x -gt 0 ] <in >out ${NAME:-0} [0-9] <=value>\n", "as is");
    assert_string_equal(text, "[ $x -gt 0 ] <in >out ${NAME:-0} [0-9] as is\n");
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(yaml_is_read_back),
        cmocka_unit_test(words_of_a_template_keep_their_form),
        cmocka_unit_test(what_does_not_fit_is_refused),
        cmocka_unit_test(the_shell_reads_it_back),
        cmocka_unit_test(what_has_no_value_is_left_out),
        cmocka_unit_test(several_values_are_written_once_each),
        cmocka_unit_test(brackets_of_the_shell_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
