/* engine.h: one rank of one generation of a job; who drives, what is in flight.
 *
 * Driving. At any moment at most one thread drives: it moves negotiation and plans on. A thread that
 * waits for a request drives if nobody else does; the background thread drives while nobody waits.
 * `driving` is taken with a try and never waited for. Submitting only takes a queue's lock.
 * Invariant: everything below "the driver's" is touched by the driving thread alone.
 */
#ifndef RUEDA_ENGINE_H
#define RUEDA_ENGINE_H

#include "base/heartbeat.h"
#include "boot/boot.h"
#include "exec/exec.h"
#include "members/members.h"
#include "memory/heap.h"
#include "negotiate/negotiate.h"
#include "observe/timeline.h"
#include "p2p/p2p.h"
#include "transport/registry.h"

typedef struct engine engine;
typedef struct process_set process_set;

/* A plan in flight. */
typedef struct operation {
    exec_op exec;
    process_set *set;
    uint8_t kind; /* signature_kind */
    bool large;
    uint32_t channel;
    uint64_t bytes;
    uint32_t count;
    entry **entries;      /* `count`; NULL where we have joined */
    exec_tensor *tensors; /* `count` */
    exec_extent *extents; /* of IN, then of OUT */
    uint8_t *neutral;     /* stands in for tensors we don't have */
    int32_t target;       /* ADD_SET: what was made; REMOVE_SET: what goes */
    bool started, after_barrier;
    uint64_t decided_ns, began_ns; /* for the timeline; decided_ns 0: it was off then */
    struct operation *next;
} operation;

typedef struct operation_list {
    operation *first, **end; /* in launch order; end is NULL for a list that was never used */
    uint32_t count;
} operation_list;

/* Why two classes: a small operation must never wait in line behind a large one. */
typedef enum lane { LANE_SMALL, LANE_LARGE, LANE_COUNT } lane;

typedef struct known_plan known_plan;

/* How long nothing was heard of a rank, and its last sign. */
typedef struct watch_silence {
    uint64_t beats, ns;
} watch_silence;

/* What this rank has asked about tensors that wait for too long; see stall.c. */
typedef struct stall_question {
    uint32_t number; /* 0: nothing is asked now */
    bool ends;       /* they have waited so long that the job ends */
    process_set *set;
    uint64_t asked_ns, next_look_ns;
} stall_question;

struct process_set {
    _Atomic bool exists; /* written last, by the driver */
    _Atomic bool ending; /* it is being removed: nobody takes hold of it any more */
    _Atomic bool called; /* it is, or will be at once, in the list of called sets; see busy.c */
    bool member;         /* this rank is in it; the rest is valid only then */
    bool busy;           /* it is in the driver's list of busy sets */
    process_set *next_called, *next_busy;
    uint16_t size, index;
    uint16_t *ranks;
    uint16_t hosts;    /* that its members are on; without shared memory each counts as its own */
    uint16_t *host_of; /* by member, see plan_layout; NULL: one host */
    control_members members;
    queue queue;
    negotiation negotiation;
    transport_channel **channels;  /* by channel; of an added set NULL until first used */
    exec_scratch *scratch;         /* by channel */
    uint64_t *begun, *done;        /* by channel: operations launched, and finished here */
    uint64_t launched[LANE_COUNT]; /* operations ever, decides the channel */
    operation_list flight[LANE_COUNT];
    p2p *_Atomic p2p; /* sends and receives; NULL until the first; made under the queue's lock */
    uint64_t next_number;
    known_plan *plans;
};

/* Counted by the driver, read by anyone. */
typedef struct engine_counters {
    _Atomic uint64_t operations, launches, bytes, sleeps;
} engine_counters;

struct engine {
    config settings;
    logger log;
    boot_identity who;
    uint64_t generation;
    bool met;           /* others know of this rank in this generation */
    bool others_failed; /* engine_start has failed because of other ranks */
    board *board;       /* NULL: not started by `rueda run` */
    segment segment;
    control control;       /* over the segment, and the network if there is one */
    transports transports; /* of all sets */
    heap *heap;            /* the process's, which outlives the engine */
    members *members;      /* likewise; NULL: the job is not elastic */
    const kernel_table *kernel;
    timeline timeline;
    trace trace;           /* the driver writes it */
    plan_algorithm forced; /* RUEDA_ALGORITHM */
    fault fault;           /* RUEDA_FAULT */
    bool crowded;          /* more ranks than cores here: give the core away early */
    uint32_t
        pieces; /* wanted of a tensor, alike on all ranks; few where ranks take turns on a core */

    world_lock sets_lock;
    process_set *sets;         /* SEGMENT_SETS places; a set's number is its place */
    _Atomic int32_t set_limit; /* all sets have smaller numbers: nobody need look further */
    _Atomic uint32_t set_users[SEGMENT_SETS]; /* calls that hold a set, see engine_set */
    _Atomic int last_joined;
    engine_counters counters;

    _Atomic uint64_t outstanding; /* entries submitted here, or stood in for, and not ended */
    _Atomic uint64_t unseen;      /* bytes submitted since the driver last looked */
    _Atomic uint32_t driving;     /* 0 or 1 */
    _Atomic uint32_t forking;     /* a thread is about to fork: nobody may drive */
    _Atomic(process_set *)
        called;                /* added sets with mail that the driver has not seen, see busy.c */
    _Atomic uint32_t napping;  /* the driver sleeps, but will look by itself very soon */
    _Atomic uint32_t waiters;  /* threads inside engine_wait */
    _Atomic uint32_t sleepers; /* of those, asleep on `events` */
    _Atomic uint32_t events;   /* changes when requests end or the driver leaves */
    world_thread background;
    bool has_background;
    _Atomic uint32_t background_state; /* see background.c */
    _Atomic uint32_t stopping;

    /* the driver's */
    process_set *busy;             /* added sets that a pass looks at, see busy.c */
    uint64_t sets_added;           /* so far, alike on all ranks */
    uint32_t set_count;            /* that exist, likewise */
    int32_t resting;               /* place of the set that the last change removed; 0: none */
    bool rested_in;                /* this rank was in that set */
    uint64_t *set_hashes;          /* by place, of the ranks; 0: no set */
    operation_list set_operations; /* additions and removals of sets, one after the other */
    rueda_status broken;           /* not OK: everything ends with it */
    uint32_t lingering;            /* operations that cannot end yet, see linger.c */
    uint64_t linger_until_ns;      /* 0: not looked at yet */
    char broken_text[STATUS_TEXT_MAX];
    int *process_fds; /* of the other ranks of this host, to see them die; see os.h */
    watch_silence *silences;
    heartbeat heartbeat; /* by memory; the network has its own */
    uint64_t next_check_ns, next_waiting_ns;
    stall_question stall;
    uint64_t yield_from_ns; /* before it a yield would take long, see drive.c */
    uint64_t decided_ns;    /* when the last round was decided; 0: the timeline was off */
};

/* Of the options (all fields) the process sets are left to the caller. Heap and members (NULL: the job is not elastic)
 * must outlive the engine. ERR_MEMBERS: the members have changed again. */
rueda_status engine_start(engine *e, const config *settings, const rueda_init_options *options,
                          uint64_t generation, heap *h, members *m);
/* What the setting means where it was not given. */
void engine_choose_heartbeat(config *settings);
/* Finishes what is agreed, ends the rest with ERR_SHUTDOWN, leaves the job. */
void engine_stop(engine *e);
/* Around a fork, one at a time: nobody drives meanwhile, so that the child finds everything whole. A
 * driver that does not make room soon (it may be the forking thread itself, in a signal handler) is not
 * waited for: false. */
bool engine_before_fork(engine *e);
void engine_after_fork(engine *e, bool paused); /* in the parent */
/* In a forked child: closes its copies of the descriptors, so that the rank's death is seen. */
void engine_forget(engine *e);

/* Hands entries over (see queue_submit) and, unless the caller is about to wait, sees to it that
 * someone drives. */
rueda_status engine_submit(engine *e, process_set *s, entry *const *entries,
                           const char *const *names, size_t count, bool will_wait);

/* The same for a send or a receive, which is taken over on success. */
rueda_status engine_submit_call(engine *e, process_set *s, p2p_call *call, bool will_wait);

/* Until the request has ended or now ≥ deadline_ns. Returns whether it has ended. */
bool engine_wait(engine *e, const rueda_request *r, uint64_t deadline_ns);

/* The set if this rank is a member; ERR_ARGUMENT: unknown, ERR_STATE: not a member. On success it is
 * held: its removal waits for engine_release_set, which must come soon. */
rueda_status engine_set(engine *e, int32_t id, process_set **set);
void engine_release_set(engine *e, const process_set *set); /* NULL is allowed */

/* ---- between the files of this folder ---- */

/* The time for a pass. Where there is no network nothing in it depends on time, and the clock costs as much as a
 * small step. */
static inline uint64_t engine_now(const engine *e)
{
    return e->control.network == NULL ? 0 : world_now_ns();
}
bool engine_has_flight(const engine *e); /* some operation is */
/* So much has been handed over, and whoever handed it over does not wait. */
void engine_call_driver(engine *e, uint64_t bytes);

/* progress.c: one pass over everything; true: something moved. It never waits, and reads no clock. */
bool engine_step(engine *e, uint64_t now);
void engine_break(engine *e, rueda_status status, const char *text);
void engine_break_all(engine *e, rueda_status status); /* the sentence is the thread's */
/* Nothing more can be submitted to the set, and what waits for a decision ends. */
void engine_end_waiting(engine *e, process_set *s, rueda_status status, const char *text);
void engine_tell_waiters(engine *e);

/* linger.c: operations of a broken job on memory that peers can reach. */
bool linger_is_needed(const operation *o);
bool linger_release(engine *e);             /* ends those it can; true: some */
void linger_watch(engine *e, uint64_t now); /* for peers that do not let go; called now and then */
void linger_end(engine *e);                 /* all of them, at shutdown */

/* fuse.c: takes the first and all later records that go with it out of the list (they become NULL) and puts
 * them into `fused`; returns how many. */
uint32_t fuse_take(const engine *e, record **list, uint32_t count, record **fused);

/* shape.c: the chunks of a plan in one space of fused tensors. Returns the largest. */
uint64_t shape_fused(const engine *e, exec_extent *extents, const plan *p, uint64_t elements,
                     uint64_t element_bytes);
/* Chunks of IN and OUT (`chunks` after it) of an operation with one tensor, and its output, as the collective
 * wants them; `parts` are the plan's. *largest: of any rank. */
rueda_status shape_single(operation *o, const record *r, uint32_t parts, uint32_t chunks,
                          uint64_t *largest);
uint64_t shape_rows(const record *r, const process_set *s); /* of all members together */

/* launch.c */
void launch_decided(engine *e, process_set *s, const negotiation_result *result);

/* operation.c */
void engine_end_entry(engine *e, process_set *s, entry *ended, rueda_status status,
                      const char *text);
operation *operation_new(uint32_t count, uint32_t chunks);
void operation_append(operation_list *list, operation *o);
/* Takes *link out and returns it; link is the list's own or an operation's `next`. */
operation *operation_remove(operation_list *list, operation **link);
/* Ends every entry of it, and frees it. */
void operation_finish(engine *e, operation *o, rueda_status status, const char *text);
void operation_free(operation *o);

/* plans.c: the plan for a decided tensor, or for several that are fused and have so many bytes. It belongs to
 * the set. */
rueda_status plans_find(engine *e, process_set *s, const record *r, uint64_t bytes,
                        uint32_t tensors, const plan **found);
void plans_free(process_set *s);

/* sets.c */
rueda_status sets_make(engine *e, int32_t id, const int64_t *ranks, uint32_t count);
void sets_note(engine *e, int32_t id, const int64_t *ranks, uint32_t count); /* it exists now */
void sets_unmake(engine *e, int32_t id);
/* Before the global set is made, and after the last one is gone. ERR_MEMORY. */
rueda_status sets_init(engine *e);
void sets_fini(engine *e);
/* Provides what an operation of an added set uses of its channel; `bytes`: its largest chunk. *slot_bytes:
 * what it has of each slot. */
rueda_status sets_provide(engine *e, const operation *o, const plan *p, uint64_t bytes,
                          uint64_t *slot_bytes);
rueda_status sets_begin(engine *e, operation *o);
void sets_complete(engine *e, operation *o);
bool sets_drained(engine *e, operation *o);

/* busy.c: which added sets a pass looks at. call: any thread, when mail is there for a set that it holds. */
void busy_call(engine *e, process_set *s);
void busy_take_calls(engine *e);
void busy_add(engine *e, process_set *s);
void busy_remove(engine *e, process_set *s);
bool busy_is_over(const process_set *s); /* nothing to do in it until mail comes */
/* The global set after NULL, then each busy one; NULL after the last. Nothing is pending in any other. */
const process_set *busy_next(const engine *e, const process_set *s);

/* sendrecv.c: sends and receives; `step` and `end` only of a set that has some, `listen` once there is a mesh. */
void sendrecv_listen(engine *e);
bool sendrecv_step(engine *e, process_set *s);
void sendrecv_end(engine *e, process_set *s, rueda_status status, const char *text);
bool sendrecv_is_pending(const engine *e);
bool sendrecv_is_stuck_on(const engine *e, const process_set *s, uint16_t index);
void sendrecv_report(engine *e, uint64_t now);

/* stall.c: tensors that wait for ranks which do not submit them. */
void stall_watch(engine *e, uint64_t now);
control_answerer stall_answerer(engine *e);

/* watch.c: deaths, departures and stalls; called now and then by a driver that finds nothing to do. */
void watch_peers(engine *e, uint64_t now);
rueda_status watch_open(engine *e);
void watch_close(engine *e);
void watch_forget(engine *e); /* in a forked child */
/* Says that we are alive; returns when to say it again, in ns (UINT64_MAX: never). Any thread. */
uint64_t watch_beat(engine *e);

/* view.c: an elastic job goes on after a loss. begin: when all are there. lose: this rank has lost another. miss: it waits
 * for one that has left. */
#define VIEW_GOES_ON "rueda_members_update goes on with the others"
rueda_status view_begin(engine *e);
void view_end(engine *e); /* before anything of the engine ends */
void view_lose(engine *e, int rank);
void view_miss(engine *e);
rueda_status view_fail_lost(int rank, const char *why); /* its sentence */

/* sets.c: gives memory back that large operations have left; the caller drives, nothing is in flight. */
void sets_trim(engine *e);

/* notes.c: what the timeline and the trace are told. prepare: before the ranks meet, so that the file
 * is there for all; start: after. Any thread: timeline_start, submitted. */
rueda_status notes_prepare(engine *e);
rueda_status notes_start(engine *e);
void notes_clock(engine *e); /* tells the timeline rank 0's time, if it is known */
void notes_stop(engine *e);
rueda_status notes_timeline_start(engine *e, const char *path, bool mark_cycles);
void notes_submitted(const engine *e, entry *const *entries, size_t count);
void notes_decided(engine *e, const process_set *s, const negotiation_result *result);
void notes_running(operation *o);
void notes_finished(engine *e, const operation *o, rueda_status status);
void notes_call_submitted(const engine *e, p2p_call *call);
void notes_call_ended(engine *e, const process_set *s, const p2p_call *call, rueda_status status);
void notes_waiting(engine *e, uint64_t now);
void notes_broken(engine *e, rueda_status status);

/* background.c */
rueda_status background_start(engine *e);
void background_stop(engine *e);
void background_call(engine *e, bool urgent);

/* drive.c */
bool drive_try(engine *e);
void drive_leave(engine *e);
void drive(engine *e, const rueda_request *until, uint64_t deadline_ns, bool background);

#endif
