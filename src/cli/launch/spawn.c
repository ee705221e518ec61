/* spawn.c: what a process has to do to become a rank; child.c starts it. */
#include "cli/launch/spawn.h"

#include "cli/launch/child.h"
#include "cli/launch/facts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

void spawn_set_variable(const char *assignment)
{
    const char *value = strchr(assignment, '=');
    char *name = value == NULL ? NULL : strndup(assignment, (size_t)(value - assignment));
    if (name != NULL)
        setenv(name, value + 1, true);
    free(name);
}

static void set_variable(void *unused, const char *name, const char *value)
{
    (void)unused;
    setenv(name, value, true);
}

static void set_environment(const spawn_context *c, int index)
{
    for (char **own = c->job->ranks[index].environment; *own != NULL; own++)
        spawn_set_variable(*own);
    unsetenv("RUEDA_MEET"); /* those of a job that we are started in */
    unsetenv("RUEDA_RESULTS_FD");
    setenv("RUEDA_BOARD", c->board, true);
    facts_of_rank(c->job, index, c->meet, set_variable, NULL);
    /* Every rank with a thread for every core would fight for them. */
    char threads[16];
    snprintf(threads, sizeof threads, "%d", c->binding->threads);
    setenv("OMP_NUM_THREADS", threads, false);
    setenv("PYTHONUNBUFFERED", "1", false); /* lines appear when they are printed */
}

/* Its stdin: the input of all, read from its beginning; ours; or nothing. */
static bool redirect_input(const spawn_context *c, int index)
{
    char path[32] = "/dev/null";
    if (c->input >= 0)
        snprintf(path, sizeof path, "/proc/self/fd/%d", c->input);
    else if (c->give_stdin && c->job->first + index == 0)
        return true;
    const int fd = open(path, O_RDONLY);
    if (fd < 0 || dup2(fd, STDIN_FILENO) < 0)
        return false;
    close(fd);
    return true;
}

/* A rank on its way: what its process has to know. */
typedef struct start {
    const spawn_context *context;
    int index, results; /* results: the descriptor for them, or −1 */
} start;

/* The descriptor for results keeps its number, which the rank is told. */
static bool tell_results(int results)
{
    char number[16];
    if (results < 0)
        return true;
    snprintf(number, sizeof number, "%d", results);
    return setenv("RUEDA_RESULTS_FD", number, true) == 0 && fcntl(results, F_SETFD, 0) == 0;
}

static bool prepare_rank(void *given)
{
    const start *s = given;
    const spawn_context *c = s->context;
    set_environment(c, s->index);
    if (!redirect_input(c, s->index) || !tell_results(s->results))
        return false;
    binding_apply(c->binding, s->index);
    memory_apply(c->memory, s->index);
    setrlimit(RLIMIT_NOFILE, &c->files);
    return true;
}

typedef int pipes[WIRE_KINDS][2];

static void close_pipes(pipes p)
{
    for (int k = 0; k < WIRE_KINDS; k++) {
        for (int i = 0; i < 2; i++) {
            if (p[k][i] >= 0)
                close(p[k][i]);
        }
    }
}

/* False: errno says why not, and nothing is open. */
static bool open_pipes(pipes p, bool results)
{
    bool opened = true;
    for (int k = 0; k < WIRE_KINDS; k++)
        p[k][0] = p[k][1] = -1;
    for (int k = 0; k < WIRE_KINDS && opened; k++)
        opened = (k == WIRE_RESULTS && !results) || pipe2(p[k], O_CLOEXEC) == 0;
    const int reason = errno;
    if (!opened)
        close_pipes(p);
    errno = reason;
    return opened;
}

spawned spawn_begin(const spawn_context *context, int index, int step)
{
    pipes p;
    spawned s = {.report = -1};
    if (!open_pipes(p, context->job->results))
        return (spawned){.pid = -errno};
    s.pid = child_start(&(child){.command = context->job->steps[step],
                                 .output = p[WIRE_STDOUT][1],
                                 .errors = p[WIRE_STDERR][1],
                                 .place = CHILD_OWN_SESSION,
                                 .death_signal = SIGKILL,
                                 .mask = &context->mask,
                                 .prepare = prepare_rank,
                                 .context = &(start){context, index, p[WIRE_RESULTS][1]},
                                 .report = &s.report});
    for (int k = 0; k < WIRE_KINDS && s.pid > 0; k++) {
        s.out[k] = p[k][0];
        if (s.out[k] >= 0)
            fcntl(s.out[k], F_SETFL, O_NONBLOCK);
        p[k][0] = -1; /* the caller's from now on */
    }
    close_pipes(p);
    return s;
}

int spawn_await(const spawned *s)
{
    int reason;
    ssize_t count;
    do
        count = read(s->report, &reason, sizeof reason);
    while (count < 0 && errno == EINTR);
    close(s->report);
    if (count != sizeof reason)
        return s->pid;
    for (int k = 0; k < WIRE_KINDS; k++) {
        if (s->out[k] >= 0)
            close(s->out[k]);
    }
    waitpid(s->pid, NULL, 0);
    return -reason;
}
