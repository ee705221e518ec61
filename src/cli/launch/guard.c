/* guard.c: see guard.h. */
#include "cli/launch/guard.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* What is told instead of a group. */
#define FAREWELL ((pid_t)0)
#define FORGET ((pid_t)-1)

/* Holds nothing of the launcher's open: a reader of its output must see the end. */
static void close_the_rest(int pipe_fd)
{
    const int null = open("/dev/null", O_RDWR);
    for (int fd = 0; fd <= 2; fd++)
        dup2(null, fd);
    if (null > 2)
        close(null);
    if (pipe_fd > 3)
        close_range(3, (unsigned)pipe_fd - 1, 0);
    close_range((unsigned)pipe_fd + 1, ~0u, 0);
    if (chdir("/") != 0)
        _exit(1);
}

static _Noreturn void guard_main(int pipe_fd, pid_t *groups)
{
    setsid();
    prctl(PR_SET_NAME, "rueda-guard");
    close_the_rest(pipe_fd);
    int count = 0;
    pid_t group;
    while (read(pipe_fd, &group, sizeof group) == sizeof group) {
        if (group == FAREWELL)
            _exit(0);
        if (group == FORGET)
            count = 0;
        else
            groups[count++] = group;
    }
    for (int i = 0; i < count; i++)
        kill(-groups[i], SIGKILL);
    _exit(0);
}

guard guard_start(int groups)
{
    guard none = {0, -1};
    int ends[2];
    pid_t *memory = calloc((size_t)groups, sizeof *memory);
    if (memory == NULL || pipe2(ends, O_CLOEXEC) != 0) {
        free(memory);
        return none;
    }
    const pid_t pid = fork();
    if (pid == 0) {
        close(ends[1]);
        guard_main(ends[0], memory);
    }
    free(memory);
    close(ends[0]);
    if (pid < 0) {
        close(ends[1]);
        return none;
    }
    return (guard){pid, ends[1]};
}

static void tell(const guard *g, pid_t group)
{
    if (g->pid > 0 && write(g->fd, &group, sizeof group) != sizeof group)
        return; /* the guard was killed: PR_SET_PDEATHSIG remains */
}

void guard_add(const guard *g, pid_t group)
{
    tell(g, group);
}

void guard_forget(const guard *g)
{
    tell(g, FORGET);
}

void guard_dismiss(guard *g)
{
    if (g->pid <= 0)
        return;
    tell(g, FAREWELL);
    close(g->fd);
    waitpid(g->pid, NULL, 0);
    g->pid = 0;
}
