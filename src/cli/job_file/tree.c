/* tree.c: builds the tree from libyaml's events. */
#include "cli/job_file/tree.h"

#include "cli/job_file/syntax.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

/* ---- Memory: chunks that are freed together ---------------------------------------------------- */

#define CHUNK_BYTES 16384

typedef struct job_memory {
    struct job_memory *older;
    size_t used, size;
    max_align_t data[];
} job_memory;

static _Noreturn void end_without_memory(void)
{
    fputs("rueda: out of memory\n", stderr);
    exit(EXIT_FAILURE);
}

static void *take_memory(job_memory **memory, size_t bytes)
{
    bytes = (bytes + sizeof(max_align_t) - 1) / sizeof(max_align_t) * sizeof(max_align_t);
    job_memory *m = *memory;
    if (m == NULL || m->size - m->used < bytes) {
        const size_t size = bytes > CHUNK_BYTES ? bytes : CHUNK_BYTES;
        m = malloc(sizeof *m + size);
        if (m == NULL)
            end_without_memory();
        *m = (job_memory){.older = *memory, .size = size};
        *memory = m;
    }
    void *taken = (char *)m->data + m->used;
    m->used += bytes;
    return memset(taken, 0, bytes);
}

void *job_tree_take(job_tree *tree, size_t bytes)
{
    return take_memory(&tree->memory, bytes);
}

char *job_tree_text(job_tree *tree, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    char *text = job_tree_take(tree, (size_t)length + 1);
    va_start(args, format);
    vsnprintf(text, (size_t)length + 1, format, args);
    va_end(args);
    return text;
}

void job_tree_free(job_tree *tree)
{
    while (tree->memory != NULL) {
        job_memory *older = tree->memory->older;
        free(tree->memory);
        tree->memory = older;
    }
    tree->root = NULL;
}

/* ---- Building ---------------------------------------------------------------------------------- */

typedef struct level {
    job_node *node; /* a list or map that is still open */
    job_node *last; /* its newest child */
    int children;
} level;

typedef struct anchor {
    const char *name;
    const job_node *node;
    bool open; /* its list or map has no end yet */
} anchor;

typedef struct builder {
    job_tree tree;
    job_complaints *complaints;
    level levels[JOB_DEPTH_MAX];
    int depth;
    anchor anchors[JOB_ANCHORS_MAX];
    int anchor_count;
    int documents;
} builder;

static job_place place_of(yaml_mark_t mark)
{
    return (job_place){(int)mark.line + 1, (int)mark.column + 1};
}

/* Complains; false, as every step of the builder that stops it. */
#define STOP(b, at, ...) (job_complain((b)->complaints, at, __VA_ARGS__), false)

static char *copy_text(builder *b, const yaml_char_t *text, size_t length)
{
    return memcpy(take_memory(&b->tree.memory, length + 1), text, length);
}

/* A second key of the same name is marked, so that its value is not complained about as well. */
static void mark_repeated(builder *b, const job_node *map, job_node *key)
{
    for (const job_node *k = map->first; k != key; k = k->next->next) {
        if (strcmp(k->text, key->text) != 0)
            continue;
        key->repeated = true;
        job_complain(b->complaints, key->at, "'%.60s' is already given at %d:%d", key->text,
                     k->at.line, k->at.column);
        return;
    }
}

/* Hangs a node under the open list or map. */
static bool attach(builder *b, job_node *node)
{
    if (b->depth == 0) {
        b->tree.root = node;
        return true;
    }
    level *top = &b->levels[b->depth - 1];
    if (top->last == NULL)
        top->node->first = node;
    else
        top->last->next = node;
    top->last = node;
    top->children++;
    if (top->node->kind != JOB_MAP || top->children % 2 == 0)
        return true;
    if (node->kind != JOB_WORD)
        return STOP(b, node->at, "a key must be a word");
    if (top->children > 2 * JOB_ENTRIES_MAX)
        return STOP(b, node->at, "more than %d keys in one block", JOB_ENTRIES_MAX);
    mark_repeated(b, top->node, node);
    return true;
}

static bool remember_anchor(builder *b, const job_node *node, const yaml_char_t *name)
{
    if (name == NULL)
        return true;
    if (b->anchor_count == JOB_ANCHORS_MAX)
        return STOP(b, node->at, "more than %d anchors", JOB_ANCHORS_MAX);
    const char *copy = copy_text(b, name, strlen((const char *)name));
    b->anchors[b->anchor_count++] = (anchor){copy, node, node->kind != JOB_WORD};
    return true;
}

static job_node *new_node(builder *b, job_kind kind, const yaml_event_t *event)
{
    job_node *node = take_memory(&b->tree.memory, sizeof *node);
    node->kind = kind;
    node->at = place_of(event->start_mark);
    return node;
}

static bool refuse_tag(builder *b, job_place at, const yaml_char_t *tag)
{
    return tag == NULL ||
           STOP(b, at, "a job file needs no tags; remove '%.60s'", (const char *)tag);
}

static bool take_word(builder *b, const yaml_event_t *event)
{
    job_node *node = new_node(b, JOB_WORD, event);
    const char *bytes = (const char *)event->data.scalar.value;
    const size_t length = event->data.scalar.length;
    if (memchr(bytes, '\0', length) != NULL)
        return STOP(b, node->at, "a zero byte inside a text");
    node->text = copy_text(b, event->data.scalar.value, length);
    node->plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    return refuse_tag(b, node->at, event->data.scalar.tag) &&
           remember_anchor(b, node, event->data.scalar.anchor) && attach(b, node);
}

static bool open_level(builder *b, job_kind kind, const yaml_event_t *event,
                       const yaml_char_t *anchor_name, const yaml_char_t *tag)
{
    job_node *node = new_node(b, kind, event);
    if (b->depth == JOB_DEPTH_MAX)
        return STOP(b, node->at, "nested deeper than %d levels", JOB_DEPTH_MAX);
    if (!refuse_tag(b, node->at, tag) || !remember_anchor(b, node, anchor_name) || !attach(b, node))
        return false;
    b->levels[b->depth++] = (level){.node = node};
    return true;
}

static bool close_level(builder *b)
{
    const job_node *node = b->levels[--b->depth].node;
    for (int i = 0; i < b->anchor_count; i++) {
        if (b->anchors[i].node == node)
            b->anchors[i].open = false;
    }
    return true;
}

/* A node of its own that shares the anchor's children. The newest anchor of a name counts. */
static bool take_alias(builder *b, const yaml_event_t *event)
{
    const char *name = (const char *)event->data.alias.anchor;
    const job_place at = place_of(event->start_mark);
    int i = b->anchor_count - 1;
    while (i >= 0 && strcmp(b->anchors[i].name, name) != 0)
        i--;
    if (i < 0)
        return STOP(b, at, "no anchor '&%.60s' stands before this alias", name);
    if (b->anchors[i].open)
        return STOP(b, at, "the alias '*%.60s' would contain itself", name);
    job_node *node = new_node(b, b->anchors[i].node->kind, event);
    *node = *b->anchors[i].node;
    node->at = at;
    node->next = NULL;
    return attach(b, node);
}

static bool take_event(builder *b, const yaml_event_t *event)
{
    switch (event->type) {
    case YAML_DOCUMENT_START_EVENT:
        return ++b->documents == 1 ||
               STOP(b, place_of(event->start_mark), "a second document; a job file holds one");
    case YAML_SCALAR_EVENT:
        return take_word(b, event);
    case YAML_ALIAS_EVENT:
        return take_alias(b, event);
    case YAML_SEQUENCE_START_EVENT:
        return open_level(b, JOB_LIST, event, event->data.sequence_start.anchor,
                          event->data.sequence_start.tag);
    case YAML_MAPPING_START_EVENT:
        return open_level(b, JOB_MAP, event, event->data.mapping_start.anchor,
                          event->data.mapping_start.tag);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        return close_level(b);
    default:
        return true;
    }
}

/* False: a complaint was made. */
static bool take_all(builder *b, yaml_parser_t *parser, const char *text, size_t bytes)
{
    for (bool at_end = false; !at_end;) {
        yaml_event_t event;
        if (!yaml_parser_parse(parser, &event)) {
            job_syntax_explain(parser, text, bytes, b->complaints);
            return false;
        }
        at_end = event.type == YAML_STREAM_END_EVENT;
        const bool went = take_event(b, &event);
        yaml_event_delete(&event);
        if (!went)
            return false;
    }
    return true;
}

job_tree job_tree_read(const char *text, size_t bytes, job_complaints *complaints)
{
    builder b = {.complaints = complaints};
    yaml_parser_t parser;
    if (bytes > JOB_BYTES_MAX) {
        job_complain(complaints, (job_place){0}, "larger than %d bytes, which no job file is",
                     JOB_BYTES_MAX);
        return b.tree;
    }
    if (!yaml_parser_initialize(&parser))
        end_without_memory();
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, bytes);
    if (!take_all(&b, &parser, text, bytes))
        b.tree.root = NULL;
    else if (b.tree.root == NULL)
        job_complain(complaints, (job_place){0}, "the file is empty; the least it needs is 'run:'");
    yaml_parser_delete(&parser);
    return b.tree;
}

size_t job_node_count(const job_node *node)
{
    size_t count = 0;
    for (const job_node *child = node->first; child != NULL; child = child->next)
        count++;
    return node->kind == JOB_MAP ? count / 2 : count;
}
