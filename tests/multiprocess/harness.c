/* harness.c: forks ranks, waits for them, says which failed or hung. */
#include "harness.h"
#include "harness_mpi.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define DOING_MAX 160
#define CAPTURED_MAX 16384
#define FAILED 1

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SLOWNESS 5 /* of a sanitizer */
#else
#define SLOWNESS 1
#endif

/* Shared between the test and its ranks. */
typedef struct board {
    char doing[HARNESS_MAX_RANKS][DOING_MAX];
    pthread_barrier_t meeting;
    _Atomic int counters[HARNESS_COUNTERS];
} board;

static board *shared;
static int my_rank, my_size;
static int captured = -1;

/* ---- inside a rank ---- */

/* Several threads of a rank may say it; the last one counts. */
void doing(const char *format, ...)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    va_list arguments;
    va_start(arguments, format);
    pthread_mutex_lock(&lock);
    vsnprintf(shared->doing[my_rank], DOING_MAX, format, arguments);
    pthread_mutex_unlock(&lock);
    va_end(arguments);
}

void rank_fail(const char *file, int line, const char *format, ...)
{
    char text[2048];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fprintf(captured < 0 ? stderr : stdout, "%s:%d: rank %d of %d, %s: %s\n", file, line, my_rank,
            my_size, shared->doing[my_rank], text);
    fflush(NULL);
    _exit(FAILED);
}

void check_says(const char *file, int line, const char *part)
{
    if (strstr(rueda_error(), part) == NULL)
        rank_fail(file, line, "the error does not say '%s': %s", part, rueda_error());
}

void meet(void)
{
    pthread_barrier_wait(&shared->meeting);
}

_Atomic int *job_counter(int index)
{
    return &shared->counters[index];
}

void capture_stderr(void)
{
    fflush(stderr);
    captured = memfd_create("stderr", MFD_CLOEXEC);
    if (captured < 0 || dup2(captured, STDERR_FILENO) < 0)
        rank_fail(__FILE__, __LINE__, "cannot redirect stderr: %s", strerror(errno));
}

const char *captured_stderr(void)
{
    static char text[CAPTURED_MAX];
    const ssize_t bytes = pread(captured, text, sizeof text - 1, 0);
    text[bytes < 0 ? 0 : bytes] = '\0';
    return text;
}

/* splitmix64 */
unsigned long long roll(dice *d)
{
    unsigned long long z = d->state += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

size_t roll_below(dice *d, size_t limit)
{
    return (size_t)(roll(d) % limit);
}

void shuffle(dice *d, size_t *order, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const size_t j = roll_below(d, i + 1);
        order[i] = order[j];
        order[j] = i;
    }
}

/* ---- the test's side ---- */

static void set_number(const char *name, int value)
{
    char text[16];
    snprintf(text, sizeof text, "%d", value);
    setenv(name, text, 1);
}

/* Hosts are made up where TEST_RANKS_ON_HOST says how many ranks each has, or TEST_HOSTS_IN_TURN over
 * how many the ranks are dealt. */
static void set_host(int rank)
{
    char name[32];
    const char *count = getenv("TEST_RANKS_ON_HOST"), *hosts = getenv("TEST_HOSTS_IN_TURN");
    if (count == NULL && hosts == NULL)
        return;
    snprintf(name, sizeof name, "host%d", count != NULL ? rank / atoi(count) : rank % atoi(hosts));
    setenv("RUEDA_HOST", name, 1);
}

static void apply_environment(const job *j, int rank)
{
    set_host(rank);
    for (size_t i = 0; j->environment != NULL && j->environment[i] != NULL; i++)
        putenv((char *)j->environment[i]);
}

static void set_environment(const job *j, int rank, int number)
{
    char name[64];
    snprintf(name, sizeof name, "test-%d-%d", (int)getppid(), number);
    setenv("RUEDA_JOB", name, 1);
    set_number("RUEDA_RANK", rank);
    set_number("RUEDA_SIZE", j->ranks);
    set_number("RUEDA_LOCAL_RANK", rank);
    set_number("RUEDA_LOCAL_SIZE", j->ranks);
    apply_environment(j, rank);
}

static void run_body(const job *j)
{
    j->body(my_rank, my_size, j->argument);
    doing("exit");
    exit(EXIT_SUCCESS);
}

/* A rank that crashes ends by its signal; cmocka would go on with its copy of the test. */
static void crash_in_earnest(void)
{
    static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
        signal(signals[i], SIG_DFL);
}

static void run_rank(const job *j, int rank, int number)
{
    crash_in_earnest();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    my_rank = rank;
    my_size = j->ranks;
    doing("start");
    set_environment(j, rank, number);
    run_body(j);
}

static bool open_board(int ranks, int fd)
{
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE,
                  MAP_SHARED | (fd < 0 ? MAP_ANONYMOUS : 0), fd, 0);
    if (shared == MAP_FAILED)
        return false;
    pthread_barrierattr_t attributes;
    pthread_barrierattr_init(&attributes);
    pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&shared->meeting, &attributes, (unsigned)ranks);
    pthread_barrierattr_destroy(&attributes);
    return true;
}

/* Why a rank that has ended was not meant to end like this, or NULL. */
static const char *complaint(const job *j, int rank, int status, char *text, size_t bytes)
{
    const bool dies = (j->killed >> rank & 1) != 0, may_die = (j->may_die >> rank & 1) != 0;
    if (WIFSIGNALED(status) && ((!dies && !may_die) || WTERMSIG(status) != SIGKILL))
        snprintf(text, bytes, "ended by signal %d (%s)", WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
    else if (WIFEXITED(status) && dies)
        snprintf(text, bytes, "was not killed");
    else if (WIFEXITED(status) && WEXITSTATUS(status) != EXIT_SUCCESS)
        snprintf(text, bytes, "exited with %d", WEXITSTATUS(status));
    else
        return NULL;
    return text;
}

/* Until a rank has ended or the time is up. Returns its number, or -1. */
static int next_ended(const pid_t *pids, int ranks, const struct timespec *deadline, int *status)
{
    for (;;) {
        for (int r = 0; r < ranks; r++) {
            if (pids[r] > 0 && waitpid(pids[r], status, WNOHANG) == pids[r])
                return r;
        }
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        if (now.tv_sec >= deadline->tv_sec)
            return -1;
        sigset_t child;
        sigemptyset(&child);
        sigaddset(&child, SIGCHLD);
        sigtimedwait(&child, NULL, &(struct timespec){deadline->tv_sec - now.tv_sec, 0});
    }
}

static void kill_rest(pid_t *pids, int ranks)
{
    for (int r = 0; r < ranks; r++) {
        if (pids[r] <= 0)
            continue;
        kill(pids[r], SIGKILL);
        waitpid(pids[r], NULL, 0);
        pids[r] = 0;
    }
}

/* Waits for all; the first complaint ends the rest. */
static bool wait_for_ranks(const job *j, pid_t *pids, unsigned long long *died)
{
    const int seconds = (j->seconds > 0 ? j->seconds : JOB_SECONDS) * SLOWNESS;
    struct timespec deadline;
    clock_gettime(CLOCK_MONOTONIC, &deadline);
    deadline.tv_sec += seconds;
    for (int left = j->ranks; left > 0; left--) {
        int status;
        char text[128];
        const int rank = next_ended(pids, j->ranks, &deadline, &status);
        if (rank < 0) {
            for (int r = 0; r < j->ranks; r++) {
                if (pids[r] > 0)
                    print_error("rank %d of %d hangs after %d s in: %s\n", r, j->ranks, seconds,
                                shared->doing[r]);
            }
            return false;
        }
        pids[rank] = 0;
        *died |= (unsigned long long)WIFSIGNALED(status) << rank;
        if (complaint(j, rank, status, text, sizeof text) != NULL) {
            print_error("rank %d of %d %s in: %s\n", rank, j->ranks, text, shared->doing[rank]);
            return false;
        }
    }
    return true;
}

/* Returns whether all could be started. */
static bool start_ranks(const job *j, pid_t *pids, const sigset_t *mask, int number)
{
    fflush(NULL);
    for (int r = 0; r < j->ranks; r++) {
        pids[r] = fork();
        if (pids[r] == 0) {
            sigprocmask(SIG_SETMASK, mask, NULL);
            run_rank(j, r, number);
        }
        if (pids[r] < 0)
            return false;
    }
    return true;
}

static bool try_forked_job(const job *j, int number, unsigned long long *died)
{
    pid_t pids[HARNESS_MAX_RANKS] = {0};
    unsigned long long dead = 0;
    if (j->ranks < 1 || j->ranks > HARNESS_MAX_RANKS || !open_board(j->ranks, -1)) {
        print_error("a job of %d ranks cannot be run\n", j->ranks);
        return false;
    }
    sigset_t child, before;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    sigprocmask(SIG_BLOCK, &child, &before);
    const bool good = start_ranks(j, pids, &before, number) && wait_for_ranks(j, pids, &dead);
    kill_rest(pids, j->ranks);
    sigprocmask(SIG_SETMASK, &before, NULL);
    munmap(shared, sizeof *shared);
    shared = NULL;
    if (died != NULL)
        *died = dead;
    return good;
}

/* A rank that mpirun has started: finds the test's board and becomes the job's body. */
static void run_rank_of_mpirun(const job *j)
{
    const int fd = mpi_open_board();
    my_rank = mpi_rank();
    my_size = j->ranks;
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (shared == MAP_FAILED)
        _exit(FAILED);
    doing("start");
    apply_environment(j, my_rank);
    run_body(j);
}

/* The whole job is one process for us. */
static bool try_mpi_job(const job *j, int number)
{
    pid_t pid = 0;
    unsigned long long died = 0;
    const int fd = memfd_create("board", 0);
    if (fd < 0 || ftruncate(fd, sizeof *shared) != 0 || !open_board(j->ranks, fd))
        return false;
    fflush(NULL);
    const job whole = {.ranks = 1, .seconds = j->seconds};
    const bool good = mpi_start(j, number, fd, &pid) && wait_for_ranks(&whole, &pid, &died);
    for (int r = 0; !good && r < j->ranks; r++)
        print_error("rank %d of %d was in: %s\n", r, j->ranks, shared->doing[r]);
    mpi_end(pid);
    munmap(shared, sizeof *shared);
    shared = NULL;
    close(fd);
    return good;
}

/* Jobs are numbered in the order in which the test starts them, also in ranks that run it anew. */
bool try_job(const job *j, unsigned long long *died)
{
    static int number;
    number++;
    if (mpi_job_number() == number)
        run_rank_of_mpirun(j);
    if (mpi_job_number() > 0 && mpi_job_number() < number)
        _exit(FAILED); /* the test has gone another way than its ranks */
    if (mpi_job_number() > number || (harness_has_mpirun() && !mpi_serves(j)))
        return true;
    return harness_has_mpirun() ? try_mpi_job(j, number) : try_forked_job(j, number, died);
}

bool harness_shares_memory(void)
{
    const char *transport = getenv("RUEDA_TRANSPORT");
    const bool by_mpirun =
        harness_has_mpirun() || mpi_job_number() > 0; /* the test, or its ranks */
    return !by_mpirun && (transport == NULL || strcmp(transport, "shm") == 0);
}

void run_job(const job *j)
{
    if (!try_job(j, NULL))
        fail_msg("a job of %d ranks failed", j->ranks);
}

void run_ranks(int ranks, job_body body, const void *argument)
{
    run_job(&(job){.ranks = ranks, .body = body, .argument = argument});
}
