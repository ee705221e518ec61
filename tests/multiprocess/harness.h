/* harness.h: a job of N ranks inside a test.
 *
 * run_job forks the ranks with a fresh RUEDA_JOB, runs a function in each and waits for all. A rank
 * fails by a CHECK, by a signal, or by being the one that is still running when time is up; the test
 * then fails with the rank, what it was doing (see doing) and why, and no process is left.
 * cmocka's own assertions must not be used inside a rank: they would jump into the test's copy.
 *
 * With TEST_MPIRUN=COMMAND (mpirun and its options) jobs of TEST_MPI_RANKS ranks ("2,3"; others are
 * left out) are started by that command instead: the test runs itself anew there, and skips to the job
 * it is meant for (harness_mpi.c). Jobs whose ranks are to die are left out: mpirun ends all with them.
 */
#ifndef RUEDA_TESTS_HARNESS_H
#define RUEDA_TESTS_HARNESS_H

#include "rueda.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define HARNESS_MAX_RANKS 64

typedef void (*job_body)(int rank, int size, const void *argument);

typedef struct job {
    int ranks;
    job_body body;
    const void *argument;
    const char *const *environment; /* "NAME=value" …, NULL; or NULL */
    int seconds;                    /* time limit; 0: JOB_SECONDS */
    unsigned long long killed;      /* ranks (bits) that must end by SIGKILL */
    unsigned long long may_die;     /* ranks (bits) that may end by SIGKILL or well */
} job;

#define JOB_SECONDS 60

void run_job(const job *j);
/* The same for a process that is not the test itself: says what is wrong and returns whether all went
 * well. *died: the ranks (bits) that ended by SIGKILL; may be NULL. */
bool try_job(const job *j, unsigned long long *died);
/* The usual case. */
void run_ranks(int ranks, job_body body, const void *argument);

/* Whether jobs are started by mpirun. */
bool harness_has_mpirun(void);
/* Whether ranks of a host share memory, and not tcp or MPI, which a form of the test may force. */
bool harness_shares_memory(void);

/* ---- inside a rank ---- */

/* What this rank is doing now; shown when it fails or hangs. */
void doing(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Says where and why, and ends the rank. */
void rank_fail(const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4), noreturn));

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition))                                                                          \
            rank_fail(__FILE__, __LINE__, "%s", #condition);                                       \
    } while (0)

#define CHECK_EQUAL(got, expected)                                                                 \
    do {                                                                                           \
        const long long got_ = (long long)(got), expected_ = (long long)(expected);                \
        if (got_ != expected_)                                                                     \
            rank_fail(__FILE__, __LINE__, "%s is %lld, not %lld", #got, got_, expected_);          \
    } while (0)

/* The call's status, with rueda_error() in the report. */
#define CHECK_STATUS(call, wanted)                                                                 \
    do {                                                                                           \
        const rueda_status status_ = (call), wanted_ = (wanted);                                   \
        if (status_ != wanted_)                                                                    \
            rank_fail(__FILE__, __LINE__, "%s gave %s, not %s: %s", #call,                         \
                      rueda_status_name(status_), rueda_status_name(wanted_), rueda_error());      \
    } while (0)
#define CHECK_OK(call) CHECK_STATUS(call, RUEDA_OK)

/* rueda_error() has this part. */
#define CHECK_SAYS(part) check_says(__FILE__, __LINE__, (part))
void check_says(const char *file, int line, const char *part);

/* Waits until all ranks of the job are here; needs no rueda. */
void meet(void);

/* A counter that all ranks of the job share, for order between them; at most HARNESS_COUNTERS. */
#define HARNESS_COUNTERS 16
_Atomic int *job_counter(int index);

/* stderr of this rank from now on goes to memory; the second call gives what was written. */
void capture_stderr(void);
const char *captured_stderr(void);

/* A sequence of numbers that depends only on its start; the same on all ranks. */
typedef struct dice {
    unsigned long long state;
} dice;
unsigned long long roll(dice *d);
size_t roll_below(dice *d, size_t limit);
/* A random order of 0 … count−1. */
void shuffle(dice *d, size_t *order, size_t count);

#endif
