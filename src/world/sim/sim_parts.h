/* sim_parts.h: what the files of the simulated world share.
 *
 * Invariants: exactly one fiber or the scheduler runs; a fiber never switches with a lock held; nothing is ordered by
 * an address; all that is decided by chance comes from one of the streams of the seed.
 */
#ifndef RUEDA_WORLD_SIM_PARTS_H
#define RUEDA_WORLD_SIM_PARTS_H

#include "base/status.h"
#include "world/sim/fiber.h"
#include "world/sim/random.h"
#include "world/sim/sim.h"

#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/types.h>

#define SIM_NEVER UINT64_MAX
#define SIM_FIRST_DESCRIPTOR (1 << 20) /* smaller ones are real */
#define SIM_FIRST_PROCESS 1000         /* what world_process says of process 0 */

typedef struct sim_object sim_object;
typedef struct sim_socket sim_socket;
typedef struct sim_process sim_process;
typedef struct sim_fiber sim_fiber;

#define SIM_ASSERT(condition)                                                                      \
    ((condition) ? (void)0 : sim_fail("%s:%d: not so: %s", __FILE__, __LINE__, #condition))

/* ---- Fibers and processes (schedule.c, process.c) ----------------------------------------------- */

typedef enum sim_wait_kind {
    WAIT_NOTHING,
    WAIT_REST,
    WAIT_WORD,
    WAIT_OBJECTS,
    WAIT_JOIN
} sim_wait_kind;

/* Where a word lies: for shared memory the file and the place in it, else the address. */
typedef struct sim_word {
    uint64_t device, file, place;
} sim_word;

struct sim_fiber {
    sim_fiber *next; /* of the process */
    sim_process *process;
    int number;  /* in the process */
    uint32_t id; /* in the world, from 1 */
    fiber_context context;
    void *(*run)(void *);
    void *argument;
    bool ended, joined;
    bool waits;          /* for a wake-up or its deadline */
    bool woken;          /* not: its deadline has come */
    bool held;           /* it would run, but the process is stopped */
    uint64_t generation; /* of its run event: others are out of date */
    uint64_t debt_ns;    /* what it has spent and the world has not seen yet */
    uint64_t slice_ns;   /* so much debt makes it switch */
    uint64_t earliest_ns;
    unsigned locks; /* held */
    int saved_errno;
    struct {
        sim_wait_kind kind;
        uint64_t deadline_ns;
        sim_word word;
        const char *what; /* for descriptions */
    } wait;
    sim_fiber *sleep_next, *sleep_previous; /* all that sleep on words */
    sim_fiber *joiner;
    struct sim_watcher *watching; /* what it waits for now; the room is kept */
    size_t watching_count, watching_room;
    char text[STATUS_TEXT_MAX];
};

/* A piece of address space that a process has mapped. */
typedef struct sim_mapping {
    uintptr_t start, end;
    uint64_t device, file, offset; /* file 0: memory of its own */
} sim_mapping;

typedef struct sim_block sim_block;

struct sim_process {
    int number, host, place; /* the place-th process of its host */
    sim_life life;
    sim_fiber *fibers;
    int fiber_count;
    uint32_t slowness; /* percent */
    sim_stream random;
    uint64_t asked, fail_at; /* fail_at 0: never */
    bool fail_onwards;
    sim_refusals refusals;
    sim_block *blocks;
    uint64_t block_count, block_bytes;
    sim_mapping *mappings;
    size_t mapping_count, mapping_room;
    uint64_t descriptors;  /* open ones */
    sim_object *observers; /* that tell of its death */
    sim_leaks at_end;
};

typedef struct sim_event {
    uint64_t time, order;
    void (*run)(void *target,
                uint64_t number); /* NULL: the target is a fiber, the number its generation */
    void *target;
    uint64_t number;
} sim_event;

typedef struct sim_host {
    uint64_t clock_offset_ns;
    uint16_t next_port;
    int processes;
    sim_socket *bound; /* those with a name or port of their own */
} sim_host;

/* A descriptor. */
typedef struct sim_slot {
    sim_object *object; /* NULL: closed, or real */
    int owner;          /* a process; -1: nobody's */
} sim_slot;

/* What ranks have told of something that they must agree on (witness.c). */
typedef struct sim_testimony {
    uint64_t key, value;
    const char *what; /* NULL: free */
    int process;
} sim_testimony;

typedef struct sim_testimonies {
    sim_testimony *all; /* by hash */
    size_t count, room; /* room: a power of two */
} sim_testimonies;

struct sim {
    uint64_t seed, now_ns, until_ns;
    sim_testimonies testimonies;
    sim_settings settings;
    sim_stream schedule, network, harness;
    sim_event *events; /* a binary heap */
    size_t event_count, event_room;
    size_t clean_at; /* events at which those out of date are removed */
    uint32_t event_sequence;
    sim_fiber *running; /* NULL: the scheduler */
    fiber_context scheduler;
    int scheduler_errno;
    sim_fiber *sleepers, *last_sleeper;
    uint32_t fiber_count;
    sim_process **processes;
    int process_count, process_room;
    sim_host hosts[SIM_HOSTS_MAX];
    bool parted[SIM_HOSTS_MAX][SIM_HOSTS_MAX];
    sim_slot *slots, *real; /* by number: virtual descriptors, and real ones */
    size_t slot_count, slot_room, real_count;
    sim_object *objects; /* all that were ever made */
    bool (*point_hook)(void *, int);
    void *point_context;
    void (*failure)(void *, const char *);
    void *failure_context;
    bool halted, failed;
    sim_statistics statistics;
};

/* The one world there is; NULL: none. */
extern sim *sim_world;

/* The fiber that runs; NULL: none. */
static inline sim_fiber *sim_running(void)
{
    return sim_world == NULL ? NULL : sim_world->running;
}

/* The simulation's own memory: never refused, in no list. */
void *sim_allocate(size_t bytes); /* zeroed */
void sim_release(void *memory);
/* Makes room for one more at the end of an array. */
void *sim_grow(void *array, size_t count, size_t *room, size_t each);

void sim_push(sim *s, uint64_t time_ns, void (*run)(void *, uint64_t), void *target,
              uint64_t number);
/* The call that a fiber makes takes its time, and others may go first: never with a lock held. */
void sim_spend(void);
/* The same, and others go first in any case. */
void sim_let_others(void);
/* Waits for sim_wake; false: the deadline came first. */
bool sim_wait(sim_wait_kind kind, uint64_t deadline_ns, const char *what);
void sim_wake(sim_fiber *f);
/* What a fiber's timeout means in virtual time. */
uint64_t sim_deadline(uint64_t timeout_ns);
/* NULL: refused. */
sim_fiber *sim_fiber_make(sim_process *p, void *(*run)(void *), void *argument);
/* The running fiber does not run any more. */
_Noreturn void sim_leave(void);
/* All of it, for a process that has ended or been killed. */
void sim_process_finish(sim *s, sim_process *p, sim_life life);
/* Whether the world refuses what the running process asks for now. */
bool sim_refuses(const char *call);
void sim_sleeper_remove(sim *s, sim_fiber *f);

/* ---- Descriptors and what they stand for (object.c, poll.c) --------------------------------------- */

typedef enum sim_kind { KIND_SOCKET, KIND_BELL, KIND_POLL, KIND_PROCESS } sim_kind;

/* Somebody who wants to hear of changes: a fiber, or an entry of an epoll. */
typedef struct sim_watcher {
    struct sim_watcher *next, *previous;
    sim_object *target;
    uint32_t mask;
    sim_fiber *fiber; /* or: */
    struct sim_poll_item *item;
} sim_watcher;

struct sim_object {
    sim_kind kind;
    int references; /* descriptors, also those on their way in a socket */
    bool blocks;    /* calls wait */
    sim_watcher *watchers, *last_watcher;
    sim_object *next_made;
    bool rung;                 /* KIND_BELL */
    int process;               /* KIND_PROCESS: whose death it tells */
    sim_object *next_observer; /* of the same process */
};

void sim_object_begin(sim_object *o, sim_kind kind);
/* A new descriptor of the running process; takes a reference. -1 with errno. */
int sim_descriptor_give(sim_object *o);
/* NULL with errno EBADF: the running process has no such descriptor. */
sim_object *sim_descriptor_object(int fd);
void sim_reference_drop(sim_object *o);
void sim_descriptors_close_all(sim *s, sim_process *p);
void sim_real_note(int fd, int owner);
/* A real descriptor for the same file, that belongs to nobody. -1: there is none. */
int sim_real_copy(int fd);
void sim_real_close(int fd);

/* What poll would say now. */
uint32_t sim_object_ready(sim_object *o);
/* Something has become possible that may not have been so before. */
void sim_object_changed(sim_object *o, uint32_t events);
void sim_watch(sim_watcher *w, sim_object *o, uint32_t mask);
void sim_unwatch(sim_watcher *w);
void sim_unwatch_all(sim_fiber *f);
/* False: time is up. May return early, also with errno EINTR (-1 of a system call). */
typedef enum sim_waited { WAITED_READY, WAITED_TIME, WAITED_INTERRUPT } sim_waited;
sim_waited sim_object_wait(sim_object *o, uint32_t mask, uint64_t deadline_ns, const char *what);
uint32_t sim_poll_ready(sim_object *o);
void sim_poll_close(sim_object *o);
void sim_poll_free(sim_object *o);

/* ---- Sockets (socket.c, stream.c) ------------------------------------------------------------------ */

typedef struct sim_bytes {
    uint8_t *data;
    size_t size, start, used;
} sim_bytes;

/* Descriptors that travel with the bytes from `at` to `end` of a stream. */
typedef struct sim_luggage {
    struct sim_luggage *next;
    uint64_t at, end;
    int count;
    struct {
        sim_object *object; /* NULL: a real one */
        int real;
    } items[];
} sim_luggage;

typedef enum sim_phase { PHASE_NEW, PHASE_LISTENS, PHASE_CALLS, PHASE_OPEN, PHASE_OVER } sim_phase;

struct sim_socket {
    sim_object object; /* first: they are cast */
    int family, process, host;
    sim_phase phase;
    bool is_bound;
    bool any_address, reuses;
    uint32_t ip;
    uint16_t port;
    size_t name_bytes; /* AF_UNIX */
    char name[108];
    sim_socket *bound_next;

    sim_socket **waiting; /* of a listener: who has not been accepted */
    size_t waiting_first, waiting_count, waiting_room;

    uint32_t peer_ip; /* of a connection */
    uint16_t peer_port;
    int peer_process, peer_host;
    sim_socket *peer;  /* stays set to the end of the world */
    sim_bytes out, in; /* not delivered yet; not received yet */
    uint64_t limit;    /* bytes in `out`, and in `in` */
    uint64_t taken;    /* bytes of `in` that were received */
    uint64_t sent;     /* bytes that were ever put into `out` */
    sim_luggage *luggage, **luggage_end;
    bool moving;     /* a delivery is under way */
    bool end_wanted; /* after `out`, the peer hears that nothing follows */
    bool end_sent;   /* … and has heard it */
    bool end_received;
    bool hears_no_more; /* SHUT_RD */
    bool closed;        /* nobody has it any more */
    bool keeps_alive;   /* SO_KEEPALIVE: the system asks the other end after a while … */
    uint32_t idle_s;    /* … of so many seconds */
    bool silent;        /* nothing of it ever arrives, and it hears nothing */
    bool wants_room;    /* somebody found it full */
    bool resets;        /* SO_LINGER with no time */
    bool reset_wanted;  /* after `out`, the peer hears that the connection is reset */
    int error;          /* the next call gets it */
};

uint32_t sim_socket_ready(sim_socket *k);
void sim_socket_close(sim_socket *k);
void sim_socket_free(sim_socket *k);
sim_socket *sim_socket_make(sim *s, int family, bool blocks);
/* NULL: errno. */
sim_socket *sim_socket_of(int fd);
/* A connection of two sockets is there. */
void sim_socket_join(sim_socket *a, sim_socket *b);
bool sim_socket_is_unix(const sim_socket *k);
uint64_t sim_latency(sim *s, const sim_socket *k);
/* The delivery of what the socket has to send goes on, unless it does already. */
void sim_stream_move(sim *s, sim_socket *k, uint64_t delay_ns);
/* This end has gone away in the hard way: the other end hears it. */
void sim_stream_reset(sim *s, sim_socket *k);
/* This end hears a reset. */
void sim_stream_hear_reset(sim_socket *k);
/* `drop`: also its references; not at the end of the world, when the objects may be gone. */
void sim_luggage_free(sim_luggage *l, bool drop);
/* NULL with errno: a descriptor among them is not the process's. */
sim_luggage *sim_luggage_pack(const struct msghdr *message, bool *wrong);
/* Sends what one call may, with luggage or NULL (taken over when something was sent). */
ssize_t sim_stream_send(sim_socket *k, const struct msghdr *message, int flags, sim_luggage *l);
/* *l: luggage that came with it, now the caller's; NULL: there was none. */
ssize_t sim_stream_receive(sim_socket *k, const struct msghdr *message, int flags, sim_luggage **l);
void sim_bytes_put(sim_bytes *b, const void *from, size_t bytes);
/* `to` NULL: they are dropped. */
void sim_bytes_take(sim_bytes *b, void *to, size_t bytes);
void sim_bytes_free(sim_bytes *b);
bool sim_stream_has_room(const sim_socket *k);
/* Addresses (address.c). */
typedef struct sim_address {
    int family;
    uint32_t ip; /* 0: any */
    uint16_t port;
    size_t name_bytes;
    char name[108];
} sim_address;
bool sim_address_read(const struct sockaddr *system, socklen_t bytes,
                      sim_address *a); /* false: errno */
void sim_address_write(int family, uint32_t ip, uint16_t port, struct sockaddr *system,
                       socklen_t *bytes);
/* The host at an address, as another one sees it; -1: there is none. */
int sim_address_host(uint32_t ip, int from_host);
uint32_t sim_host_ip(int host);
bool sim_is_loopback(uint32_t ip);
bool sim_parted(const sim *s, const sim_socket *k);
/* After a partition: calls and deliveries start again. */
void sim_socket_resume(sim *s, sim_socket *k);

/* ---- Memory (memory.c) ------------------------------------------------------------------------------ */

sim_word sim_word_find(const sim_process *p, const void *address, bool shared);
void sim_memory_free(sim_process *p);

void sim_testimonies_free(sim *s); /* witness.c */

#endif
