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
    unsetenv("RUEDA_MEET"); /* that of a job that we are started in */
    facts_of_rank(c->job, index, c->meet, set_variable, NULL);
    /* Every rank with a thread for every core would fight for them. */
    char threads[16];
    snprintf(threads, sizeof threads, "%d", c->binding->threads);
    setenv("OMP_NUM_THREADS", threads, false);
    setenv("PYTHONUNBUFFERED", "1", false); /* lines appear when they are printed */
}

static bool redirect(bool keep_stdin, int out, int err)
{
    if (!keep_stdin) {
        const int null = open("/dev/null", O_RDONLY);
        if (null < 0 || dup2(null, STDIN_FILENO) < 0)
            return false;
        close(null);
    }
    return dup2(out, STDOUT_FILENO) >= 0 && dup2(err, STDERR_FILENO) >= 0;
}

static _Noreturn void become_rank(const spawn_context *c, int index, char **command, int parent,
                                  const int fds[3])
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1); /* it died before the line above */
    setsid();
    set_environment(c, index);
    if (redirect(c->give_stdin && c->job->first + index == 0, fds[0], fds[1])) {
        binding_apply(c->binding, index);
        memory_apply(c->memory, index);
        setrlimit(RLIMIT_NOFILE, &c->files);
        signal(SIGPIPE, SIG_DFL);
        sigprocmask(SIG_SETMASK, &c->mask, NULL);
        execvp(command[0], command);
    }
    const int reason = errno;
    if (write(fds[2], &reason, sizeof reason) < 0)
        _exit(126);
    _exit(127);
}

static spawned fork_rank(const spawn_context *c, int index, int step, int out[2], int err[2],
                         int report[2])
{
    const int parent = getpid(), pid = fork();
    if (pid == 0)
        become_rank(c, index, c->job->steps[step], parent, (int[]){out[1], err[1], report[1]});
    if (pid < 0)
        return (spawned){.pid = -errno};
    fcntl(out[0], F_SETFL, O_NONBLOCK);
    fcntl(err[0], F_SETFL, O_NONBLOCK);
    return (spawned){pid, out[0], err[0], report[0]};
}

/* The ends that the child has; if there is none, ours too. */
static void close_ends(const spawned *s, int ends[2])
{
    close(ends[1]);
    if (s->pid < 0)
        close(ends[0]);
}

spawned spawn_begin(const spawn_context *context, int index, int step)
{
    int out[2], err[2], report[2];
    spawned s;
    if (pipe2(out, O_CLOEXEC) != 0)
        return (spawned){.pid = -errno};
    if (pipe2(err, O_CLOEXEC) != 0) {
        s.pid = -errno;
        goto close_out;
    }
    if (pipe2(report, O_CLOEXEC) != 0) {
        s.pid = -errno;
        goto close_err;
    }
    s = fork_rank(context, index, step, out, err, report);
    close_ends(&s, report);
close_err:
    close_ends(&s, err);
close_out:
    close_ends(&s, out);
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
    close(s->out);
    close(s->err);
    waitpid(s->pid, NULL, 0);
    return -reason;
}
