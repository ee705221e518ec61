/* options_file.c: sections of a file become options: "timeline: {mark_cycles: true}" is
 * --timeline-mark-cycles, "params: {cache_capacity: 2048}" is --cache-capacity=2048. Which options there are,
 * and what they may be, the command line knows. */
#include "cli/job_file/options_file.h"

#include "cli/job_file/read.h"
#include "cli/job_file/tree.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* What stands before the keys of a section, and the options that its `enabled` switches. */
static const struct {
    const char *name, *prefix, *enabled, *disabled;
} sections[] = {
    {"params", "", NULL, NULL},
    {"library_options", "", NULL, NULL},
    {"autotune", "autotune-", "autotune", NULL},
    {"timeline", "timeline-", NULL, NULL},
    {"stall_check", "stall-check-", NULL, "no-stall-check"},
    {"logging", "log-", NULL, NULL},
};
#define SECTIONS (sizeof sections / sizeof sections[0])

typedef struct reading {
    options_file *file;
    job_complaints complaints;
} reading;

static bool is_one_of(const job_node *node, const char *a, const char *b)
{
    return node->kind == JOB_WORD && node->plain &&
           (strcasecmp(node->text, a) == 0 || strcasecmp(node->text, b) == 0);
}

/* The option of this name; `value` NULL: a flag. Keys are written with _ or -. */
static void add(reading *r, job_place at, const char *prefix, const char *key, const char *value)
{
    if (r->file->count == OPTIONS_FILE_MAX) {
        job_complain(&r->complaints, at, "more than %d options", OPTIONS_FILE_MAX);
        return;
    }
    char **word = &r->file->words[r->file->count];
    if (asprintf(word, "--%s%s%s%s", prefix, key, value != NULL ? "=" : "",
                 value != NULL ? value : "") < 0)
        abort();
    for (char *c = *word + 2; *c != '\0' && *c != '='; c++)
        *c = *c == '_' ? '-' : *c;
    r->file->count++;
}

static void read_key(reading *r, size_t section, const job_node *key, const job_node *value)
{
    if (value->kind != JOB_WORD) {
        job_complain(&r->complaints, value->at, "%s.%s: one word or number goes here",
                     sections[section].name, key->text);
        return;
    }
    const bool off = is_one_of(value, "false", "no"), on = is_one_of(value, "true", "yes");
    if (strcmp(key->text, "enabled") == 0) {
        const char *option = off ? sections[section].disabled : sections[section].enabled;
        if (option != NULL)
            add(r, key->at, "", option, NULL);
    } else if (!off && !is_one_of(value, "null", "~")) {
        add(r, key->at, sections[section].prefix, key->text, on ? NULL : value->text);
    }
}

static bool is_switched_off(const job_node *map)
{
    for (const job_node *key = map->first; key != NULL; key = key->next->next) {
        if (key->kind == JOB_WORD && strcmp(key->text, "enabled") == 0 &&
            is_one_of(key->next, "false", "no"))
            return true;
    }
    return false;
}

static void read_section(reading *r, const job_node *name, const job_node *value)
{
    size_t i = 0;
    while (i < SECTIONS && strcmp(sections[i].name, name->text) != 0)
        i++;
    if (i == SECTIONS || value->kind != JOB_MAP) {
        job_complain(&r->complaints, name->at, "%s: %s", name->text,
                     i == SECTIONS ? "there is no such section; there are controller, params, "
                                     "autotune, timeline, stall_check, library_options, logging"
                                   : "a section holds key: value");
        return;
    }
    const bool off = is_switched_off(value);
    for (const job_node *key = value->first; key != NULL; key = key->next->next) {
        if (key->kind == JOB_WORD && (!off || strcmp(key->text, "enabled") == 0))
            read_key(r, i, key, key->next);
    }
}

static void read_root(reading *r, const job_node *root)
{
    if (root->kind != JOB_MAP) {
        job_complain(&r->complaints, root->at, "sections of options go here, as params:");
        return;
    }
    for (const job_node *name = root->first; name != NULL; name = name->next->next) {
        if (name->kind != JOB_WORD)
            job_complain(&r->complaints, name->at, "the name of a section goes here");
        else if (strcmp(name->text, "controller") == 0 && name->next->kind == JOB_WORD)
            add(r, name->at, "", name->next->text, NULL);
        else
            read_section(r, name, name->next);
    }
}

bool options_file_read(options_file *file, const char *path)
{
    reading r = {.file = file};
    size_t bytes = 0;
    file->count = 0;
    char *text = job_read_whole(path, &bytes);
    if (text == NULL) {
        job_complain(&r.complaints, (job_place){0}, "cannot be read: %s", strerror(errno));
    } else {
        job_tree tree = job_tree_read(text, bytes, &r.complaints);
        if (tree.root != NULL)
            read_root(&r, tree.root);
        job_tree_free(&tree);
    }
    free(text);
    job_complaints_print(&r.complaints, path, stderr);
    return r.complaints.count == 0;
}

void options_file_free(options_file *file)
{
    for (size_t i = 0; i < file->count; i++)
        free(file->words[i]);
    file->count = 0;
}
