/* members_parts.h: what the files of this folder share of a process's part in an elastic job. */
#ifndef RUEDA_MEMBERS_PARTS_H
#define RUEDA_MEMBERS_PARTS_H

#include "base/heartbeat.h"
#include "members/members.h"
#include "members/roster.h"
#include "world/world.h"

#define MEMBERS_MS UINT64_C(1000000)

/* How long nothing was heard of a worker, and its last sign. */
typedef struct silence {
    uint64_t beats, ns;
} silence;

struct members {
    uint32_t worker;
    int roster_fd;
    roster roster;
    world_thread thread;
    _Atomic bool runs; /* the thread */
    _Atomic uint32_t stopping, leaving;
    _Atomic uint32_t events; /* changes when something below `lock` has changed */

    /* the thread's */
    agreement agreement;
    uint64_t waited_ns; /* since votes are due, or since we lost patience */
    uint64_t last_ns;   /* of the last pass */
    uint64_t led_ns;    /* when we last began a ballot */
    heartbeat heartbeat;
    silence *silences; /* by worker */

    world_lock lock;       /* for what follows */
    int *process_fds;      /* by worker */
    members_list reported; /* as lost by the engine, and the thread has not seen it yet */
    bool calls;            /* likewise: the engine needs another view */
    members_engine engine;
    bool engine_is_used;  /* by the thread, now */
    bool engine_is_ended; /* it was told to end */
    bool is_called;       /* votes are due; written by the thread alone */
    bool is_voting;       /* no engine may begin until the next view is decided */
    members_view adopted, decided;
};

/* thread.c: the members' thread; the argument is the members. */
void *members_run_thread(void *argument);
/* Says to the other workers of the host what our statement is now. */
void members_tell_others(members *m);

#endif
