/* launcher.c: one loop that carries output, watches the hosts, and ends all ranks together. */
#include "cli/launcher.h"

#include "cli/launch/events.h"
#include "cli/launch/job.h"
#include "cli/launch/ssh.h"
#include "net/net.h"
#include "world/world.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define FIXED_POLLS 3    /* signals, stdout, stderr */
#define POLLS_PER_LINK 2 /* the agent, ssh's stderr */

/* What the loop sleeps on. */
typedef struct sleeper {
    int signals;
    sigset_t mask;       /* as it was before us */
    struct rlimit files; /* */
    struct pollfd *polls;
} sleeper;

/* ---- Signals to the launcher ------------------------------------------------------------------ */

/* The agents must not take our silence for our death. */
static void stop_for_a_while(job *j)
{
    job_signal(j, SIGSTOP); /* the ranks have no terminal that could stop them */
    for (size_t i = 0; i < j->link_count; i++) {
        host_link_say(&j->links[i], WIRE_HOLD, 0, 0, NULL, 0);
        host_link_finish_writing(&j->links[i]);
    }
    raise(SIGSTOP);
    job_signal(j, SIGCONT);
}

static void take_signal(job *j, int signal)
{
    if (signal == SIGUSR1 || signal == SIGUSR2)
        job_signal(j, signal);
    if (signal == SIGTSTP)
        stop_for_a_while(j);
    if (!loop_is_ending(signal))
        return;
    if (j->give_up_at != NEVER)
        j->kill_at = 0; /* asked twice */
    job_decide(j);
    job_end(j, signal, EXIT_SIGNAL + signal, "ended by SIG%s", sigabbrev_np(signal));
    j->give_up_at = world_now_ns() + (LAUNCH_GRACE_S + 1) * NS_PER_S;
}

/* ---- The loop --------------------------------------------------------------------------------- */

static nfds_t fill_polls(const job *j, const sleeper *s)
{
    nfds_t count = 0;
    s->polls[count++] = (struct pollfd){s->signals, POLLIN, 0};
    for (int k = 0; k < WIRE_TEXTS; k++) {
        const sink *to = &j->output.sinks[k];
        s->polls[count++] = (struct pollfd){bytes_used(&to->waiting) > 0 ? to->fd : -1, POLLOUT, 0};
    }
    for (size_t i = 0; i < j->link_count; i++) {
        const host_link *l = &j->links[i];
        const int events = (l->ended ? 0 : POLLIN) | (bytes_used(&l->out) > 0 ? POLLOUT : 0);
        s->polls[count++] = (struct pollfd){events != 0 ? l->fd : -1, (short)events, 0};
        s->polls[count++] = (struct pollfd){l->errors, POLLIN, 0};
    }
    return count;
}

/* Sleeps until a descriptor is ready or a deadline is near, and writes what can be written. */
static void await(job *j, const sleeper *s, uint64_t now)
{
    const nfds_t count = fill_polls(j, s);
    if (poll(s->polls, count, loop_poll_ms(job_next_deadline(j), now)) <= 0)
        return;
    for (int k = 0; k < WIRE_TEXTS; k++) {
        if (s->polls[1 + k].revents != 0)
            output_flush(&j->output, k);
    }
}

static void run_loop(job *j, const sleeper *s)
{
    uint64_t now = world_now_ns();
    int signal;
    while (!job_is_over(j) && now < j->give_up_at) {
        await(j, s, now);
        while ((signal = loop_next_signal(s->signals)) != 0)
            take_signal(j, signal);
        now = world_now_ns();
        job_hear(j, now);
        job_check_deadlines(j, now);
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

/* A launcher in the background must not take the terminal's input from the foreground. */
static bool may_read_stdin(void)
{
    return !isatty(STDIN_FILENO) || tcgetpgrp(STDIN_FILENO) == getpgrp();
}

/* Of random digits, as the key. */
static void name_job(job *j)
{
    char digits[sizeof j->key];
    net_key_make(digits);
    snprintf(j->name, sizeof j->name, "%.*s", JOB_NAME_DIGITS, digits);
    net_key_make(j->key);
}

static bool open_link(job *j, host_link *l, const sleeper *s)
{
    if (!l->remote)
        return host_link_open_here(l, j->links, j->link_count, &s->mask, &s->files,
                                   may_read_stdin());
    const int64_t limit = j->options->start_timeout_s;
    char **command = ssh_command(&j->options->ssh, l->host, limit > 1 ? limit - 1 : 1);
    if (j->options->output.verbose)
        output_say(&j->output, "host %s: by ssh, for %d rank%s", l->host, l->count,
                   l->count > 1 ? "s" : "");
    const bool opened = host_link_open_ssh(l, command, &s->mask);
    ssh_command_free(command);
    return opened;
}

/* This machine's agents first: they must hold no descriptor of an ssh. */
static void open_links(job *j, const sleeper *s)
{
    for (int remote = 0; remote < 2; remote++) {
        for (size_t i = 0; i < j->link_count; i++) {
            host_link *l = &j->links[i];
            if (l->remote != (remote == 1) || open_link(j, l, s))
                continue;
            l->ended = true;
            job_end(j, SIGTERM, EXIT_FAILURE, "cannot start a process for host %s: %s", l->host,
                    strerror(errno));
        }
    }
}

static void lay_out(job *j)
{
    j->shares = hosts_share_out(j->options, &j->link_count);
    j->links = bytes_new(j->link_count, sizeof *j->links);
    j->ranks = bytes_new((size_t)j->options->ranks, sizeof *j->ranks);
    j->fates = bytes_new((size_t)j->options->ranks, sizeof *j->fates);
    for (size_t i = 0; i < j->link_count; i++) {
        const host_share *share = &j->shares[i];
        j->links[i] = (host_link){.host = share->name,
                                  .remote = !share->here,
                                  .first = share->first,
                                  .count = share->count,
                                  .fd = -1,
                                  .errors = -1,
                                  .ping_at = NEVER,
                                  .silence_at = NEVER,
                                  .quote_at = NEVER,
                                  .leave_by = NEVER};
        for (int r = share->first; r < share->first + share->count; r++)
            j->ranks[r].link = &j->links[i];
    }
}

static void free_job(job *j)
{
    for (size_t i = 0; i < j->link_count; i++)
        host_link_close(&j->links[i]);
    free(j->links);
    free(j->ranks);
    free(j->fates);
    free(j->shares);
    output_close(&j->output);
    if (j->input >= 0)
        close(j->input);
    explicit_bzero(j->key, sizeof j->key);
}

static launch_options with_defaults(const launch_options *given)
{
    launch_options options = *given;
    if (options.command_name == NULL)
        options.command_name = "run";
    if (options.start_timeout_s == 0)
        options.start_timeout_s = LAUNCH_START_S;
    if (options.silence_s == 0)
        options.silence_s = LAUNCH_SILENCE_S;
    if (options.farewell_s == 0)
        options.farewell_s = LAUNCH_FAREWELL_S;
    return options;
}

static void complain(const launch_options *options, const char *what)
{
    fprintf(stderr, "rueda %s: %s: %s\n", options->command_name, what, strerror(errno));
}

static bool open_input(job *j)
{
    const char *path = j->options->input;
    char byte;
    if (path == NULL)
        return true;
    j->input = open(path, O_RDONLY | O_CLOEXEC);
    if (j->input >= 0 && pread(j->input, &byte, 1, 0) >= 0)
        return true;
    fprintf(stderr, "rueda %s: cannot read the input %s: %s\n", j->options->command_name, path,
            errno == ESPIPE ? "it is no file" : strerror(errno));
    return false;
}

static bool begin(job *j, sleeper *s)
{
    const launch_options *options = j->options;
    j->started_at = world_now_ns();
    j->start_by = j->started_at + (uint64_t)options->start_timeout_s * NS_PER_S;
    if (options->timeout_ms > 0)
        j->timeout_at = j->started_at + (uint64_t)options->timeout_ms * NS_PER_MS;
    name_job(j);
    if (options->with_parent)
        prctl(PR_SET_PDEATHSIG, SIGTERM);
    s->signals = loop_open_signals(&s->mask);
    if (s->signals < 0) {
        complain(options, "cannot receive signals");
        return false;
    }
    s->polls = bytes_new(FIXED_POLLS + POLLS_PER_LINK * j->link_count, sizeof *s->polls);
    open_links(j, s);
    return true;
}

int launch_job(const launch_options *given)
{
    const launch_options options = with_defaults(given);
    sleeper s = {.signals = -1};
    job j = {.options = &options,
             .input = -1,
             .exit_code = EXIT_FAILURE,
             .shown = -1,
             .start_by = NEVER,
             .timeout_at = NEVER,
             .failed_at = NEVER,
             .blame_at = NEVER,
             .ask_at = NEVER,
             .kill_at = NEVER,
             .abandon_at = NEVER,
             .give_up_at = NEVER};
    if (options.host_count > 0 && hosts_slots(options.hosts, options.host_count) < options.ranks) {
        errno = ERANGE;
        complain(&options, "more ranks than slots");
        return EXIT_FAILURE;
    }
    fill_standard_descriptors();
    s.files = loop_raise_files();
    lay_out(&j);
    if (output_open(&j.output, &options) && open_input(&j) && begin(&j, &s)) {
        j.exit_code = j.cause[0] != '\0' ? j.exit_code : EXIT_SUCCESS;
        events_job_start(&j.output, j.name, j.link_count);
        run_loop(&j, &s);
        if (j.exit_code == EXIT_SUCCESS && j.output.lost[0] != '\0')
            j.exit_code = EXIT_FAILURE; /* the last of it was written after the end was told */
    }
    free_job(&j);
    free(s.polls);
    setrlimit(RLIMIT_NOFILE, &s.files);
    if (s.signals >= 0) {
        close(s.signals);
        sigprocmask(SIG_SETMASK, &s.mask, NULL);
    }
    return j.exit_code;
}
