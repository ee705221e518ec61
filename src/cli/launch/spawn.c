/* spawn.c: fork, environment, exec. Between fork and exec the child is alone with one thread, so it
 * may use the whole C library. */
#include "cli/launch/spawn.h"

#include "cli/launch/facts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
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

/* The descriptor for results keeps its number, which the rank is told. */
static bool redirect_output(const int ends[WIRE_KINDS])
{
    const int results = ends[WIRE_RESULTS];
    char number[16];
    if (results >= 0) {
        snprintf(number, sizeof number, "%d", results);
        setenv("RUEDA_RESULTS_FD", number, true);
        fcntl(results, F_SETFD, 0);
    }
    return dup2(ends[WIRE_STDOUT], STDOUT_FILENO) >= 0 &&
           dup2(ends[WIRE_STDERR], STDERR_FILENO) >= 0;
}

/* The pipes of a rank: its outputs and its report. */
typedef struct pipes {
    int out[WIRE_KINDS][2];
    int report[2];
} pipes;

static _Noreturn void become_rank(const spawn_context *c, int index, char **command, int parent,
                                  const pipes *p)
{
    int ends[WIRE_KINDS];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1); /* it died before the line above */
    setsid();
    set_environment(c, index);
    for (int k = 0; k < WIRE_KINDS; k++)
        ends[k] = p->out[k][1];
    if (redirect_input(c, index) && redirect_output(ends)) {
        binding_apply(c->binding, index);
        memory_apply(c->memory, index);
        setrlimit(RLIMIT_NOFILE, &c->files);
        signal(SIGPIPE, SIG_DFL);
        sigprocmask(SIG_SETMASK, &c->mask, NULL);
        execvp(command[0], command);
    }
    const int reason = errno;
    if (write(p->report[1], &reason, sizeof reason) < 0)
        _exit(126);
    _exit(127);
}

static void close_pipe(int ends[2])
{
    for (int i = 0; i < 2; i++) {
        if (ends[i] >= 0)
            close(ends[i]);
        ends[i] = -1;
    }
}

static void close_pipes(pipes *p)
{
    for (int k = 0; k < WIRE_KINDS; k++)
        close_pipe(p->out[k]);
    close_pipe(p->report);
}

/* False: errno says why not, and nothing is open. */
static bool open_pipes(pipes *p, bool results)
{
    *p = (pipes){{{-1, -1}, {-1, -1}, {-1, -1}}, {-1, -1}};
    bool opened = pipe2(p->report, O_CLOEXEC) == 0;
    for (int k = 0; k < WIRE_KINDS && opened; k++)
        opened = (k == WIRE_RESULTS && !results) || pipe2(p->out[k], O_CLOEXEC) == 0;
    const int reason = errno;
    if (!opened)
        close_pipes(p);
    errno = reason;
    return opened;
}

spawned spawn_begin(const spawn_context *context, int index, int step)
{
    pipes p;
    if (!open_pipes(&p, context->job->results))
        return (spawned){.pid = -errno};
    const int parent = getpid(), pid = fork();
    if (pid == 0)
        become_rank(context, index, context->job->steps[step], parent, &p);
    spawned s = {.pid = pid >= 0 ? pid : -errno, .report = p.report[0]};
    for (int k = 0; k < WIRE_KINDS && pid > 0; k++) {
        s.out[k] = p.out[k][0];
        if (s.out[k] >= 0)
            fcntl(s.out[k], F_SETFL, O_NONBLOCK);
        p.out[k][0] = -1; /* the caller's from now on */
    }
    if (pid > 0)
        p.report[0] = -1;
    close_pipes(&p);
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
