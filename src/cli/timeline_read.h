/* timeline_read.h: what the lines of timelines add up to. Reads what src/observe/timeline_text.c writes: an
 * event a line. */
#ifndef RUEDA_CLI_TIMELINE_READ_H
#define RUEDA_CLI_TIMELINE_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define TIMELINE_DEPTH_MAX 8    /* of activities in activities */
#define TIMELINE_RANKS_MAX 4096 /* as PLAN_MAX_RANKS */
#define TIMELINE_REASON_MAX 256

typedef enum timeline_activity {
    ACTIVITY_NEGOTIATE,
    ACTIVITY_QUEUE,
    ACTIVITY_WORK,
    ACTIVITY_COUNT
} timeline_activity;

/* One tensor, all ranks. Times are microseconds. */
typedef struct timeline_tensor {
    uint32_t pid;
    char *name; /* NULL: not said */
    uint64_t operations;
    double us[ACTIVITY_COUNT], longest_us;
} timeline_tensor;

/* An activity that has begun. */
typedef struct timeline_open {
    timeline_activity activity; /* ACTIVITY_COUNT: the operation as a whole */
    double ts;
} timeline_open;

/* A tensor on a rank. */
typedef struct timeline_lane {
    uint32_t pid;
    int tid, depth;
    timeline_open open[TIMELINE_DEPTH_MAX];
    int last_rank; /* of those that were ready in the activity that is open; -1: none yet */
    double last_ts, before_ts;
} timeline_lane;

/* How often a rank was the last to be ready, and how long after the one before it. */
typedef struct timeline_late {
    uint64_t times;
    double us;
} timeline_late;

typedef struct timeline_sum {
    timeline_tensor *tensors; /* by pid, in an open hash table */
    size_t tensor_count, tensor_room;
    timeline_lane *lanes;
    size_t lane_count, lane_room;
    timeline_late late[TIMELINE_RANKS_MAX]; /* as rank 0 saw it, or the lowest rank there is */
    int first_tid;                          /* that rank; -1: none yet */
    uint64_t events, dropped, rounds;
    double first_ts, last_ts;
    bool failed; /* out of memory */
} timeline_sum;

void timeline_sum_init(timeline_sum *s);
void timeline_sum_fini(timeline_sum *s);

/* Adds a file, and copies its elements to `merged` if that is not NULL (with ",\n" before each but the
 * first of all). False: what is wrong and in which line is in `reason`. */
bool timeline_sum_add(timeline_sum *s, FILE *from, FILE *merged, char reason[TIMELINE_REASON_MAX]);

/* Activities that have begun and not ended, over all tensors. */
size_t timeline_sum_open(const timeline_sum *s);

/* The tensors with most time first; the caller frees the array. NULL: out of memory, or none. */
timeline_tensor **timeline_sum_sorted(const timeline_sum *s);
double timeline_tensor_us(const timeline_tensor *t); /* of all activities */

#endif
