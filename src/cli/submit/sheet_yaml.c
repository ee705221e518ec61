/* sheet_yaml.c: templates of YAML: libyaml reads one into a tree, and writes what is filled in. See sheet.h. */
#include "cli/launch/bytes.h"
#include "cli/submit/hole.h"
#include "cli/submit/submit.h"

#include <stdint.h>
#include <string.h>
#include <yaml.h>

#define WIDTH_ANY (-1) /* lines are not folded */

typedef struct sheet {
    yaml_document_t *document; /* of the template */
    yaml_emitter_t emitter;
    const sheet_field *fields;
    size_t row; /* of fields with several values */
} sheet;

static bool write_node(sheet *s, int index);

/* ---- What remains ------------------------------------------------------------------------------ */

/* How often an item or a pair is written. Lists inside are about their own items. */
static size_t rows_of(const sheet *s, int index)
{
    const yaml_node_t *node = yaml_document_get_node(s->document, index);
    size_t rows = HOLE_NO_ROWS;
    if (node->type == YAML_SCALAR_NODE)
        return hole_rows((const char *)node->data.scalar.value, node->data.scalar.length,
                         s->fields);
    if (node->type != YAML_MAPPING_NODE)
        return rows;
    for (const yaml_node_pair_t *p = node->data.mapping.pairs.start;
         p < node->data.mapping.pairs.top; p++) {
        const size_t here =
            rows_of(s, p->key) == HOLE_NO_ROWS ? rows_of(s, p->value) : HOLE_NO_ROWS;
        rows = here < rows ? here : rows;
    }
    return rows;
}

static bool remains(sheet *s, int index);

/* Whether something is written of what has to be written `rows` times; `other`: -1, or what goes with it. */
static bool some_remains(sheet *s, size_t rows, int index, int other)
{
    const size_t before = s->row;
    bool some = false;
    for (size_t i = 0; !some && (rows == HOLE_NO_ROWS ? i == 0 : i < rows); i++) {
        s->row = rows == HOLE_NO_ROWS ? before : i;
        some = remains(s, index) && (other < 0 || remains(s, other));
    }
    s->row = before;
    return some;
}

static bool remains(sheet *s, int index)
{
    const yaml_node_t *node = yaml_document_get_node(s->document, index);
    if (node->type == YAML_SCALAR_NODE)
        return hole_all_filled((const char *)node->data.scalar.value, node->data.scalar.length,
                               s->fields, s->row);
    if (node->type == YAML_SEQUENCE_NODE) {
        const yaml_node_item_t *i = node->data.sequence.items.start,
                               *end = node->data.sequence.items.top;
        bool some = i == end;
        for (; !some && i < end; i++)
            some = some_remains(s, rows_of(s, *i), *i, -1);
        return some;
    }
    const yaml_node_pair_t *p = node->data.mapping.pairs.start, *end = node->data.mapping.pairs.top;
    bool some = p == end;
    for (; !some && p < end; p++)
        some = some_remains(s, rows_of(s, p->key), p->key, p->value);
    return some;
}

/* ---- Writing ----------------------------------------------------------------------------------- */

static bool emit(sheet *s, yaml_event_t *event)
{
    return yaml_emitter_emit(&s->emitter, event) != 0 ||
           submit_complain("libyaml cannot write: %s", s->emitter.problem);
}

static bool is_number(const char *text)
{
    return *text != '\0' && text[strspn(text, "0123456789")] == '\0';
}

/* False: complained. */
static bool fill(const sheet *s, const char *text, size_t length, bool text_wanted, bytes *to)
{
    const char *const end = text + length;
    for (hole h; (h = hole_find(text, (size_t)(end - text), s->fields)).at != NULL;) {
        const char *value = hole_value(&h, s->row);
        if (!text_wanted && !is_number(value))
            return submit_complain(
                "a defect of ours: %.*s stands without quotes in a template, and is no number",
                (int)h.length, h.at);
        bytes_add(to, text, (size_t)(h.at - text));
        bytes_add_text(to, value);
        text = h.at + h.length;
    }
    bytes_add(to, text, (size_t)(end - text));
    return true;
}

/* Words of the template keep their form. Lines of a value are shown as lines, where libyaml can. */
static bool write_scalar(sheet *s, const yaml_node_t *node)
{
    const char *text = (const char *)node->data.scalar.value;
    const size_t length = node->data.scalar.length;
    yaml_scalar_style_t style = node->data.scalar.style;
    const bool plain = style == YAML_PLAIN_SCALAR_STYLE;
    bytes filled = {0};
    if (!fill(s, text, length, !plain, &filled)) {
        bytes_free(&filled);
        return false;
    }
    const char *value = bytes_used(&filled) > 0 ? bytes_first(&filled) : "";
    if (!plain && memchr(value, '\n', bytes_used(&filled)) != NULL)
        style = YAML_LITERAL_SCALAR_STYLE;
    yaml_event_t event;
    const bool good =
        yaml_scalar_event_initialize(&event, NULL, NULL, (const yaml_char_t *)value,
                                     (int)bytes_used(&filled), plain, true, style) != 0
            ? emit(s, &event)
            : submit_complain("'%.*s' cannot stand in a YAML file, which is UTF-8 alone",
                              (int)bytes_used(&filled), value);
    bytes_free(&filled);
    return good;
}

/* Once, or once for each row; leaves out what lacks a value. */
static bool write_entry(sheet *s, size_t rows, int index, int other)
{
    const size_t before = s->row;
    bool good = true;
    for (size_t i = 0; good && (rows == HOLE_NO_ROWS ? i == 0 : i < rows); i++) {
        s->row = rows == HOLE_NO_ROWS ? before : i;
        if (remains(s, index) && (other < 0 || remains(s, other)))
            good = write_node(s, index) && (other < 0 || write_node(s, other));
    }
    s->row = before;
    return good;
}

static bool write_sequence(sheet *s, const yaml_node_t *node)
{
    yaml_event_t event;
    bool good = yaml_sequence_start_event_initialize(&event, NULL, NULL, true,
                                                     node->data.sequence.style) != 0 &&
                emit(s, &event);
    for (const yaml_node_item_t *i = node->data.sequence.items.start;
         good && i < node->data.sequence.items.top; i++)
        good = write_entry(s, rows_of(s, *i), *i, -1);
    return good && yaml_sequence_end_event_initialize(&event) != 0 && emit(s, &event);
}

static bool write_mapping(sheet *s, const yaml_node_t *node)
{
    yaml_event_t event;
    bool good = yaml_mapping_start_event_initialize(&event, NULL, NULL, true,
                                                    node->data.mapping.style) != 0 &&
                emit(s, &event);
    for (const yaml_node_pair_t *p = node->data.mapping.pairs.start;
         good && p < node->data.mapping.pairs.top; p++)
        good = write_entry(s, rows_of(s, p->key), p->key, p->value);
    return good && yaml_mapping_end_event_initialize(&event) != 0 && emit(s, &event);
}

static bool write_node(sheet *s, int index)
{
    const yaml_node_t *node = yaml_document_get_node(s->document, index);
    return node->type == YAML_SCALAR_NODE     ? write_scalar(s, node)
           : node->type == YAML_SEQUENCE_NODE ? write_sequence(s, node)
                                              : write_mapping(s, node);
}

static bool write_document(sheet *s, yaml_document_t *document)
{
    yaml_event_t event;
    s->document = document;
    return yaml_document_start_event_initialize(&event, NULL, NULL, NULL, true) != 0 &&
           emit(s, &event) && write_node(s, 1) && /* the root of a document is its first node */
           yaml_document_end_event_initialize(&event, true) != 0 && emit(s, &event);
}

/* One document after the other. */
static bool write_all(sheet *s, yaml_parser_t *parser)
{
    yaml_event_t event;
    bool good =
        yaml_stream_start_event_initialize(&event, YAML_UTF8_ENCODING) != 0 && emit(s, &event);
    for (bool more = true; good && more;) {
        yaml_document_t document;
        if (yaml_parser_load(parser, &document) == 0)
            return submit_complain("a defect of ours: line %zu of a template: %s",
                                   parser->problem_mark.line + 1, parser->problem);
        more = yaml_document_get_root_node(&document) != NULL;
        good = !more || write_document(s, &document);
        yaml_document_delete(&document);
    }
    return good && yaml_stream_end_event_initialize(&event) != 0 && emit(s, &event);
}

bool sheet_write_yaml(FILE *to, const char *template, const sheet_field *fields)
{
    yaml_parser_t parser;
    sheet s = {.fields = fields};
    if (!hole_all_known(template, fields))
        return false;
    if (yaml_parser_initialize(&parser) == 0)
        return submit_complain("out of memory");
    if (yaml_emitter_initialize(&s.emitter) == 0) {
        yaml_parser_delete(&parser);
        return submit_complain("out of memory");
    }
    yaml_parser_set_input_string(&parser, (const yaml_char_t *)template, strlen(template));
    yaml_emitter_set_output_file(&s.emitter, to);
    yaml_emitter_set_unicode(&s.emitter, true);
    yaml_emitter_set_width(&s.emitter, WIDTH_ANY);
    const bool good = write_all(&s, &parser);
    yaml_emitter_delete(&s.emitter);
    yaml_parser_delete(&parser);
    return good;
}
