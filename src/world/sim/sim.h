/* sim.h: a world that a seed decides, for those who let ranks live in it: which processes there are, which faults
 * come to them, and what they left behind. The ranks themselves see only world.h and sockets.h.
 *
 * All simulated processes live in one process and one thread of the system, each of their threads as a fiber. There
 * is one world at a time. The same seed, the same program and the same calls give the same run on every machine.
 * Functions of this file may be called between two runs, by callbacks, and by fibers where that is said.
 */
#ifndef RUEDA_WORLD_SIM_H
#define RUEDA_WORLD_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct sim sim;

#define SIM_HOSTS_MAX 64
#define SIM_CHANCE 1024 /* chances are so many times of this */

/* What the world does by itself. sim_open draws reasonable values from the seed; they may be changed at any time, and
 * hold for what happens from then on. */
typedef struct sim_settings {
    uint64_t call_least_ns, call_most_ns;       /* what a call of the world takes */
    uint64_t wake_least_ns, wake_most_ns;       /* from a wake-up until the fiber runs */
    uint64_t local_least_ns, local_most_ns;     /* latency of TCP inside of a host */
    uint64_t latency_least_ns, latency_most_ns; /* and between hosts */
    uint32_t preempt_chance;                    /* that a fiber is kept from running … */
    uint64_t preempt_most_ns;                   /* … for up to this long */
    uint32_t switch_chance;                     /* that a point lets others go first */
    uint32_t piece_chance;       /* that only a part is sent, delivered or received */
    uint32_t spurious_chance;    /* that a sleeper on a word wakes up for nothing */
    uint32_t interrupt_chance;   /* that a call that blocks ends with EINTR */
    uint32_t torn_chance;        /* that a world_copy has points inside */
    uint32_t death_reset_chance; /* that a connection of a killed process is reset, not ended */
    uint64_t buffer_least_bytes, buffer_most_bytes; /* of a socket that is made from now on */
    int cores_per_host;
    bool
        strict_descriptors; /* using one that the process does not have is a failure, not only EBADF */
} sim_settings;

sim *sim_open(uint64_t seed);
/* Frees all: what dead processes held, and what living ones still hold. */
void sim_close(sim *s);
sim_settings *sim_settings_of(sim *s);
/* The world that is open; NULL: none. */
sim *sim_current(void);

/* ---- Running ---------------------------------------------------------------------------------- */

typedef enum sim_end { SIM_TIME_IS_UP, SIM_NOTHING_LEFT, SIM_HALTED } sim_end;

/* Until that virtual time, until nothing can happen any more, or until somebody calls sim_halt. */
sim_end sim_run(sim *s, uint64_t until_ns);
void sim_halt(sim *s); /* by anybody; the next sim_run goes on, unless something has failed */
uint64_t sim_now(const sim *s);
/* A number below `below` (1 at least) from the harness's own stream. */
uint64_t sim_random(sim *s, uint64_t below);
/* Runs it in the scheduler's context, where it may not wait. */
void sim_at(sim *s, uint64_t time_ns, void (*run)(void *), void *argument);
/* At every world_point of any process, on its fiber; may call sim_kill and sim_stop. True: others go first. */
void sim_set_point_hook(sim *s, bool (*hook)(void *context, int process), void *context);

/* ---- Processes --------------------------------------------------------------------------------- */

typedef enum sim_life { SIM_RUNS, SIM_STOPPED, SIM_ENDED, SIM_KILLED } sim_life;

/* The process ends when `run` returns. Returns its number: 0 for the first one. Fibers may call it, too. */
int sim_process_start(sim *s, int host, void (*run)(void *), void *argument);
sim_life sim_process_life(const sim *s, int process);
/* The one whose fiber runs; -1: none. */
int sim_process_now(void);
/* Percent of the time that calls usually take: 1000 is a tenth of the speed. */
void sim_set_slowness(sim *s, int process, uint32_t percent);
/* The clock of a host jumps forward. */
void sim_jump_clock(sim *s, int host, uint64_t ns);

/* Also from fibers, for other processes and for their own; then it takes effect with the next call of the world. */
void sim_kill(sim *s, int process);
void sim_stop(sim *s, int process);
void sim_continue(sim *s, int process);

/* The n-th call (from 1) from now on by which the process asks for memory, a thread or a descriptor fails; `onwards`:
 * all later ones, too. 0: none. */
void sim_fail_nth(sim *s, int process, uint64_t n, bool onwards);
/* How many such calls it has made since it started. */
uint64_t sim_asked(const sim *s, int process);
typedef struct sim_refusals {
    uint64_t count;
    uint64_t first_ns;      /* when the first one was refused */
    const char *first_call; /* and what it was */
} sim_refusals;
sim_refusals sim_refusals_of(const sim *s, int process);

/* ---- Faults of the network --------------------------------------------------------------------- */

/* While it holds, nothing gets from one host to the other; it does afterwards. */
void sim_partition(sim *s, int host_a, int host_b, bool holds);
/* All TCP connections between two processes are reset at both ends. Returns how many there were. */
int sim_cut(sim *s, int process_a, int process_b);
/* They are reset for the first one; the other one hears nothing more, unless its system asks (SO_KEEPALIVE). */
int sim_half_open(sim *s, int process_reset, int process_unaware);

/* ---- What became of it -------------------------------------------------------------------------- */

typedef struct sim_leaks {
    uint64_t blocks, block_bytes; /* of malloc */
    uint64_t mappings, mapping_bytes;
    uint64_t descriptors;
    uint64_t threads; /* not joined */
} sim_leaks;

/* What the process holds now, or held when it ended. */
sim_leaks sim_leaks_of(const sim *s, int process);
/* What each fiber of living processes waits for, a line each. */
void sim_describe(const sim *s, char *text, size_t size);

typedef struct sim_statistics {
    uint64_t events, switches, points, bytes_sent, connections;
    uint64_t trace; /* a hash of all events in their order, and of all bytes that TCP delivered */
} sim_statistics;
sim_statistics sim_statistics_of(const sim *s);

/* ---- Failures ------------------------------------------------------------------------------------ */

/* Called with a text that has seed, time and process; default: prints it and aborts. When it returns, the run is
 * halted for good, and a fiber that failed never runs again. */
void sim_set_failure(sim *s, void (*report)(void *context, const char *text), void *context);
bool sim_has_failed(const sim *s);
/* Something is wrong; for assertions of the library and the harness. Returns only outside of fibers. */
void sim_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
