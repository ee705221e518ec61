/* segment_test.c: the layout of the shared memory: nothing overlaps, all fits, all is aligned. */
#include "base/dump_testing.h"
#include "memory/heap.h"
#include "memory/segment.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define SLOTS 4

static config settings_with(int64_t slot_bytes, int64_t channels, int64_t cache, int64_t heap_max)
{
    config settings;
    assert_int_equal(config_load(&settings, NULL), RUEDA_OK);
    settings.slot_bytes = slot_bytes;
    settings.channels = channels;
    settings.cache_capacity = cache;
    settings.heap_max = heap_max;
    return settings;
}

/* A stretch of the segment that belongs to one thing. */
typedef struct stretch {
    const uint8_t *start;
    uint64_t bytes;
} stretch;

static int by_start(const void *a, const void *b)
{
    const stretch *x = a, *y = b;
    return x->start < y->start ? -1 : x->start > y->start;
}

static size_t list_set(const segment *s, uint32_t rank, uint32_t set, stretch *to)
{
    const segment_header *h = s->header;
    size_t n = 0;
    const uint64_t contribution = sizeof(segment_contribution) + h->cache_words * 8u;
    for (uint64_t round = 0; round < 2; round++) {
        to[n++] = (stretch){(uint8_t *)segment_contribution_at(s, rank, set, round), contribution};
        to[n++] = (stretch){segment_news_at(s, rank, set, round), segment_news_bytes(s)};
    }
    for (uint32_t c = 0; c < h->channels; c++) {
        to[n++] = (stretch){(uint8_t *)segment_flag_at(s, rank, set, c), sizeof(segment_flag)};
        to[n++] = (stretch){(uint8_t *)segment_sums_at(s, rank, set, c),
                            2 * SEGMENT_SUMS * SEGMENT_SUM_PARTS * sizeof(double)};
        to[n++] = (stretch){(uint8_t *)segment_addresses_at(s, rank, set, c),
                            SEGMENT_ADDRESSES * sizeof(segment_address)};
        to[n++] = (stretch){segment_slots_at(s, rank, set, c), SLOTS * h->slot_bytes};
        for (uint32_t reader = 0; reader < h->ranks; reader++)
            to[n++] = (stretch){(uint8_t *)segment_ring_at(s, rank, set, c, reader),
                                sizeof(segment_ring)};
    }
    return n;
}

static void check_layout(const config *settings, uint32_t ranks)
{
    segment s;
    assert_int_equal(segment_create(&s, settings, ranks, 1), RUEDA_OK);
    assert_int_equal(s.header->sets, SEGMENT_SETS);
    static const uint32_t sets[] = {0, 1, 2, SEGMENT_SETS / 2, SEGMENT_SETS - 2, SEGMENT_SETS - 1};
    enum { SETS = sizeof sets / sizeof sets[0] };
    const size_t most = 2 + ranks * (2 + SETS * (4 + (size_t)settings->channels * (4 + ranks)));
    stretch *all = calloc(most, sizeof *all);
    size_t n = 0;
    all[n++] = (stretch){s.base, sizeof(segment_header)};
    for (uint32_t r = 0; r < ranks; r++) {
        all[n++] = (stretch){(uint8_t *)segment_rank_at(&s, r), sizeof(segment_rank)};
        for (int i = 0; i < SETS; i++)
            n += list_set(&s, r, sets[i], all + n);
    }
    assert_true(n <= most);
    qsort(all, n, sizeof *all, by_start);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal((uintptr_t)all[i].start % OS_CACHE_LINE, 0);
        assert_true(all[i].start >= s.base &&
                    all[i].start + all[i].bytes <= s.base + s.header->bytes);
        assert_true(i == 0 || all[i - 1].start + all[i - 1].bytes <= all[i].start);
    }
    free(all);
    segment_close(&s);
    assert_int_equal(s.fd, -1);
}

static void nothing_overlaps(void **state)
{
    (void)state;
    const config usual = settings_with(256 * KIB, 4, 4096, 16 * GIB);
    const config small = settings_with(4 * KIB, 1, 0, 0);
    const config odd = settings_with(5000, 3, 65, 12345);
    for (uint32_t ranks = 1; ranks <= 9; ranks += 2) {
        check_layout(&usual, ranks);
        check_layout(&small, ranks);
        check_layout(&odd, ranks);
    }
}

static void both_sides_see_the_same_layout(void **state)
{
    (void)state;
    const config settings = settings_with(64 * KIB, 2, 100, MIB);
    segment a, b;
    assert_int_equal(segment_create(&a, &settings, 3, 42), RUEDA_OK);
    assert_int_equal(segment_attach(&b, dup(a.fd)), RUEDA_OK);
    assert_int_equal(b.header->generation, 42);
    assert_int_equal(segment_slots_at(&a, 1, 3, 1) - a.base,
                     segment_slots_at(&b, 1, 3, 1) - b.base);
    assert_int_equal(segment_commit_set(&a, 1, 3), RUEDA_OK);
    assert_int_equal(segment_commit_channel(&a, 1, 3, 1, true), RUEDA_OK);
    segment_slots_at(&a, 1, 3, 1)[0] = 77;
    assert_int_equal(segment_slots_at(&b, 1, 3, 1)[0], 77);
    segment_close(&a);
    segment_close(&b);
}

static uint64_t bytes_of(const segment *s)
{
    struct stat about;
    assert_int_equal(fstat(s->fd, &about), 0);
    return (uint64_t)about.st_blocks * 512;
}

/* A set that is only there costs next to nothing, one with small tensors some pages. */
static void memory_is_taken_when_it_is_needed(void **state)
{
    (void)state;
    const config settings = settings_with(256 * KIB, 4, 4096, 0);
    segment s;
    assert_int_equal(segment_create(&s, &settings, 4, 1), RUEDA_OK);
    assert_int_equal(segment_commit_set(&s, 2, RUEDA_GLOBAL_SET), RUEDA_OK);
    const uint64_t empty = bytes_of(&s);
    for (uint32_t set = 1; set < SEGMENT_SETS; set++)
        assert_int_equal(segment_commit_set(&s, 2, set), RUEDA_OK);
    const uint64_t made = bytes_of(&s);
    assert_true(made - empty <= SEGMENT_SETS * 4 * KIB);
    assert_false(segment_has_body(&s, 7));
    assert_int_equal(segment_commit_news(&s, 2, 7), RUEDA_OK);
    assert_int_equal(segment_commit_channel(&s, 2, 7, 0, true), RUEDA_OK);
    assert_true(bytes_of(&s) - made <= 64 * KIB);
    assert_int_equal(segment_commit_channel(&s, 2, 7, 0, false), RUEDA_OK);
    assert_int_equal(segment_commit_rings(&s, 2, 7, 0), RUEDA_OK);
    assert_true(bytes_of(&s) - made > MIB);
    memset(segment_slots_at(&s, 2, 7, 0), 1, SLOTS * s.header->slot_bytes);
    assert_true(segment_has_body(&s, 7));
    segment_release_body(&s, 2, 7);
    assert_false(segment_has_body(&s, 7));
    assert_true(bytes_of(&s) - made <= 8 * KIB); /* pages that the neighbours share */
    segment_close(&s);
}

static void a_cleared_head_is_as_new(void **state)
{
    (void)state;
    const config settings = settings_with(64 * KIB, 2, 100, 0);
    segment s;
    assert_int_equal(segment_create(&s, &settings, 1, 1), RUEDA_OK);
    assert_int_equal(segment_commit_set(&s, 0, 5), RUEDA_OK);
    atomic_store(&segment_contribution_at(&s, 0, 5, 1)->round, 99);
    atomic_store(&segment_flag_at(&s, 0, 5, 1)->value, UINT64_MAX);
    assert_int_equal(segment_commit_rings(&s, 0, 5, 1), RUEDA_OK);
    assert_int_equal(atomic_load(&segment_flag_at(&s, 0, 5, 1)->rings), 1);
    segment_clear_head(&s, 0, 5);
    assert_int_equal(atomic_load(&segment_contribution_at(&s, 0, 5, 1)->round), 0);
    assert_int_equal(atomic_load(&segment_flag_at(&s, 0, 5, 1)->value), 0);
    assert_int_equal(atomic_load(&segment_flag_at(&s, 0, 5, 1)->rings), 0);
    segment_close(&s);
}

/* A thousand sets of thousands of ranks have no room among a process's addresses. */
static void a_large_job_has_fewer_places(void **state)
{
    (void)state;
    const config settings = settings_with(256 * KIB, 4, 4096, 0);
    segment s;
    assert_int_equal(segment_create(&s, &settings, 1200, 1), RUEDA_OK);
    assert_in_range(s.header->sets, 2, SEGMENT_SETS - 1);
    const uint32_t last = s.header->sets - 1;
    assert_int_equal(segment_commit_set(&s, 1199, last), RUEDA_OK);
    assert_true((uint8_t *)segment_ring_at(&s, 1199, last, 3, 1199) < s.base + s.header->bytes);
    segment_close(&s);
}

/* A process has its own memory for rueda_alloc: however much that may be, the segment is as large. */
static void heaps_are_no_part_of_it(void **state)
{
    (void)state;
    const int64_t sizes[] = {0, MIB, 16 * GIB, 1024 * GIB};
    uint64_t bytes = 0;
    for (int i = 0; i < 4; i++) {
        const config settings = settings_with(64 * KIB, 2, 100, sizes[i]);
        segment s;
        assert_int_equal(segment_create(&s, &settings, 2, 1), RUEDA_OK);
        assert_true(i == 0 || s.header->bytes == bytes);
        bytes = s.header->bytes;
        assert_null(segment_heap_at(&s, 0));
        segment_close(&s);
    }
}

/* Mapped, and seen through the mapping; our own stays when the segment goes. */
static void heaps_of_others_are_mapped(void **state)
{
    (void)state;
    const config settings = settings_with(64 * KIB, 2, 100, MIB);
    segment s;
    heap own = HEAP_NONE, other = HEAP_NONE;
    uint8_t *theirs, *ours;
    assert_int_equal(segment_create(&s, &settings, 3, 1), RUEDA_OK);
    assert_int_equal(heap_open(&own, MIB, 0), RUEDA_OK);
    assert_int_equal(heap_open(&other, 2 * MIB, 2), RUEDA_OK);
    assert_int_equal(heap_alloc(&own, 10, (void **)&ours), RUEDA_OK);
    assert_int_equal(heap_alloc(&other, 10, (void **)&theirs), RUEDA_OK);
    assert_int_equal(segment_own_heap(&s, 0, own.base), RUEDA_OK);
    assert_int_equal(segment_attach_heap(&s, 2, dup(other.fd)), RUEDA_OK);
    assert_ptr_equal(segment_heap_at(&s, 0), own.base);
    assert_null(segment_heap_at(&s, 1));
    uint8_t *seen = segment_heap_at(&s, 2) + (theirs - other.base);
    assert_ptr_not_equal(seen, theirs);
    *seen = 77;
    assert_int_equal(*theirs, 77);
    int pipes[2];
    assert_int_equal(pipe(pipes), 0);
    assert_int_equal(segment_attach_heap(&s, 1, pipes[0]), RUEDA_ERR_SYSTEM); /* no memory */
    close(pipes[1]);
    segment_close(&s);
    *ours = 5;
    assert_int_equal(heap_free(&own, ours), RUEDA_OK);
    assert_int_equal(heap_free(&other, theirs), RUEDA_OK);
    heap_leave(&own);
    heap_leave(&other);
}

/* Memory of another version or no memory of ours at all. */
static void a_foreign_segment_is_refused(void **state)
{
    (void)state;
    const config settings = settings_with(64 * KIB, 2, 100, MIB);
    segment a, b;
    assert_int_equal(segment_create(&a, &settings, 1, 1), RUEDA_OK);
    a.header->version++;
    assert_int_equal(segment_attach(&b, dup(a.fd)), RUEDA_ERR_STATE);
    assert_non_null(strstr(status_text(), "version"));
    segment_close(&a);
    int pipes[2];
    assert_int_equal(pipe(pipes), 0);
    assert_int_equal(segment_attach(&b, pipes[0]), RUEDA_ERR_SYSTEM);
    close(pipes[1]);
}

/* Nearly all of the mapping is only reserved: a dump would allocate it. */
static void core_dumps_leave_the_segment_out(void **state)
{
    (void)state;
    const config settings = settings_with(64 * KIB, 2, 100, GIB);
    segment a, b;
    assert_int_equal(segment_create(&a, &settings, 2, 1), RUEDA_OK);
    assert_int_equal(segment_attach(&b, dup(a.fd)), RUEDA_OK);
    const segment *const both[] = {&a, &b};
    for (int i = 0; i < 2; i++) {
        assert_true(dump_leaves_out(both[i]->base));
        assert_true(dump_leaves_out(segment_slots_at(both[i], 1, 0, 0)));
        assert_true(dump_leaves_out(both[i]->base + both[i]->header->bytes - 1));
    }
    segment_close(&a);
    segment_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_overlaps),
        cmocka_unit_test(memory_is_taken_when_it_is_needed),
        cmocka_unit_test(a_cleared_head_is_as_new),
        cmocka_unit_test(a_large_job_has_fewer_places),
        cmocka_unit_test(both_sides_see_the_same_layout),
        cmocka_unit_test(heaps_are_no_part_of_it),
        cmocka_unit_test(heaps_of_others_are_mapped),
        cmocka_unit_test(a_foreign_segment_is_refused),
        cmocka_unit_test(core_dumps_leave_the_segment_out),
    };
    return cmocka_run_group_tests_name("segment", tests, NULL, NULL);
}
