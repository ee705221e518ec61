/* heartbeat.h: when a silent rank counts as lost: one rule, whether its signs come by memory or by messages.
 *
 * A rank gives a sign HEARTBEAT_SIGNS times within the limit. Who looks counts the silence of others only as
 * far as it was awake itself, a sign's time at most between two looks: after the machine has slept, or we
 * were stopped, nobody is accused.
 */
#ifndef RUEDA_BASE_HEARTBEAT_H
#define RUEDA_BASE_HEARTBEAT_H

#include <stdbool.h>
#include <stdint.h>

#define HEARTBEAT_SIGNS 4
#define HEARTBEAT_LOST "it has not answered for RUEDA_HEARTBEAT seconds"

typedef struct heartbeat {
    uint64_t limit_ns; /* 0: nobody counts as lost */
    uint64_t last_ns;  /* when we looked; 0: never */
} heartbeat;

/* Between two signs. */
static inline uint64_t heartbeat_period(const heartbeat *h)
{
    return h->limit_ns / HEARTBEAT_SIGNS;
}

/* We look now; returns how much of the time since the last look counts. */
static inline uint64_t heartbeat_look(heartbeat *h, uint64_t now_ns)
{
    const uint64_t since = h->last_ns == 0 ? 0 : now_ns - h->last_ns;
    h->last_ns = now_ns;
    return since < heartbeat_period(h) ? since : heartbeat_period(h);
}

/* No sign since the last look; true: for too long. */
static inline bool heartbeat_is_lost(const heartbeat *h, uint64_t *silence_ns, uint64_t counts_ns)
{
    *silence_ns += counts_ns;
    return h->limit_ns != 0 && *silence_ns >= h->limit_ns;
}

#endif
