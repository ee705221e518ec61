/* subprocess.c: see subprocess.h. */
#include "cli/job_file/subprocess.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define EXIT_NOT_FOUND 127
#define EXIT_SIGNAL 128

typedef struct reading {
    int fd;
    subprocess_listener *listener;
    void *context;
    size_t used;
    char line[SUBPROCESS_LINE_MAX];
} reading;

static void end_line(reading *r)
{
    r->line[r->used] = '\0';
    if (r->used > 0)
        r->listener(r->context, r->line);
    r->used = 0;
}

/* False: nothing more will come. */
static bool read_some(reading *r)
{
    char bytes[4096];
    const ssize_t count = read(r->fd, bytes, sizeof bytes);
    for (ssize_t i = 0; i < count; i++) {
        if (bytes[i] == '\n' || bytes[i] == '\r')
            end_line(r);
        else if (r->used < sizeof r->line - 1)
            r->line[r->used++] = bytes[i];
    }
    if (count == 0)
        end_line(r);
    return count > 0 || (count < 0 && errno == EINTR);
}

/* Its own group, so that what it starts can be ended with it. Python's variables are about the user's
 * Python, not about the one that runs here. */
static _Noreturn void become(char *const *command, int output, const sigset_t *mask)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setpgid(0, 0);
    unsetenv("PYTHONHOME");
    unsetenv("PYTHONPATH");
    const int null = open("/dev/null", O_RDONLY);
    if (null >= 0 && dup2(null, STDIN_FILENO) >= 0 && dup2(output, STDOUT_FILENO) >= 0 &&
        dup2(output, STDERR_FILENO) >= 0) {
        sigprocmask(SIG_SETMASK, mask, NULL);
        execvp(command[0], command);
    }
    _exit(EXIT_NOT_FOUND);
}

/* Reads until the end of the output; returns the signal that came meanwhile, or 0. */
static int attend(reading *r, int signals, pid_t pid)
{
    int caught = 0;
    struct pollfd polls[] = {{r->fd, POLLIN, 0}, {signals, POLLIN, 0}};
    for (bool more = true; more;) {
        if (poll(polls, 2, -1) < 0)
            continue;
        struct signalfd_siginfo info;
        if (polls[1].revents != 0 && read(signals, &info, sizeof info) == sizeof info) {
            kill(-pid, caught == 0 ? SIGTERM : SIGKILL);
            caught = (int)info.ssi_signo;
        }
        if (polls[0].revents != 0)
            more = read_some(r);
    }
    return caught;
}

static int exit_code_of(pid_t pid)
{
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_SIGNAL + WTERMSIG(status);
}

static int run_watched(char *const *command, reading *r, int signals, const sigset_t *mask,
                       int *caught)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return EXIT_FAILURE;
    const pid_t pid = fork();
    if (pid == 0)
        become(command, ends[1], mask);
    close(ends[1]);
    int code = EXIT_FAILURE;
    if (pid > 0) {
        r->fd = ends[0];
        *caught = attend(r, signals, pid);
        code = exit_code_of(pid);
    }
    close(ends[0]);
    return code;
}

int subprocess_run(char *const *command, subprocess_listener *listener, void *context, int *caught)
{
    *caught = 0;
    sigset_t ending, mask;
    sigemptyset(&ending);
    sigaddset(&ending, SIGINT);
    sigaddset(&ending, SIGTERM);
    sigaddset(&ending, SIGHUP);
    sigprocmask(SIG_BLOCK, &ending, &mask);
    const int signals = signalfd(-1, &ending, SFD_CLOEXEC | SFD_NONBLOCK);
    reading r = {.listener = listener, .context = context};
    const int code = signals >= 0 ? run_watched(command, &r, signals, &mask, caught) : EXIT_FAILURE;
    if (signals >= 0)
        close(signals);
    sigprocmask(SIG_SETMASK, &mask, NULL);
    return code;
}
