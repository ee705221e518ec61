/* launcher.c: one loop that carries output, watches the ranks, and ends them together.
 *
 * Invariants: only the first cause of an end is kept, and it is told last. A rank that has ended
 * stays a zombie until the job ends, so its number, and with it its process group, is never reused
 * while we may still send a signal to it.
 */
#include "cli/launcher.h"

#include "base/os.h"
#include "cli/guard.h"
#include "cli/relay.h"
#include "cli/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define NEVER UINT64_MAX
#define NS_PER_S UINT64_C(1000000000)
#define NS_PER_MS UINT64_C(1000000)
#define CAUSE_MAX 512

typedef struct rank {
    pid_t pid; /* also its process group */
    bool ended;
    stream out, err;
} rank;

typedef struct job {
    spawn_job spawn;
    guard guard;
    int signals; /* signalfd */
    int started, alive;
    rank *ranks;
    struct pollfd *polls;
    sink out, err;
    char cause[CAUSE_MAX]; /* why the job ends early; "" if it does not */
    int exit_code;
    uint64_t timeout_at; /* the whole job's limit */
    uint64_t kill_at;    /* the ranks were asked to end */
    uint64_t
        drained_at; /* all ranks have ended: an empty pipe is the end of a stream from then on */
    uint64_t give_up_at; /* the user wants out, even if nobody reads our output */
} job;

/* ---- Ending ---------------------------------------------------------------------------------- */

static void signal_all(const job *j, int signal)
{
    for (int i = 0; i < j->started; i++)
        kill(-j->ranks[i].pid, signal);
}

/* Asks all ranks to end, for this cause if it is the first. */
__attribute__((format(printf, 4, 5))) static void end_job(job *j, int signal, int exit_code,
                                                          const char *format, ...)
{
    if (j->cause[0] != '\0')
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(j->cause, sizeof j->cause, format, args);
    va_end(args);
    j->exit_code = exit_code;
    j->kill_at = os_now_ns() + LAUNCH_GRACE_S * NS_PER_S;
    signal_all(j, signal);
}

static void blame_rank(job *j, int index, const siginfo_t *info)
{
    const int pid = (int)j->ranks[index].pid, status = info->si_status;
    if (info->si_code == CLD_EXITED)
        end_job(j, SIGTERM, status, "rank %d (pid %d) exited with %d", index, pid, status);
    else
        end_job(j, SIGTERM, EXIT_SIGNAL + status, "rank %d (pid %d) was killed by SIG%s%s", index,
                pid, sigabbrev_np(status), info->si_code == CLD_DUMPED ? " (core dumped)" : "");
}

/* Of several that failed at the same time one was first: rather one that crashed than one that
 * exited, since a rank that loses its peer exits. */
static void watch_ranks(job *j)
{
    siginfo_t first = {0};
    int failed = -1;
    for (int i = 0; i < j->started; i++) {
        siginfo_t info = {0};
        if (j->ranks[i].ended ||
            waitid(P_PID, (id_t)j->ranks[i].pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
            info.si_pid == 0)
            continue;
        j->ranks[i].ended = true;
        j->alive--;
        const bool crashed = info.si_code != CLD_EXITED;
        if ((crashed || info.si_status != 0) &&
            (failed < 0 || (crashed && first.si_code == CLD_EXITED))) {
            failed = i;
            first = info;
        }
    }
    if (failed >= 0)
        blame_rank(j, failed, &first);
    if (j->alive == 0 && j->drained_at == NEVER) {
        signal_all(j, SIGKILL); /* what the ranks have left behind */
        j->drained_at = os_now_ns() + LAUNCH_DRAIN_MS * NS_PER_MS;
    }
}

/* ---- Signals to the launcher ----------------------------------------------------------------- */

static const int ending_signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
static const int passed_signals[] = {SIGUSR1, SIGUSR2, SIGTSTP, SIGCHLD};

static bool is_ignored(int signal)
{
    struct sigaction action;
    return sigaction(signal, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

/* Signals arrive through a descriptor. One that was ignored at the start (nohup) stays ignored. */
static bool open_signals(job *j)
{
    sigset_t set;
    sigemptyset(&set);
    signal(SIGCHLD, SIG_DFL);
    signal(SIGPIPE, SIG_IGN);
    for (size_t i = 0; i < sizeof ending_signals / sizeof ending_signals[0]; i++) {
        if (!is_ignored(ending_signals[i]))
            sigaddset(&set, ending_signals[i]);
    }
    for (size_t i = 0; i < sizeof passed_signals / sizeof passed_signals[0]; i++)
        sigaddset(&set, passed_signals[i]);
    sigprocmask(SIG_BLOCK, &set, &j->spawn.mask);
    j->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return j->signals >= 0;
}

static void take_signal(job *j, int signal)
{
    switch (signal) {
    case SIGCHLD:
        return;
    case SIGUSR1:
    case SIGUSR2:
        signal_all(j, signal);
        return;
    case SIGTSTP: /* the ranks have no terminal that could stop them */
        signal_all(j, SIGSTOP);
        raise(SIGSTOP);
        signal_all(j, SIGCONT);
        return;
    default:
        if (j->give_up_at != NEVER)
            j->kill_at = 0; /* asked twice */
        end_job(j, signal, EXIT_SIGNAL + signal, "ended by SIG%s", sigabbrev_np(signal));
        j->give_up_at = os_now_ns() + (LAUNCH_GRACE_S + 1) * NS_PER_S;
    }
}

static void take_signals(job *j)
{
    struct signalfd_siginfo info;
    while (read(j->signals, &info, sizeof info) == sizeof info)
        take_signal(j, (int)info.ssi_signo);
}

/* ---- The loop -------------------------------------------------------------------------------- */

static void pump_streams(job *j, uint64_t now)
{
    for (int i = 0; i < j->started; i++) {
        stream_pump(&j->ranks[i].out, now >= j->drained_at);
        stream_pump(&j->ranks[i].err, now >= j->drained_at);
    }
}

static bool streams_ended(const job *j)
{
    for (int i = 0; i < j->started; i++) {
        if (j->ranks[i].out.fd >= 0 || j->ranks[i].err.fd >= 0)
            return false;
    }
    return true;
}

static bool job_over(const job *j, uint64_t now)
{
    return now >= j->give_up_at ||
           (j->alive == 0 && streams_ended(j) && j->out.used + j->err.used == 0);
}

static void check_deadlines(job *j, uint64_t now, const launch_options *options)
{
    if (now >= j->timeout_at) {
        j->timeout_at = NEVER;
        end_job(j, SIGTERM, EXIT_TIMEOUT, "the job took longer than %lld s (--timeout)",
                (long long)options->timeout_s);
        j->give_up_at = now + (LAUNCH_GRACE_S + 1) * NS_PER_S;
    }
    if (now >= j->kill_at) {
        j->kill_at = NEVER;
        signal_all(j, SIGKILL);
    }
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static int poll_ms(const job *j, uint64_t now)
{
    uint64_t next = earlier(earlier(j->timeout_at, j->kill_at), j->give_up_at);
    if (now < j->drained_at)
        next = earlier(next, j->drained_at);
    if (next == NEVER)
        return -1;
    const uint64_t ms = next > now ? (next - now) / NS_PER_MS + 1 : 0;
    return ms < INT32_MAX ? (int)ms : INT32_MAX;
}

static void add_poll(struct pollfd *polls, nfds_t *count, int fd, short events)
{
    polls[(*count)++] = (struct pollfd){fd, events, 0};
}

/* Sleeps until a descriptor is ready or a deadline is near, and writes what can be written. */
static void await(job *j, uint64_t now)
{
    nfds_t count = 0;
    add_poll(j->polls, &count, j->signals, POLLIN);
    add_poll(j->polls, &count, j->out.used > 0 ? j->out.fd : -1, POLLOUT);
    add_poll(j->polls, &count, j->err.used > 0 ? j->err.fd : -1, POLLOUT);
    for (int i = 0; i < j->started; i++) {
        stream *const streams[] = {&j->ranks[i].out, &j->ranks[i].err};
        for (int k = 0; k < 2; k++) {
            if (stream_wants(streams[k]))
                add_poll(j->polls, &count, streams[k]->fd, POLLIN);
        }
    }
    if (poll(j->polls, count, poll_ms(j, now)) <= 0)
        return;
    if (j->polls[1].revents != 0)
        sink_flush(&j->out);
    if (j->polls[2].revents != 0)
        sink_flush(&j->err);
}

/* The cause is told once, after all that the ranks have said. True: nothing is left to tell. */
static bool tell_cause(job *j)
{
    char line[CAUSE_MAX + 16];
    if (j->alive > 0 || !streams_ended(j))
        return false;
    if (j->cause[0] == '\0')
        return true;
    snprintf(line, sizeof line, "rueda run: %s", j->cause);
    return sink_line(&j->err, line);
}

static void run_loop(job *j, const launch_options *options)
{
    uint64_t now = os_now_ns();
    bool told = false;
    while (!job_over(j, now)) {
        await(j, now);
        take_signals(j);
        watch_ranks(j);
        now = os_now_ns();
        check_deadlines(j, now, options);
        pump_streams(j, now);
        told = told || tell_cause(j);
    }
}

/* ---- Beginning and end ------------------------------------------------------------------------ */

/* Descriptors 0 to 2 must exist, or a pipe to a rank would get such a number. */
static void fill_standard_descriptors(void)
{
    int fd;
    do
        fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0)
        close(fd);
}

/* Two pipes a rank may be more than the soft limit allows; the ranks get the old one back. */
static void raise_file_limit(job *j)
{
    getrlimit(RLIMIT_NOFILE, &j->spawn.files);
    struct rlimit raised = j->spawn.files;
    raised.rlim_cur = raised.rlim_max;
    setrlimit(RLIMIT_NOFILE, &raised);
}

/* A launcher in the background must not take the terminal's input from the foreground. */
static bool may_read_stdin(void)
{
    return !isatty(STDIN_FILENO) || tcgetpgrp(STDIN_FILENO) == getpgrp();
}

static void open_stream(stream *s, int fd, sink *to, int index, const launch_options *options)
{
    const int width = snprintf(NULL, 0, "%d", options->ranks - 1);
    s->fd = fd;
    s->to = to;
    s->plain = !options->prefix;
    if (options->prefix)
        snprintf(s->prefix, sizeof s->prefix, "[%*d]: ", width, index);
}

static bool start_ranks(job *j, const launch_options *options)
{
    for (int i = 0; i < options->ranks; i++) {
        int out, err;
        const int pid = spawn_rank(&j->spawn, i, &out, &err);
        if (pid < 0) {
            const int code = pid == -ENOENT   ? EXIT_NOT_FOUND
                             : pid == -EACCES ? EXIT_NOT_EXECUTABLE
                                              : EXIT_FAILURE;
            end_job(j, SIGTERM, code, "cannot start %s: %s", options->command[0], strerror(-pid));
            return false;
        }
        guard_add(&j->guard, pid);
        j->ranks[i].pid = pid;
        open_stream(&j->ranks[i].out, out, &j->out, i, options);
        open_stream(&j->ranks[i].err, err, &j->err, i, options);
        j->started = ++j->alive;
    }
    return true;
}

static void reap(job *j)
{
    for (int i = 0; i < j->started; i++)
        waitpid(j->ranks[i].pid, NULL, j->alive > 0 ? WNOHANG : 0);
}

static job *new_job(const launch_options *options)
{
    job *j = calloc(1, sizeof *j);
    if (j == NULL)
        return NULL;
    j->out.fd = STDOUT_FILENO;
    j->err.fd = STDERR_FILENO;
    j->kill_at = j->drained_at = j->give_up_at = j->timeout_at = NEVER;
    j->ranks = calloc((size_t)options->ranks, sizeof *j->ranks);
    j->polls = calloc(2 * (size_t)options->ranks + 3, sizeof *j->polls);
    return j;
}

static void free_job(job *j)
{
    if (j == NULL)
        return;
    free(j->ranks);
    free(j->polls);
    free(j);
}

static int complain(job *j, const char *what)
{
    fprintf(stderr, "rueda run: %s: %s\n", what, strerror(errno));
    free_job(j);
    return EXIT_FAILURE;
}

int launch_job(const launch_options *options)
{
    fill_standard_descriptors();
    job *j = new_job(options);
    if (j == NULL || j->ranks == NULL || j->polls == NULL)
        return complain(j, "no memory for the ranks");
    if (!spawn_job_init(&j->spawn, options->command, options->ranks))
        return complain(j, "no random bytes to name the job");
    if (!open_signals(j))
        return complain(j, "cannot receive signals");
    raise_file_limit(j);
    j->spawn.give_stdin = may_read_stdin();
    j->guard = guard_start(options->ranks);
    if (options->timeout_s > 0)
        j->timeout_at = os_now_ns() + (uint64_t)options->timeout_s * NS_PER_S;
    if (!start_ranks(j, options) && j->started == 0)
        fprintf(stderr, "rueda run: %s\n", j->cause);
    else
        run_loop(j, options);
    guard_dismiss(&j->guard);
    reap(j);
    const int exit_code = j->exit_code;
    close(j->signals);
    sigprocmask(SIG_SETMASK, &j->spawn.mask, NULL);
    free_job(j);
    return exit_code;
}
