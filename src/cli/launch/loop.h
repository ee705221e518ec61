/* loop.h: what a loop that sleeps in poll needs: signals as a descriptor, deadlines, many files. */
#ifndef RUEDA_CLI_LAUNCH_LOOP_H
#define RUEDA_CLI_LAUNCH_LOOP_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>

#define NEVER UINT64_MAX
#define NS_PER_S UINT64_C(1000000000)
#define NS_PER_MS UINT64_C(1000000)

/* Blocks the signals that we handle and returns a descriptor that delivers them, -1 on failure
 * (errno). One that was ignored at the start (nohup) stays ignored. `before` receives the mask as it
 * was; may be NULL. */
int loop_open_signals(sigset_t *before);
/* The next signal, 0 if there is none now. */
int loop_next_signal(int fd);
/* Whether a signal asks for the end: INT, TERM, HUP, QUIT. */
bool loop_is_ending(int signal);

/* How long poll may sleep until `next`. */
int loop_poll_ms(uint64_t next, uint64_t now);

static inline uint64_t loop_earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Lets this process open as many files as it may: pipes and connections of many ranks and hosts.
 * Returns the limit as it was, for the ranks. */
struct rlimit loop_raise_files(void);

#endif
