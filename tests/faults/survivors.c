/* survivors.c: notes in shared memory, compared by the test. */
#include "survivors.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

void *shared_take(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        abort();
    return memory;
}

void shared_give(void *memory, size_t bytes)
{
    munmap(memory, bytes);
}

uint64_t clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void sleep_ms(int ms)
{
    struct timespec rest = {ms / 1000, ms % 1000 * 1000000L};
    while (nanosleep(&rest, &rest) != 0)
        ;
}

void await_counter(int index, int value)
{
    while (atomic_load(job_counter(index)) < value)
        sleep_ms(1);
}

/* "number (name) state …" */
static char state_of(int process)
{
    char path[32], text[256] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", process);
    FILE *file = fopen(path, "r");
    if (file == NULL)
        return 'X';
    const bool read = fgets(text, sizeof text, file) != NULL;
    fclose(file);
    const char *name_end = read ? strrchr(text, ')') : NULL;
    return name_end == NULL ? 'X' : name_end[2];
}

void await_stop(int process)
{
    for (char state; (state = state_of(process)) != 'T' && state != 'X' && state != 'Z';)
        sleep_ms(5);
}

void say(saying *s, rueda_status status)
{
    s->ns = clock_ns();
    s->status = status;
    snprintf(s->sentence, sizeof s->sentence, "%s", status == RUEDA_OK ? "" : rueda_error());
    s->said = true;
}

bool all_say(const saying *sayings, int ranks, unsigned long long silent, rueda_status wanted,
             const char *part)
{
    const saying *first = NULL;
    for (int r = 0; r < ranks; r++) {
        const saying *s = &sayings[r];
        if ((silent >> r & 1) != 0)
            continue;
        first = first == NULL ? s : first;
        if (s->said && s->status == wanted && strstr(s->sentence, part) != NULL &&
            strcmp(s->sentence, first->sentence) == 0)
            continue;
        fprintf(stderr, "rank %d of %d: %s (%s) instead of %s (%s)%s%s\n", r, ranks,
                s->said ? rueda_status_name(s->status) : "nothing", s->sentence,
                rueda_status_name(wanted), part,
                s == first ? "" : "; the first said: ", s == first ? "" : first->sentence);
        return false;
    }
    return true;
}

rueda_request *submit_one(const char *name, double *value)
{
    const int64_t shape[] = {1};
    const rueda_tensor t = RUEDA_TENSOR(name, value, RUEDA_F64, 1, shape);
    rueda_request *request = NULL;
    CHECK_OK(rueda_allreduce(&t, &RUEDA_OPTIONS(RUEDA_SUM), &request));
    return request;
}

rueda_status run_one(const char *name)
{
    double value = 1;
    const int64_t shape[] = {1};
    const rueda_tensor t = RUEDA_TENSOR(name, &value, RUEDA_F64, 1, shape);
    return rueda_allreduce(&t, &RUEDA_OPTIONS(RUEDA_SUM), NULL);
}

bool uses_network(void)
{
    return !uses_memory_only();
}

bool uses_memory_only(void)
{
    return getenv("RUEDA_TRANSPORT") == NULL && getenv("TEST_RANKS_ON_HOST") == NULL;
}

void run_fatal_job(const job *j, unsigned long long *died)
{
    if (!try_job(j, died))
        fail_msg("a job of %d ranks failed", j->ranks);
}

/* Names of abstract sockets start with those of the jobs, see harness.c. */
static int count_named_sockets(void)
{
    char line[512], name[64];
    int count = 0;
    snprintf(name, sizeof name, "@rueda/test-%d-", (int)getpid());
    FILE *file = fopen("/proc/net/unix", "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        count += strstr(line, name) != NULL;
    if (file != NULL)
        fclose(file);
    return count;
}

static int count_descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    int count = 0;
    for (struct dirent *e; folder != NULL && (e = readdir(folder)) != NULL;) {
        char target[128] = "";
        if (readlinkat(dirfd(folder), e->d_name, target, sizeof target - 1) > 0)
            count += strstr(target, "memfd:rueda") != NULL || strstr(target, "pidfd") != NULL;
    }
    if (folder != NULL)
        closedir(folder);
    return count;
}

static int count_files(void)
{
    DIR *folder = opendir("/dev/shm");
    int count = 0;
    for (struct dirent *e; folder != NULL && (e = readdir(folder)) != NULL;)
        count += strstr(e->d_name, "rueda") != NULL;
    if (folder != NULL)
        closedir(folder);
    return count;
}

bool nothing_is_left(void)
{
    const int sockets = count_named_sockets(), descriptors = count_descriptors(),
              files = count_files();
    const bool child = waitpid(-1, NULL, WNOHANG) != -1;
    if (sockets == 0 && descriptors == 0 && files == 0 && !child)
        return true;
    fprintf(stderr, "left behind: %d sockets, %d descriptors, %d files, %s process\n", sockets,
            descriptors, files, child ? "a" : "no");
    return false;
}

#define WORKERS 6 /* jobs at a time: mostly they wait */

typedef struct queue_of_trials {
    _Atomic int next, failed;
} queue_of_trials;

static _Noreturn void work_off(queue_of_trials *q, int count, bool (*trial)(int number))
{
    for (int i; atomic_load(&q->failed) == 0 && (i = atomic_fetch_add(&q->next, 1)) < count;) {
        if (!trial(i))
            atomic_store(&q->failed, 1);
    }
    if (!nothing_is_left())
        atomic_store(&q->failed, 1);
    _exit(EXIT_SUCCESS);
}

bool run_side_by_side(int count, bool (*trial)(int number))
{
    queue_of_trials *q = shared_take(sizeof *q);
    int status, ended = 0;
    for (int w = 0; w < WORKERS; w++) {
        const pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0)
            work_off(q, count, trial);
    }
    while (wait(&status) > 0)
        ended += WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS;
    const bool well = ended == WORKERS && atomic_load(&q->failed) == 0;
    shared_give(q, sizeof *q);
    return well;
}

int look_for_rest(void **state)
{
    (void)state;
    return nothing_is_left() ? 0 : -1;
}
