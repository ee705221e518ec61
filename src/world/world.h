/* world.h: what a rank knows of the world outside of its memory: time, sleep, threads, chance and other
 * processes; sockets.h has its connections.
 *
 * No other folder of the library reads a clock, yields, sleeps, starts a thread or asks a socket. So there can be
 * two worlds: linux/ is the real one, and sim/ one that a seed decides, in which all ranks of a job live in one
 * process. The library is compiled for one of them; RUEDA_SIMULATED says for which.
 */
#ifndef RUEDA_WORLD_H
#define RUEDA_WORLD_H

#include "base/os.h"

#include <pthread.h>
#include <string.h>

/* ---- Time ------------------------------------------------------------------------------------ */

/* Nanoseconds of a clock that only goes forward, the same for all processes of the host. */
uint64_t world_now_ns(void);
/* The same clock a few milliseconds late, for a fifth of the price. */
uint64_t world_now_coarse_ns(void);
/* Sleeps so long, whatever happens. */
void world_rest(uint64_t ns);

/* ---- Sleeping until somebody wakes us --------------------------------------------------------- */

/* Sleeps while *word == seen, at most timeout_ns; returns early for any reason. `shared`: the word
 * lies in memory shared between processes. */
void world_sleep_on(_Atomic uint32_t *word, uint32_t seen, uint64_t timeout_ns, bool shared);
/* Wakes everyone who sleeps on the word. */
void world_wake(_Atomic uint32_t *word, bool shared);

/* ---- Letting others go first ------------------------------------------------------------------- */

void world_yield(void);

#ifdef RUEDA_SIMULATED
/* Between two looks of a thread that waits without sleeping. */
void world_pause(void);
/* Others may see what this rank has done so far, and what it does next only afterwards: here the simulated world
 * may let others go first, stop this rank, or end it. Not with a lock held. */
void world_point(void);
/* A copy into memory that others may look at meanwhile; a rank may end or stop in the midst of it. */
void world_copy(void *to, const void *from, size_t bytes);
/* Ranks must agree: all that tell of the same `what` and `key` tell the same value. */
void world_witness(const char *what, uint64_t key, uint64_t value);
#else
static inline void world_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static inline void world_point(void)
{
}

static inline void world_copy(void *to, const void *from, size_t bytes)
{
    memcpy(to, from, bytes);
}
#endif

/* ---- Threads ----------------------------------------------------------------------------------- */

typedef struct world_thread {
    pthread_t system; /* linux/ */
    void *fiber;      /* sim/ */
} world_thread;

/* A thread that gets no signals: they are the caller's threads' business. False: the system refuses. */
bool world_thread_start(world_thread *t, void *(*run)(void *), void *argument);
/* Blocks until it has returned. */
void world_thread_join(world_thread *t);

/* Asks for short turns for the calling thread: it is then put before threads that compute, when it is
 * woken. Systems that do not know the request ignore it. */
void world_prefer_short_turns(void);
/* Lets all other threads go before the calling one, when there are more than cores. */
void world_lower_priority(void);

/* A lock for a few instructions: nobody sleeps, waits or copies data while it is held. */
typedef struct world_lock {
    pthread_mutex_t mutex;
} world_lock;

#define WORLD_LOCK_NEW                                                                             \
    {                                                                                              \
        PTHREAD_MUTEX_INITIALIZER                                                                  \
    }

#ifdef RUEDA_SIMULATED
void world_lock_init(world_lock *lock);
void world_lock_destroy(world_lock *lock);
void world_lock_take(world_lock *lock);
void world_lock_release(world_lock *lock);
#else
static inline void world_lock_init(world_lock *lock)
{
    pthread_mutex_init(&lock->mutex, NULL);
}

static inline void world_lock_destroy(world_lock *lock)
{
    pthread_mutex_destroy(&lock->mutex);
}

static inline void world_lock_take(world_lock *lock)
{
    pthread_mutex_lock(&lock->mutex);
}

static inline void world_lock_release(world_lock *lock)
{
    pthread_mutex_unlock(&lock->mutex);
}
#endif

/* ---- Chance ------------------------------------------------------------------------------------ */

void world_random(void *to, size_t bytes); /* good enough for keys */

/* ---- Processors -------------------------------------------------------------------------------- */

int world_cpu_count(void);              /* that this process may run on */
void world_cpus_allowed(os_cpus *cpus); /* which */
int world_cpu_now(void);                /* the one that the caller runs on */

/* ---- Processes --------------------------------------------------------------------------------- */

/* A name that is the same for all processes of this machine and network namespace, and for no others:
 * those that can hand each other shared memory. */
void world_machine_name(char *name, size_t size);

int world_process(void); /* the number of our own */
/* A descriptor that becomes readable when the process dies; WORLD_PROCESS_GONE: there is no such process
 * any more; WORLD_PROCESS_UNKNOWN: the system does not tell. */
#define WORLD_PROCESS_UNKNOWN (-1)
#define WORLD_PROCESS_GONE (-2)
int world_process_open(int process);
bool world_process_dead(int process_fd);
/* Kills it. */
void world_process_kill(int process_fd);
/* Faults on purpose: this process is killed, or stopped until somebody lets it go on. */
void world_die(void);
void world_stop(void);

#endif
