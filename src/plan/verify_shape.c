/* verify_shape.c: expressions by number. A new number is made only for an expression that has none,
 * so equality of expressions is equality of numbers. */
#include "plan/verify.h"

#include <stdlib.h>
#include <string.h>

#define BUCKETS 4096u

bool shapes_make(shape_table *t)
{
    *t = (shape_table){.count = 1, .capacity = 1024};
    t->nodes = calloc(t->capacity, sizeof *t->nodes);
    t->buckets = calloc(BUCKETS, sizeof *t->buckets);
    return t->nodes && t->buckets;
}

void shapes_free(shape_table *t)
{
    free(t->nodes);
    free(t->buckets);
}

static uint32_t bucket_of(uint32_t kind, uint32_t x, uint32_t y)
{
    uint64_t mixed = ((uint64_t)x << 32 | y) * 0x9E3779B97F4A7C15u + kind * 0x85EBCA6Bu;
    return (uint32_t)(mixed >> 40) % BUCKETS;
}

static uint32_t add_node(shape_table *t, uint32_t kind, uint32_t x, uint32_t y, uint32_t *bucket)
{
    if (t->count == t->capacity) {
        shape_node *larger = realloc(t->nodes, 2 * (size_t)t->capacity * sizeof *larger);
        if (!larger) {
            t->no_memory = true;
            return 0;
        }
        t->nodes = larger;
        t->capacity *= 2;
    }
    t->nodes[t->count] = (shape_node){.kind = kind, .x = x, .y = y, .next = *bucket};
    *bucket = t->count;
    return t->count++;
}

static uint32_t find_or_add(shape_table *t, uint32_t kind, uint32_t x, uint32_t y)
{
    uint32_t *bucket = &t->buckets[bucket_of(kind, x, y)];
    for (uint32_t i = *bucket; i; i = t->nodes[i].next)
        if (t->nodes[i].kind == kind && t->nodes[i].x == x && t->nodes[i].y == y)
            return i;
    return add_node(t, kind, x, y, bucket);
}

uint32_t shape_of(shape_table *t, shape_kind kind, uint32_t x, uint32_t y)
{
    bool two = kind == SHAPE_REDUCED || kind == SHAPE_ADASUM;
    if (!x || (two && !y))
        return 0;
    if (kind == SHAPE_REDUCED && x > y)
        return find_or_add(t, kind, y, x);
    return find_or_add(t, kind, x, two ? y : 0);
}

uint32_t shape_leaf(shape_table *t, unsigned rank)
{
    return find_or_add(t, SHAPE_LEAF, rank, 0);
}

uint32_t shape_contribution(shape_table *t, const plan_layout *layout, unsigned rank)
{
    uint32_t leaf = shape_leaf(t, rank);
    return layout->prescaled ? shape_of(t, SHAPE_PRE, leaf, 0) : leaf;
}

uint32_t shape_tree(shape_table *t, const plan_layout *layout, unsigned first, unsigned end)
{
    unsigned half = 1;
    if (end - first == 1)
        return shape_contribution(t, layout, first);
    while (2 * half < end - first)
        half *= 2;
    uint32_t lower = shape_tree(t, layout, first, first + half);
    uint32_t upper = shape_tree(t, layout, first + half, end);
    return shape_of(t, SHAPE_ADASUM, lower, upper);
}

/* Counts contributions in `seen`; false when one comes twice, or something else is in the way. */
static bool count_leaves(shape_table *t, const plan_layout *layout, uint32_t shape, uint8_t *seen)
{
    while (t->nodes[shape].kind == SHAPE_REDUCED) {
        if (!count_leaves(t, layout, t->nodes[shape].x, seen))
            return false;
        shape = t->nodes[shape].y;
    }
    const shape_node *node = &t->nodes[shape];
    if (layout->prescaled && node->kind == SHAPE_PRE)
        node = &t->nodes[node->x];
    else if (layout->prescaled)
        return false;
    return node->kind == SHAPE_LEAF && !seen[node->x]++;
}

bool shape_is_whole(shape_table *t, const plan_layout *layout, uint32_t shape, uint8_t *seen)
{
    if (!shape || t->nodes[shape].kind != SHAPE_POST)
        return false;
    if (t->nodes[shape].each_once)
        return true;
    memset(seen, 0, layout->ranks);
    if (!count_leaves(t, layout, t->nodes[shape].x, seen))
        return false;
    for (unsigned q = 0; q < layout->ranks; q++)
        if (!seen[q])
            return false;
    t->nodes[shape].each_once = true;
    return true;
}
