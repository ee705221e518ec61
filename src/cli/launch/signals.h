/* signals.h: signals as a descriptor, for a loop that sleeps in poll. */
#ifndef RUEDA_CLI_LAUNCH_SIGNALS_H
#define RUEDA_CLI_LAUNCH_SIGNALS_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#define NEVER UINT64_MAX
#define NS_PER_S UINT64_C(1000000000)
#define NS_PER_MS UINT64_C(1000000)

/* Blocks the signals that we handle and returns a descriptor that delivers them, -1 on failure
 * (errno). One that was ignored at the start (nohup) stays ignored. `before` receives the mask as it
 * was; may be NULL. */
int signals_open(sigset_t *before);
/* The next signal, 0 if there is none now. */
int signals_next(int fd);
/* Whether it asks for the end: INT, TERM, HUP, QUIT. */
bool signals_ask_for_end(int signal);

/* How long poll may sleep until `next`. */
int signals_poll_ms(uint64_t next, uint64_t now);

static inline uint64_t signals_earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

#endif
