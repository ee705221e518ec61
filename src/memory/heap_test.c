/* heap_test.c: the heap of rueda_alloc: its blocks never overlap and always cover it. */
#include "base/config.h"
#include "base/dump_testing.h"
#include "memory/heap.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define HEAP_BYTES (1 * MIB)

static int open_heap(void **state)
{
    heap *h = malloc(sizeof *h);
    *h = (heap)HEAP_NONE;
    assert_int_equal(heap_open(h, HEAP_BYTES, 1), RUEDA_OK);
    *state = h;
    return 0;
}

/* Whatever the test has left in use. */
static int close_heap(void **state)
{
    heap *h = *state;
    for (size_t i = 0; i < h->count; i++) {
        if (h->blocks[i].used) {
            heap_free(h, h->base + h->blocks[i].offset);
            i = SIZE_MAX; /* from the beginning */
        }
    }
    heap_leave(h);
    assert_null(h->base);
    free(h);
    return 0;
}

/* The invariant of heap.h. */
static void check_blocks(const heap *h)
{
    uint64_t end = h->first;
    for (size_t i = 0; i < h->count; i++) {
        assert_int_equal(h->blocks[i].offset, end);
        assert_true(h->blocks[i].bytes > 0);
        assert_false(i > 0 && !h->blocks[i].used && !h->blocks[i - 1].used);
        end += h->blocks[i].bytes;
    }
    assert_int_equal(end, h->first + h->bytes);
    assert_true(end <= h->mapped_bytes);
}

static bool is_open(int fd)
{
    return fcntl(fd, F_GETFD) != -1;
}

/* What a peer sees of the heap: a mapping of its own. */
static uint8_t *map_as_peer(const heap *h)
{
    void *base;
    assert_int_equal(os_shared_map(h->fd, h->mapped_bytes, &base), RUEDA_OK);
    return base;
}

/* The next job has the same heap, and its peers see what was there before; without blocks nothing stays. */
static void used_blocks_outlive_the_job(void **state)
{
    heap *h = *state;
    uint8_t *blocks[3], *more;
    const size_t sizes[3] = {10, 3 * OS_PAGE, 100};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(heap_alloc(h, sizes[i], (void **)&blocks[i]), RUEDA_OK);
        memset(blocks[i], 7 + i, sizes[i]);
    }
    assert_int_equal(heap_free(h, blocks[0]), RUEDA_OK);
    uint8_t *const base = h->base;
    const int fd = h->fd;
    heap_leave(h);
    for (int i = 1; i < 3; i++)
        for (size_t at = 0; at < sizes[i]; at++)
            assert_int_equal(blocks[i][at]++, 7 + i);
    assert_int_equal(heap_open(h, 2 * HEAP_BYTES, 5), RUEDA_OK);
    assert_true(h->base == base && h->fd == fd && h->bytes == HEAP_BYTES);
    check_blocks(h);
    uint8_t *peer = map_as_peer(h);
    for (int i = 1; i < 3; i++)
        for (size_t at = 0; at < sizes[i]; at++)
            assert_int_equal(peer[blocks[i] - base + (ptrdiff_t)at], 8 + i);
    assert_true(heap_contains(h, blocks[1], sizes[1]));
    os_unmap(peer, h->mapped_bytes);
    assert_int_equal(heap_alloc(h, 5, (void **)&more), RUEDA_OK);
    assert_int_equal(heap_free(h, more), RUEDA_OK);
    heap_leave(h);
    assert_int_equal(heap_free(h, blocks[0]), RUEDA_ERR_ARGUMENT);
    assert_int_equal(heap_free(h, blocks[1]), RUEDA_OK);
    assert_int_equal(heap_free(h, blocks[1]), RUEDA_ERR_ARGUMENT);
    assert_true(is_open(fd) && blocks[2][99] == 10);
    assert_int_equal(heap_free(h, blocks[2]), RUEDA_OK); /* the last one */
    assert_true(h->base == NULL && !is_open(fd));
    assert_int_equal(heap_free(h, blocks[2]), RUEDA_ERR_ARGUMENT);
    assert_int_equal(heap_open(h, 2 * HEAP_BYTES, 5), RUEDA_OK);
    assert_int_equal(h->bytes, 2 * HEAP_BYTES);
}

/* A job without rueda_alloc leaves nothing, and one that failed in between neither. */
static void an_unused_heap_goes_with_the_job(void **state)
{
    heap *h = *state;
    const int fd = h->fd;
    heap_leave(h);
    assert_true(h->base == NULL && h->fd == -1 && !is_open(fd));
    heap_leave(h);
    assert_int_equal(heap_open(h, 0, 3), RUEDA_OK); /* RUEDA_HEAP_MAX=0 */
    void *memory;
    assert_int_equal(heap_alloc(h, 0, &memory), RUEDA_ERR_MEMORY);
    assert_false(heap_contains(h, h->base, 0));
}

/* Blocks at the same place in the heaps of many ranks differ in their low address bits. */
static void ranks_begin_at_different_lines(void **state)
{
    (void)state;
    uint64_t first[OS_PAGE / OS_CACHE_LINE];
    for (uint32_t r = 0; r < OS_PAGE / OS_CACHE_LINE; r++) {
        heap h = HEAP_NONE;
        assert_int_equal(heap_open(&h, HEAP_BYTES, r), RUEDA_OK);
        first[r] = h.first;
        assert_true(h.first < OS_PAGE && h.first % OS_CACHE_LINE == 0);
        for (uint32_t q = 0; q < r; q++)
            assert_int_not_equal(first[q], first[r]);
        heap_leave(&h);
    }
}

/* A forked child sees what was given out, and its own heap is another. */
static void a_forked_child_has_its_own(void **state)
{
    heap *h = *state;
    uint8_t *block, *detached;
    assert_int_equal(heap_alloc(h, 3 * OS_PAGE, (void **)&block), RUEDA_OK);
    assert_int_equal(heap_alloc(h, 3 * OS_PAGE, (void **)&detached), RUEDA_OK);
    memset(block, 3, 3 * OS_PAGE);
    memset(detached, 4, 3 * OS_PAGE);
    assert_int_equal(heap_detach(h, &(heap_range){detached, 3 * OS_PAGE}, 1), RUEDA_OK);
    const int fd = h->fd;
    heap_lock(h);
    const pid_t child = fork();
    if (child == 0) {
        void *own = NULL;
        heap_forget(h);
        heap_unlock(h);
        const bool right = !is_open(fd) && block[3 * OS_PAGE - 1] == 3 && detached[OS_PAGE] == 4 &&
                           heap_free(h, block) == RUEDA_ERR_ARGUMENT &&
                           heap_open(h, HEAP_BYTES, 1) == RUEDA_OK &&
                           heap_alloc(h, OS_PAGE, &own) == RUEDA_OK && own != block;
        memset(own, 9, OS_PAGE);
        _exit(right && block[0] == 3 ? 0 : 1);
    }
    heap_unlock(h);
    int ended = 1;
    assert_true(waitpid(child, &ended, 0) == child && ended == 0);
    for (int i = 0; i < 3 * OS_PAGE; i++)
        assert_true(block[i] == 3 && detached[i] == 4);
}

/* Nearly all of it is only reserved: a dump would allocate it. */
static void core_dumps_leave_it_out(void **state)
{
    heap *h = *state;
    uint8_t *block, *peer = map_as_peer(h);
    assert_int_equal(heap_alloc(h, 3 * OS_PAGE, (void **)&block), RUEDA_OK);
    assert_true(dump_leaves_out(h->base) && dump_leaves_out(block));
    assert_true(dump_leaves_out(h->base + h->mapped_bytes - 1) && dump_leaves_out(peer));
    assert_int_equal(heap_detach(h, &(heap_range){block, OS_PAGE}, 1), RUEDA_OK);
    assert_true(dump_leaves_out(block));
    os_unmap(peer, h->mapped_bytes);
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
    heap *h = *state;
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
    heap *h = *state;
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
    heap *h = *state;
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
    heap *h = *state;
    const uint8_t *first = h->base + h->first;
    assert_true(h->first > 0);
    assert_true(heap_contains(h, first, HEAP_BYTES));
    assert_false(heap_contains(h, first, HEAP_BYTES + 1));
    assert_false(heap_contains(h, first - 1, 1));
    assert_true(heap_contains(h, first + HEAP_BYTES - 1, 1));
    assert_false(heap_contains(h, first + HEAP_BYTES - 1, 2));
    assert_false(heap_contains(h, first + HEAP_BYTES, 1));
    assert_false(heap_contains(h, first + 1, SIZE_MAX));
}

static void peers_cannot_reach_what_is_detached(void **state)
{
    heap *h = *state;
    uint8_t *blocks[3], *peer = map_as_peer(h);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(heap_alloc(h, 3 * OS_PAGE, (void **)&blocks[i]), RUEDA_OK);
        memset(blocks[i], 10 + i, 3 * OS_PAGE);
    }
    /* neighbours share a page, in any order, one lies in the other, one is empty */
    const heap_range ranges[] = {
        {blocks[1], 3 * OS_PAGE}, {blocks[0], 3 * OS_PAGE}, {blocks[0] + 100, 50}, {blocks[2], 0}};
    assert_int_equal(heap_detach(h, ranges, 4), RUEDA_OK);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(blocks[i][0], 10 + i); /* they keep what they had */
        memset(peer + (blocks[i] - h->base), 99, 3 * OS_PAGE);
    }
    for (int b = 0; b < 3 * OS_PAGE; b++) {
        assert_int_equal(blocks[0][b], 10);
        assert_int_equal(blocks[1][b], 11);
    }
    assert_int_equal(blocks[2][3 * OS_PAGE - 1], 99); /* the last is still shared */
    memset(blocks[0], 5, 3 * OS_PAGE);
    assert_int_equal(peer[blocks[0] - h->base + OS_PAGE], 99);
    assert_int_equal(heap_free(h, blocks[0]), RUEDA_OK);
    assert_int_equal(heap_alloc(h, 3 * OS_PAGE, (void **)&blocks[0]), RUEDA_OK);
    assert_int_equal(blocks[0][OS_PAGE], 0);
    os_unmap(peer, h->mapped_bytes);
}

/* Who could write to the old pages may still do it in a later job: they stay out of reach, and count as memory
 * like any other. */
static void what_is_detached_stays_so(void **state)
{
    heap *h = *state;
    uint8_t *far, *near, *peer = map_as_peer(h);
    assert_int_equal(heap_alloc(h, 4 * OS_PAGE, (void **)&near), RUEDA_OK);
    assert_int_equal(heap_alloc(h, 4 * OS_PAGE, (void **)&far), RUEDA_OK);
    memset(near, 1, 4 * OS_PAGE);
    assert_true(heap_contains(h, near, 4 * OS_PAGE));
    assert_int_equal(heap_detach(h, &(heap_range){near, OS_PAGE}, 1), RUEDA_OK);
    heap_leave(h);
    assert_int_equal(heap_open(h, HEAP_BYTES, 1), RUEDA_OK);
    assert_false(heap_contains(h, near, 10));
    assert_false(heap_contains(h, near, 4 * OS_PAGE)); /* not all of it */
    assert_true(heap_contains(h, near + 2 * OS_PAGE, OS_PAGE));
    assert_true(heap_contains(h, far, 4 * OS_PAGE));
    memset(near, 2, 4 * OS_PAGE);
    memset(peer + (near - h->base), 99, OS_PAGE);
    /* again, with what is still in reach: nothing comes back */
    assert_int_equal(heap_detach(h, &(heap_range){near, 4 * OS_PAGE}, 1), RUEDA_OK);
    memset(peer + (near - h->base), 99, 4 * OS_PAGE);
    for (int i = 0; i < 4 * OS_PAGE; i++)
        assert_int_equal(near[i], 2);
    assert_int_equal(heap_free(h, near), RUEDA_OK);
    assert_int_equal(heap_alloc(h, 4 * OS_PAGE, (void **)&near), RUEDA_OK);
    assert_false(heap_contains(h, near, 10));
    for (int i = 0; i < 4 * OS_PAGE; i++)
        assert_int_equal(near[i], 0);
    memset(peer + (near - h->base), 99, 4 * OS_PAGE);
    for (int i = 0; i < 4 * OS_PAGE; i++)
        assert_int_equal(near[i], 0);
    os_unmap(peer, h->mapped_bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(blocks_never_overlap, open_heap, close_heap),
        cmocka_unit_test_setup_teardown(a_full_heap_says_so, open_heap, close_heap),
        cmocka_unit_test_setup_teardown(only_starts_of_blocks_can_be_freed, open_heap, close_heap),
        cmocka_unit_test_setup_teardown(contains_knows_the_bounds, open_heap, close_heap),
        cmocka_unit_test_setup_teardown(peers_cannot_reach_what_is_detached, open_heap, close_heap),
        cmocka_unit_test_setup_teardown(what_is_detached_stays_so, open_heap, close_heap),
        cmocka_unit_test_setup_teardown(used_blocks_outlive_the_job, open_heap, close_heap),
        cmocka_unit_test_setup_teardown(an_unused_heap_goes_with_the_job, open_heap, close_heap),
        cmocka_unit_test_setup_teardown(a_forked_child_has_its_own, open_heap, close_heap),
        cmocka_unit_test_setup_teardown(core_dumps_leave_it_out, open_heap, close_heap),
        cmocka_unit_test(ranks_begin_at_different_lines),
    };
    return cmocka_run_group_tests_name("heap", tests, NULL, NULL);
}
