/* heap_test.c: the heap of rueda_alloc: its blocks never overlap and always cover it. */
#include "memory/heap.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define HEAP_BYTES (1 * MIB)

typedef struct fixture {
    segment segment;
    heap heap;
} fixture;

static int open_heap(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    config settings;
    assert_int_equal(config_load(&settings, NULL), RUEDA_OK);
    settings.heap_max = HEAP_BYTES;
    settings.slot_bytes = 4 * KIB;
    assert_int_equal(segment_create(&f->segment, &settings, 2, 1), RUEDA_OK);
    assert_int_equal(heap_init(&f->heap, &f->segment, 1), RUEDA_OK);
    *state = f;
    return 0;
}

static int close_heap(void **state)
{
    fixture *f = *state;
    heap_fini(&f->heap);
    segment_close(&f->segment);
    free(f);
    return 0;
}

/* The invariant of heap.h. */
static void check_blocks(const heap *h)
{
    uint64_t end = 0;
    for (size_t i = 0; i < h->count; i++) {
        assert_int_equal(h->blocks[i].offset, end);
        assert_true(h->blocks[i].bytes > 0);
        assert_false(i > 0 && !h->blocks[i].used && !h->blocks[i - 1].used);
        end += h->blocks[i].bytes;
    }
    assert_int_equal(end, h->bytes);
}

static void used_blocks_outlive_the_segment(void **state)
{
    fixture *f = *state;
    heap_leftovers *left = NULL;
    uint8_t *blocks[3];
    const size_t sizes[3] = {10, 3 * OS_PAGE, 100};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(heap_alloc(&f->heap, sizes[i], (void **)&blocks[i]), RUEDA_OK);
        memset(blocks[i], 7 + i, sizes[i]);
    }
    assert_int_equal(heap_free(&f->heap, blocks[0]), RUEDA_OK);
    heap_leave(&f->heap, &f->segment, &left);
    for (int i = 1; i < 3; i++)
        for (size_t at = 0; at < sizes[i]; at++)
            assert_int_equal(blocks[i][at]++, 7 + i);
    assert_false(heap_free_leftover(&left, blocks[0]));
    assert_true(heap_free_leftover(&left, blocks[1]));
    assert_false(heap_free_leftover(&left, blocks[1]));
    assert_int_equal(blocks[2][99], 10);
    assert_true(heap_free_leftover(&left, blocks[2]));
    assert_null(left);
}

static uint32_t random_state = 4711;
static uint32_t next_random(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 17;
    random_state ^= random_state << 5;
    return random_state;
}

typedef struct piece {
    uint8_t *memory;
    size_t bytes;
    uint8_t fill;
} piece;

static void check_piece(const piece *p, uint8_t value)
{
    for (size_t i = 0; i < p->bytes; i++)
        assert_int_equal(p->memory[i], value);
}

/* Random allocations and frees: zeroed, aligned, inside, and nobody writes into another's block. */
static void blocks_never_overlap(void **state)
{
    enum { PIECES = 40 };
    heap *h = &((fixture *)*state)->heap;
    piece pieces[PIECES] = {{0}};
    for (int i = 0; i < 3000; i++) {
        piece *p = &pieces[next_random() % PIECES];
        if (p->memory != NULL) {
            check_piece(p, p->fill);
            assert_int_equal(heap_free(h, p->memory), RUEDA_OK);
            p->memory = NULL;
        } else {
            void *memory;
            p->bytes = next_random() % (next_random() % 5 == 0 ? 200000 : 3000);
            if (heap_alloc(h, p->bytes, &memory) != RUEDA_OK)
                continue;
            p->memory = memory;
            p->fill = (uint8_t)(1 + next_random() % 255);
            assert_int_equal((uintptr_t)memory % OS_CACHE_LINE, 0);
            assert_true(heap_contains(h, memory, p->bytes));
            check_piece(p, 0);
            memset(memory, p->fill, p->bytes);
        }
        check_blocks(h);
    }
    for (int i = 0; i < PIECES; i++)
        if (pieces[i].memory != NULL)
            assert_int_equal(heap_free(h, pieces[i].memory), RUEDA_OK);
    assert_int_equal(h->count, 1);
    check_blocks(h);
}

static void a_full_heap_says_so(void **state)
{
    heap *h = &((fixture *)*state)->heap;
    void *memory = NULL;
    assert_int_equal(heap_alloc(h, HEAP_BYTES + 1, &memory), RUEDA_ERR_MEMORY);
    assert_int_equal(heap_alloc(h, SIZE_MAX, &memory), RUEDA_ERR_MEMORY);
    assert_non_null(strstr(status_text(), "RUEDA_HEAP_MAX"));
    assert_null(memory);
    int count = 0;
    while (heap_alloc(h, 100000, &memory) == RUEDA_OK)
        count++;
    assert_int_equal(count, HEAP_BYTES / 100032);
    check_blocks(h);
}

static void only_starts_of_blocks_can_be_freed(void **state)
{
    heap *h = &((fixture *)*state)->heap;
    void *memory;
    int elsewhere;
    assert_int_equal(heap_alloc(h, 1000, &memory), RUEDA_OK);
    assert_int_equal(heap_free(h, (uint8_t *)memory + 64), RUEDA_ERR_ARGUMENT);
    assert_int_equal(heap_free(h, &elsewhere), RUEDA_ERR_ARGUMENT);
    assert_int_equal(heap_free(h, memory), RUEDA_OK);
    assert_int_equal(heap_free(h, memory), RUEDA_ERR_ARGUMENT); /* twice */
}

static void contains_knows_the_bounds(void **state)
{
    const heap *h = &((fixture *)*state)->heap;
    assert_true(heap_contains(h, h->base, HEAP_BYTES));
    assert_false(heap_contains(h, h->base, HEAP_BYTES + 1));
    assert_false(heap_contains(h, h->base - 1, 1));
    assert_true(heap_contains(h, h->base + HEAP_BYTES - 1, 1));
    assert_false(heap_contains(h, h->base + HEAP_BYTES - 1, 2));
    assert_false(heap_contains(h, h->base + HEAP_BYTES, 1));
    assert_false(heap_contains(h, h->base + 1, SIZE_MAX));
}

/* What a peer sees of the segment: a mapping of its own. */
static uint8_t *map_as_peer(const segment *s)
{
    void *base;
    assert_int_equal(os_shared_map(s->fd, s->header->bytes, &base), RUEDA_OK);
    return base;
}

static void peers_cannot_reach_what_is_detached(void **state)
{
    fixture *f = *state;
    uint8_t *blocks[3], *peer = map_as_peer(&f->segment);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(heap_alloc(&f->heap, 3 * OS_PAGE, (void **)&blocks[i]), RUEDA_OK);
        memset(blocks[i], 10 + i, 3 * OS_PAGE);
    }
    /* neighbours share a page, in any order, one lies in the other, one is empty */
    heap_range ranges[] = {
        {blocks[1], 3 * OS_PAGE}, {blocks[0], 3 * OS_PAGE}, {blocks[0] + 100, 50}, {blocks[2], 0}};
    assert_int_equal(heap_detach(&f->heap, ranges, 4), RUEDA_OK);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(blocks[i][0], 10 + i); /* they keep what they had */
        memset(peer + (blocks[i] - f->segment.base), 99, 3 * OS_PAGE);
    }
    for (int b = 0; b < 3 * OS_PAGE; b++) {
        assert_int_equal(blocks[0][b], 10);
        assert_int_equal(blocks[1][b], 11);
    }
    assert_int_equal(blocks[2][3 * OS_PAGE - 1], 99); /* the last is still shared */
    memset(blocks[0], 5, 3 * OS_PAGE);
    assert_int_equal(peer[blocks[0] - f->segment.base + OS_PAGE], 99);
    assert_int_equal(heap_free(&f->heap, blocks[0]), RUEDA_OK);
    assert_int_equal(heap_alloc(&f->heap, 3 * OS_PAGE, (void **)&blocks[0]), RUEDA_OK);
    assert_int_equal(blocks[0][OS_PAGE], 0);
    os_unmap(peer, f->segment.header->bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(blocks_never_overlap, open_heap, close_heap),
        cmocka_unit_test_setup_teardown(a_full_heap_says_so, open_heap, close_heap),
        cmocka_unit_test_setup_teardown(only_starts_of_blocks_can_be_freed, open_heap, close_heap),
        cmocka_unit_test_setup_teardown(contains_knows_the_bounds, open_heap, close_heap),
        cmocka_unit_test_setup_teardown(peers_cannot_reach_what_is_detached, open_heap, close_heap),
        cmocka_unit_test_setup_teardown(used_blocks_outlive_the_segment, open_heap, close_heap),
    };
    return cmocka_run_group_tests_name("heap", tests, NULL, NULL);
}
