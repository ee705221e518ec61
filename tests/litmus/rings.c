/* rings.c: messages in shared memory, a ring with one writer and one reader. The writer's `written` hands bytes
 * over, the reader's `consumed` gives the room back; who cannot go on sleeps on its bell and the other rings.
 * Here the ring has two cells.
 *
 * models src/transport/shm/shm.c shm_send 3741601552
 * models src/transport/shm/shm.c shm_peek 2096222558
 * models src/transport/shm/shm.c shm_consume 3808103060
 * models src/transport/shm/shm.c shm_receive 1891886209
 * models src/transport/shm/shm.c has_rings 4292363574
 * models src/memory/segment.c segment_commit_rings 3895297322
 */
#include "bell_steps.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { CELL0, CELL1, HOLE, HAS_RINGS, WRITTEN, CONSUMED, RINGS, SLEEPING, RINGS2, SLEEPING2 };

#define PLACES                                                                                     \
    MEMORY("cell 0"), MEMORY("cell 1"), MEMORY("hole"), WORD("has rings"), WORD("written"),        \
        WORD("consumed"), WORD("rings"), WORD("sleeping"), WORD("rings2"), WORD("sleeping2")

#define PUT(cell, number)                                                                          \
    WRITE(cell, number, "put(ring, written + taken, …)", .name = "put"),                           \
        STORE(RELEASE, WRITTEN, number,                                                            \
              "atomic_store_explicit(&ring->written, written + taken, memory_order_release)",      \
              .name = "written")
#define TAKE(cell, number)                                                                         \
    READ(R2, cell, "memcpy(to, data, taken)", .name = "take"),                                     \
        STORE(RELEASE, CONSUMED, number,                                                           \
              "atomic_store_explicit(&ring->consumed, consumed + bytes, memory_order_release)",    \
              .name = "consumed"),                                                                 \
        MUST(R2, EQ, number, "the bytes in their order")

/* ---- By looking again and again --------------------------------------------------------------------- */

#define HAS_ROOM(least)                                                                            \
    AWAIT(ACQUIRE, R0, CONSUMED, GE, least,                                                        \
          "atomic_load_explicit(&ring->consumed, memory_order_acquire)", .name = "room")
#define HAS_BYTES(least)                                                                           \
    AWAIT(ACQUIRE, R0, WRITTEN, GE, least,                                                         \
          "atomic_load_explicit(&ring->written, memory_order_acquire)", .name = "bytes")

static const litmus_step sender[] = {
    WRITE(HOLE, 1, "commit(s, …): the ring has memory"),
    STORE(RELEASE, HAS_RINGS, 1, "atomic_store_explicit(&…->rings, 1, memory_order_release)",
          .name = "commit"),
    PUT(CELL0, 1),
    PUT(CELL1, 2),
    HAS_ROOM(1),
    PUT(CELL0, 3),
    HAS_ROOM(2),
    PUT(CELL1, 4),
    END,
};
static const litmus_step receiver[] = {
    AWAIT(ACQUIRE, R0, HAS_RINGS, EQ, 1, "atomic_load_explicit(&…->rings, memory_order_acquire)",
          .name = "has rings"),
    READ(R1, HOLE, "the ring's words", .name = "touch"),
    HAS_BYTES(1),
    TAKE(CELL0, 1),
    HAS_BYTES(2),
    TAKE(CELL1, 2),
    HAS_BYTES(3),
    TAKE(CELL0, 3),
    HAS_BYTES(4),
    TAKE(CELL1, 4),
    END,
};
static const litmus_program looking = {.places = {PLACES},
                                       .threads = {{"sender", sender}, {"receiver", receiver}}};

static void bytes_arrive_in_their_order(void **unused)
{
    (void)unused;
    litmus_holds("rings: around the end twice", &looking);
    static const char *const ordered[] = {"written", "bytes",  "consumed",
                                          "room",    "commit", "has rings"};
    for (size_t i = 0; i < sizeof ordered / sizeof ordered[0]; i++)
        litmus_fails(ordered[i], &looking,
                     (litmus_change){.order_of = ordered[i], .order = RELAXED}, LITMUS_RACE);
    litmus_fails("written before the bytes", &looking,
                 (litmus_change){.move = "put", .behind = "written"}, LITMUS_RACE);
    litmus_fails("consumed before they are read", &looking,
                 (litmus_change){.move = "take", .behind = "consumed"}, LITMUS_RACE);
    litmus_fails("no look for room", &looking, (litmus_change){.leave_out = "room"}, LITMUS_RACE);
    litmus_fails("touched before there is memory", &looking,
                 (litmus_change){.leave_out = "has rings"}, LITMUS_RACE);
}

/* ---- Asleep ------------------------------------------------------------------------------------------ */

static const litmus_step sleepy_sender[] = {
    PUT(CELL0, 1),
    NOTIFY_RANK(RINGS2, SLEEPING2, R3, 20),
    PUT(CELL1, 2),
    NOTIFY_RANK(RINGS2, SLEEPING2, R3, 21),
    SLEEP_UNTIL(CONSUMED, 1, RINGS, SLEEPING, 1),
    PUT(CELL0, 3),
    NOTIFY_RANK(RINGS2, SLEEPING2, R3, 22),
    END,
};
static const litmus_step sleepy_receiver[] = {
    SLEEP_UNTIL(WRITTEN, 1, RINGS2, SLEEPING2, 1),
    TAKE(CELL0, 1),
    NOTIFY_RANK(RINGS, SLEEPING, R3, 20),
    SLEEP_UNTIL(WRITTEN, 2, RINGS2, SLEEPING2, 4),
    TAKE(CELL1, 2),
    NOTIFY_RANK(RINGS, SLEEPING, R3, 21),
    SLEEP_UNTIL(WRITTEN, 3, RINGS2, SLEEPING2, 7),
    TAKE(CELL0, 3),
    END,
};
static const litmus_program asleep = {
    .returns = 1,
    .places = {PLACES},
    .threads = {{"sender", sleepy_sender}, {"receiver", sleepy_receiver}}};

static void who_cannot_go_on_is_woken(void **unused)
{
    (void)unused;
    litmus_holds("rings: asleep when full or empty", &asleep);
    litmus_fails("no fence in control_notify_rank", &asleep,
                 (litmus_change){.leave_out = "notify.fence"}, LITMUS_FOR_EVER);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(bytes_arrive_in_their_order),
                                       cmocka_unit_test(who_cannot_go_on_is_woken)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
