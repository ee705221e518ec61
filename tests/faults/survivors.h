/* survivors.h: what the ranks of a broken job say, and whether they agree. */
#ifndef RUEDA_TESTS_SURVIVORS_H
#define RUEDA_TESTS_SURVIVORS_H

#include "tensors.h"

#include <stdint.h>

#define SENTENCE_MOST 600

/* What a rank says of the end of a request. */
typedef struct saying {
    bool said;
    rueda_status status;
    char sentence[SENTENCE_MOST];
    uint64_t ns; /* the clock then */
} saying;

/* Memory that a test shares with the processes it starts; never NULL. */
void *shared_take(size_t bytes);
void shared_give(void *memory, size_t bytes);

uint64_t clock_ns(void);
void sleep_ms(int ms);
/* Until a counter of the job (see job_counter) has come so far. */
void await_counter(int index, int value);
/* Until a process is stopped by a signal, or gone. */
void await_stop(int process);

/* In a rank: notes the status, with the thread's last sentence if it is an error. */
void say(saying *s, rueda_status status);

/* Whether all ranks but those in `silent` (bits) have said the same, with this status and this part in
 * the sentence; if not, why not goes to stderr. */
bool all_say(const saying *sayings, int ranks, unsigned long long silent, rueda_status wanted,
             const char *part);

/* An allreduce of one number; waits. */
rueda_status run_one(const char *name);
/* The same, submitted; `value` must stay. */
rueda_request *submit_one(const char *name, double *value);

/* How the ranks of this test reach each other. */
bool uses_network(void);     /* tcp between some of them */
bool uses_memory_only(void); /* shared memory between all */

/* Runs the job, or fails the test; sets *died as try_job does. */
void run_fatal_job(const job *j, unsigned long long *died);

/* Runs trial 0 … count−1, several at a time, each in a process that may start jobs; whether all were
 * well. Each says itself what was wrong, and that nothing is left is looked at for it. */
bool run_side_by_side(int count, bool (*trial)(int number));

/* Whether jobs of this process have left no socket, memory, file or process behind; else says what. */
bool nothing_is_left(void);
/* The same as the last act of a group of tests. */
int look_for_rest(void **state);

#endif
