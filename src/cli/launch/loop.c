/* loop.c: see loop.h. */
#include "cli/launch/loop.h"

#include <stddef.h>
#include <sys/signalfd.h>
#include <unistd.h>

static const int ending[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
static const int others[] = {SIGUSR1, SIGUSR2, SIGTSTP, SIGCHLD};

static bool is_ignored(int signal)
{
    struct sigaction action;
    return sigaction(signal, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

int loop_open_signals(sigset_t *before)
{
    sigset_t set;
    sigemptyset(&set);
    signal(SIGCHLD, SIG_DFL);
    signal(SIGPIPE, SIG_IGN);
    for (size_t i = 0; i < sizeof ending / sizeof ending[0]; i++) {
        if (!is_ignored(ending[i]))
            sigaddset(&set, ending[i]);
    }
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        sigaddset(&set, others[i]);
    sigprocmask(SIG_BLOCK, &set, before);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

int loop_next_signal(int fd)
{
    struct signalfd_siginfo info;
    return read(fd, &info, sizeof info) == sizeof info ? (int)info.ssi_signo : 0;
}

bool loop_is_ending(int signal)
{
    for (size_t i = 0; i < sizeof ending / sizeof ending[0]; i++) {
        if (ending[i] == signal)
            return true;
    }
    return false;
}

int loop_poll_ms(uint64_t next, uint64_t now)
{
    if (next == NEVER)
        return -1;
    const uint64_t ms = next > now ? (next - now) / NS_PER_MS + 1 : 0;
    return ms < INT32_MAX ? (int)ms : INT32_MAX;
}

struct rlimit loop_raise_files(void)
{
    struct rlimit before, raised;
    getrlimit(RLIMIT_NOFILE, &before);
    raised = before;
    raised.rlim_cur = raised.rlim_max;
    setrlimit(RLIMIT_NOFILE, &raised);
    return before;
}
