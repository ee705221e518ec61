/* fault.c: reads RUEDA_FAULT and lets it happen. */
#include "exec/fault.h"

#include <stddef.h>
#include <string.h>

#define DAY_MS 86400000
#define LETTERS_SHOWN 60 /* of what is not understood */

static const struct kind {
    const char *name;
    fault_kind kind;
    mesh_links links;
} KINDS[] = {{"kill", FAULT_KILL, MESH_ALL},     {"stop", FAULT_STOP, MESH_ALL},
             {"delay", FAULT_DELAY, MESH_ALL},   {"cut", FAULT_CUT, MESH_ALL},
             {"cut-data", FAULT_CUT, MESH_DATA}, {"cut-tree", FAULT_CUT, MESH_TREE}};

#define ANY_KIND UINT32_MAX

/* What a fault says, name=number or name=word, in any order. */
static const struct part {
    const char *name;
    uint32_t kinds; /* bits: those that say it */
    bool needed;
    uint64_t most;
    size_t offset; /* in struct fault */
} PARTS[] = {{"rank", ANY_KIND, true, 65535, offsetof(fault, rank)},
             {"set", ANY_KIND, false, RUEDA_MAX_SETS, offsetof(fault, set)},
             {"operation", ANY_KIND, false, UINT32_MAX, offsetof(fault, operation)},
             {"step", ANY_KIND, false, UINT32_MAX, offsetof(fault, step)},
             {"init", 1u << FAULT_KILL, false, BOOT_PHASE_JOINED, offsetof(fault, init)},
             {"ms", 1u << FAULT_DELAY, true, DAY_MS, offsetof(fault, ms)},
             {"peer", 1u << FAULT_CUT, true, 65535, offsetof(fault, peer)}};

#define KIND_COUNT (sizeof KINDS / sizeof *KINDS)
#define PART_COUNT (sizeof PARTS / sizeof *PARTS)

/* A stretch of the text, up to the next colon. */
typedef struct word {
    const char *start;
    size_t length;
} word;

static word next_word(const char **text)
{
    const word w = {*text, strcspn(*text, ":")};
    *text += w.length;
    return w;
}

static bool starts_with(word w, const char *text)
{
    return w.length >= strlen(text) && memcmp(w.start, text, strlen(text)) == 0;
}

static bool read_number(word w, uint64_t most, uint64_t *number)
{
    uint64_t value = 0;
    for (size_t i = 0; i < w.length; i++) {
        if (w.start[i] < '0' || w.start[i] > '9')
            return false;
        value = 10 * value + (uint64_t)(w.start[i] - '0');
        if (value > most)
            return false;
    }
    *number = value;
    return w.length > 0;
}

static bool read_kind(word w, fault *f)
{
    for (size_t i = 0; i < KIND_COUNT; i++) {
        if (w.length != strlen(KINDS[i].name) || !starts_with(w, KINDS[i].name))
            continue;
        f->kind = KINDS[i].kind;
        f->links = KINDS[i].links;
        return true;
    }
    return false;
}

/* Also notes in `given` which part it was; none comes twice. */
static bool read_part(word w, fault *f, bool given[PART_COUNT])
{
    for (size_t i = 0; i < PART_COUNT; i++) {
        const struct part *p = &PARTS[i];
        const size_t length = strlen(p->name);
        if ((p->kinds >> f->kind & 1) == 0 || given[i] || !starts_with(w, p->name) ||
            w.length == length || w.start[length] != '=')
            continue;
        given[i] = true;
        const word value = {w.start + length + 1, w.length - length - 1};
        if (p->offset == offsetof(fault, init)) {
            f->init = boot_phase_named(value.start, value.length);
            return f->init != BOOT_PHASE_NONE;
        }
        return read_number(value, p->most, (uint64_t *)((char *)f + p->offset));
    }
    return false;
}

static rueda_status refuse(word w, const char *why)
{
    const int shown = w.length < LETTERS_SHOWN ? (int)w.length : LETTERS_SHOWN;
    return status_fail(
        RUEDA_ERR_CONFIG,
        "RUEDA_FAULT: '%.*s' %s; write kill, stop, delay, cut, cut-data or cut-tree, "
        "then :rank=1 and if need be :set=0:operation=5:step=12, for delay :ms=50, "
        "for cut :peer=2, for kill instead of an operation :init=card",
        shown, w.start, why);
}

rueda_status fault_parse(const char *text, fault *f)
{
    fault read = {.kind = FAULT_NONE};
    bool given[PART_COUNT] = {false};
    const word whole = {text, strlen(text)};
    if (whole.length > 0) {
        const word kind = next_word(&text);
        if (!read_kind(kind, &read))
            return refuse(kind, "is no fault");
    }
    while (*text != '\0') {
        text++;
        const word w = next_word(&text);
        if (!read_part(w, &read, given))
            return refuse(w, "is not understood, is too large or comes twice");
    }
    for (size_t i = 0; i < PART_COUNT && read.kind != FAULT_NONE; i++) {
        if (PARTS[i].needed && (PARTS[i].kinds >> read.kind & 1) != 0 && !given[i])
            return refuse(whole, "does not say all");
    }
    *f = read;
    return RUEDA_OK;
}

void fault_before_step(fault *f, uint64_t step, const control *c)
{
    if (f->done || step != f->step)
        return;
    f->done = true;
    switch (f->kind) {
    case FAULT_NONE:
        break;
    case FAULT_KILL:
        world_die();
        break;
    case FAULT_STOP:
        world_stop();
        break;
    case FAULT_DELAY:
        world_rest(f->ms * 1000000);
        break;
    case FAULT_CUT:
        if (c->mesh != NULL)
            mesh_cut(c->mesh, (uint32_t)f->peer, f->links);
        break;
    }
}
