/* bell_steps.h: the bell of src/control/control.c, step by step, for all programs in which somebody sleeps on one.
 * bell.c has the sums by which sources.sh sees that it is up to date. */
#ifndef RUEDA_TESTS_LITMUS_BELL_STEPS_H
#define RUEDA_TESTS_LITMUS_BELL_STEPS_H

#include "litmus.h"

enum { BELL_AWAKE, BELL_ASLEEP };

/* control_notify_rank, and control_notify for each other member: the fence comes once, then ring_if_asleep. */
#define NOTIFY_FENCE                                                                               \
    FENCE(SEQ_CST, "atomic_thread_fence(memory_order_seq_cst)", .name = "notify.fence")
#define RING_IF_ASLEEP(rings, sleeping, r, out)                                                    \
    LOAD(RELAXED, r, sleeping, "atomic_load_explicit(&bell->sleeping, memory_order_relaxed)"),     \
        IF(r, EQ, BELL_AWAKE, out, "if (sleeping == BELL_AWAKE) return"),                          \
        ADD(SEQ_CST, r, rings, 1, "atomic_fetch_add(&bell->rings, 1)", .name = "ring.add"),        \
        WAKE(rings, "world_wake(&bell->rings, true)", .name = "ring.wake"), LABEL(out)
#define NOTIFY_RANK(rings, sleeping, r, out) NOTIFY_FENCE, RING_IF_ASLEEP(rings, sleeping, r, out)

#define SLEEP_ANNOUNCE(rings, sleeping, r)                                                         \
    LOAD(SEQ_CST, r, rings, "seen = atomic_load(&bell->rings)", .name = "announce.seen"),          \
        STORE(SEQ_CST, sleeping, BELL_ASLEEP, "atomic_store(&bell->sleeping, BELL_ASLEEP)",        \
              .name = "announce.sleeping"),                                                        \
        FENCE(SEQ_CST, "atomic_thread_fence(memory_order_seq_cst)", .name = "announce.fence")
#define SLEEP_ON_BELL(rings, r)                                                                    \
    SLEEP(r, rings, "world_sleep_on(&bell.rings, seen, timeout_ns, true)", .name = "sleep")
#define SLEEP_END(sleeping)                                                                        \
    STORE(RELAXED, sleeping, BELL_AWAKE,                                                           \
          "atomic_store_explicit(&bell.sleeping, BELL_AWAKE, memory_order_relaxed)")

/* drive and sleep_once of a rank that waits until a word of a peer has come so far: looks, announces, looks
 * again, sleeps, and from the beginning. Takes the labels l to l + 2. */
#define SLEEP_UNTIL(word, least, rings, sleeping, l)                                               \
    LABEL(l), LOAD(ACQUIRE, R0, word, "engine_step(e)", .name = "look"),                           \
        IF(R0, GE, least, (l) + 2, "has come"), SLEEP_ANNOUNCE(rings, sleeping, R1),               \
        LOAD(ACQUIRE, R0, word, "awake = engine_step(e) || …", .name = "last look"),               \
        IF(R0, GE, least, (l) + 1, "if (!awake)"), SLEEP_ON_BELL(rings, R1), LABEL((l) + 1),       \
        SLEEP_END(sleeping), GOTO(l), LABEL((l) + 2)

#endif
