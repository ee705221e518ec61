/* subprocess.c: see subprocess.h. */
#include "cli/launch/subprocess.h"

#include "cli/launch/bytes.h"
#include "cli/launch/child.h"
#include "world/world.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <unistd.h>

typedef struct reading {
    int fd; /* what it says; or, if nobody listens, the process itself */
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
    if (r->listener == NULL)
        return false;
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

/* Python's variables are about the user's Python, not about the one that runs here. A group of its own is not
 * the terminal's, and may write there all the same. */
static bool forget_python(void *unused)
{
    (void)unused;
    signal(SIGTTOU, SIG_IGN);
    return unsetenv("PYTHONHOME") == 0 && unsetenv("PYTHONPATH") == 0;
}

/* Reads until the end of the output; returns the signal that came meanwhile, or 0. */
static int attend(reading *r, int signals, pid_t pid)
{
    int caught = 0;
    struct pollfd polls[] = {{r->fd, POLLIN, 0}, {signals, POLLIN, 0}};
    for (bool more = r->fd >= 0; more;) {
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

/* Its own group, so that what it starts can be ended with it. */
static int run_watched(char *const *command, reading *r, int signals, const sigset_t *mask,
                       int *caught)
{
    int ends[2] = {-1, -1};
    if (r->listener != NULL && pipe2(ends, O_CLOEXEC) != 0)
        return EXIT_FAILURE;
    const pid_t pid = child_start(&(child){.command = command,
                                           .input = CHILD_NOTHING,
                                           .output = r->listener != NULL ? ends[1] : 0,
                                           .errors = r->listener != NULL ? ends[1] : 0,
                                           .place = CHILD_OWN_GROUP,
                                           .death_signal = SIGKILL,
                                           .mask = mask,
                                           .prepare = forget_python});
    if (ends[1] >= 0)
        close(ends[1]);
    r->fd = r->listener != NULL || pid < 0 ? ends[0] : world_process_open(pid);
    int code = EXIT_FAILURE;
    if (pid > 0) {
        setpgid(pid,
                pid); /* as the child does: whoever is first, the group is there for a signal */
        *caught = attend(r, signals, pid);
        code = child_wait(pid, NULL);
    }
    if (r->fd >= 0)
        close(r->fd);
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

static void keep_line(void *context, const char *line)
{
    bytes_add_text(context, line);
    bytes_add_text(context, "\n");
}

int subprocess_ask(char *const *command, char **said)
{
    bytes all = {0};
    int caught;
    const int code = subprocess_run(command, keep_line, &all, &caught);
    if (caught != 0)
        raise(caught);
    bytes_add(&all, "", 1);
    *said = bytes_first(&all);
    return code;
}
