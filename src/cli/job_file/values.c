/* values.c: see values.h. */
#include "cli/job_file/values.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define DIGITS "0123456789"
#define LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

bool job_is_absent(const job_node *value)
{
    static const char *const words[] = {"", "~", "null", "Null", "NULL"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (value->kind == JOB_WORD && value->plain && strcmp(value->text, words[i]) == 0)
            return true;
    }
    return false;
}

const char *job_kind_name(const job_node *value)
{
    static const char *const names[] = {"a word", "a list", "a block of keys"};
    return job_is_absent(value) ? "nothing" : names[value->kind];
}

/* One thing may be said in two places: workers in the framework's block, or outside. */
static bool is_first(job_complaints *complaints, const char *name, job_place already, job_place now)
{
    if (already.line == 0)
        return true;
    job_complain(complaints, now, "'%.60s' is already given at %d:%d", name, already.line,
                 already.column);
    return false;
}

bool job_take_text(job_complaints *complaints, const char *name, const job_node *value,
                   job_text *target)
{
    if (value->kind != JOB_WORD || job_is_absent(value)) {
        job_complain(complaints, value->at, "%.60s must be a text, not %s", name,
                     job_kind_name(value));
        return false;
    }
    if (!is_first(complaints, name, target->at, value->at))
        return false;
    *target = (job_text){value->text, value->at};
    return true;
}

static bool parse_number(const char *text, int64_t *number)
{
    const size_t digits = strspn(text, DIGITS);
    if (digits == 0 || text[digits] != '\0' || (text[0] == '0' && digits > 1))
        return false;
    errno = 0;
    *number = strtoll(text, NULL, 10);
    return errno == 0;
}

bool job_take_number(job_complaints *complaints, const char *name, const job_node *value,
                     job_number *target, int64_t min, int64_t max)
{
    int64_t number = 0;
    if (value->kind != JOB_WORD || job_is_absent(value)) {
        job_complain(complaints, value->at, "%s must be a whole number, not %s", name,
                     job_kind_name(value));
        return false;
    }
    if (!value->plain || !parse_number(value->text, &number) || number < min || number > max) {
        const char *quote = value->plain ? "" : "\"";
        job_complain(complaints, value->at,
                     "%s must be a whole number from %lld to %lld, not %s%.60s%s", name,
                     (long long)min, (long long)max, quote, value->text, quote);
        return false;
    }
    if (!is_first(complaints, name, target->at, value->at))
        return false;
    *target = (job_number){number, value->at};
    return true;
}

/* The colon before the slots; NULL: none. An address with colons stands in brackets then. */
static const char *slots_colon(const char *text)
{
    const char *last = strrchr(text, ':');
    if (last == NULL || strchr(text, ':') == last)
        return last;
    return last[-1] == ']' ? last : NULL;
}

/* A name without the brackets of an address. */
static const char *copy_name(job_tree *tree, const char *start, size_t length)
{
    if (length > 2 && start[0] == '[' && start[length - 1] == ']') {
        start++;
        length -= 2;
    }
    return job_tree_text(tree, "%.*s", (int)length, start);
}

bool job_take_host(job_complaints *complaints, job_tree *tree, const job_node *value,
                   job_host *target)
{
    job_text whole = {0};
    if (!job_take_text(complaints, "a host", value, &whole))
        return false;
    const char *colon = slots_colon(whole.text);
    const size_t length = colon != NULL ? (size_t)(colon - whole.text) : strlen(whole.text);
    const char *name = copy_name(tree, whole.text, length);
    int64_t slots = 0;
    if (!job_is_host(name) || (colon != NULL && (!parse_number(colon + 1, &slots) || slots < 1 ||
                                                 slots > JOB_PROCESSES_MAX))) {
        job_complain(complaints, value->at, "'%.60s' is no host; write NAME or NAME:SLOTS",
                     whole.text);
        return false;
    }
    target->name = (job_text){name, value->at};
    if (colon != NULL)
        target->slots = (job_number){slots, value->at};
    return true;
}

void *job_take_list(job_complaints *complaints, job_tree *tree, const char *name,
                    const job_node *value, size_t max, size_t item_bytes)
{
    if (value->kind != JOB_LIST) {
        job_complain(complaints, value->at, "%s must be a list, not %s", name,
                     job_kind_name(value));
        return NULL;
    }
    const size_t count = job_node_count(value);
    if (count == 0 || count > max) {
        job_complain(complaints, value->at, "%s must have 1 to %zu entries, not %zu", name, max,
                     count);
        return NULL;
    }
    return job_tree_take(tree, count * item_bytes);
}

static bool consists_of(const char *text, const char *first, const char *rest)
{
    return text[0] != '\0' && strchr(first, text[0]) != NULL &&
           text[1 + strspn(text + 1, rest)] == '\0';
}

bool job_is_version(const char *text)
{
    return consists_of(text, DIGITS, DIGITS LETTERS ".!+_-");
}

bool job_is_python(const char *text)
{
    return text[0] == '/' || consists_of(text, DIGITS, DIGITS ".");
}

bool job_is_host(const char *text)
{
    return consists_of(text, DIGITS LETTERS "_:", DIGITS LETTERS "_.:%@-");
}

bool job_is_variable(const char *text)
{
    return consists_of(text, LETTERS "_", DIGITS LETTERS "_");
}
