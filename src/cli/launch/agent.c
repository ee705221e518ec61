/* agent.c: see agent.h.
 *
 * Invariant: a rank that has ended stays a zombie until its step is over, so its number, and with it
 * its process group, is never reused while we may still send a signal to it.
 */
#include "cli/launch/agent.h"

#include "boot/board.h"
#include "cli/launch/address.h"
#include "cli/launch/guard.h"
#include "cli/launch/line_reader.h"
#include "cli/launch/loop.h"
#include "cli/launch/meet.h"
#include "cli/launch/spawn.h"
#include "cli/launch/wire.h"
#include "rueda.h"
#include "world/world.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define LAST_WAIT_MS 1000 /* for killed ranks to be gone; one that the kernel holds stays behind */
#define FIXED_POLLS 3     /* signals, from and to the launcher */

typedef struct rank {
    pid_t pid; /* also its process group */
    int number;
    bool ended;
    siginfo_t fate; /* when ended */
    line_reader readers[WIRE_KINDS];
} rank;

typedef struct agent {
    int from, to; /* the launcher */
    bytes in, out;
    int signals;
    bool over;    /* the launcher said farewell, or is gone */
    bool leaving; /* told to end by a signal to ourselves */
    size_t credit[WIRE_KINDS];

    host_job job;
    binding binding;
    memory_limits memory;
    spawn_context spawn;
    guard guard;
    char meet[MEET_MAX];
    board *board; /* what ranks and we tell each other; NULL: no memory for it */
    char board_path[BOARD_PATH];
    rank *ranks; /* NULL: no job yet */
    struct pollfd *polls;
    bool running; /* a step is under way */
    int started, alive;

    uint64_t lost_at; /* the launcher counts as gone unless we hear from it */
    uint64_t
        drained_at;   /* all ranks have ended: an empty pipe is the end of an output from then on */
    uint64_t kill_at; /* we are leaving and have asked the ranks to end */
} agent;

/* ---- Saying ----------------------------------------------------------------------------------- */

static void say(agent *a, wire_type type, uint32_t number, const void *body, size_t length)
{
    wire_put(&a->out, type, 0, number, body, length);
}

static void say_text(agent *a, wire_type type, const char *text)
{
    say(a, type, 0, text, strlen(text));
}

static void say_number(agent *a, wire_type type, int rank, int number)
{
    bytes body = {0};
    wire_add_number(&body, number);
    say(a, type, (uint32_t)rank, bytes_first(&body), bytes_used(&body));
    bytes_free(&body);
}

/* The taker of a rank's output. */
static bool say_output(line_reader *s, const char *data, size_t count)
{
    agent *a = s->owner;
    const size_t cost = WIRE_HEADER + count;
    if (a->credit[s->kind] < cost)
        return false;
    a->credit[s->kind] -= cost;
    wire_put(&a->out, WIRE_OUTPUT, s->kind, (uint32_t)s->rank, data, count);
    return true;
}

/* ---- A step ----------------------------------------------------------------------------------- */

static void signal_all(const agent *a, int signal)
{
    for (int i = 0; i < a->started; i++)
        kill(-a->ranks[i].pid, signal);
}

static void open_reader(agent *a, rank *r, int kind, int fd)
{
    line_reader *s = &r->readers[kind];
    s->fd = fd;
    s->plain = a->job.plain || kind == WIRE_RESULTS;
    s->take = say_output;
    s->owner = a;
    s->rank = r->number;
    s->kind = kind;
}

/* Those that run are ranks[0 … started − 1]. */
static void take_rank(agent *a, int index, const spawned *s)
{
    guard_add(&a->guard, s->pid);
    a->ranks[a->started] = (rank){.pid = s->pid, .number = a->job.first + index};
    for (int k = 0; k < WIRE_KINDS; k++)
        open_reader(a, &a->ranks[a->started], k, s->out[k]);
    a->started++;
    a->alive++;
    say_number(a, WIRE_STARTED, a->job.first + index, s->pid);
}

static void start_step(agent *a, int step)
{
    spawned *all = bytes_new((size_t)a->job.count, sizeof *all);
    int begun = 0, failed = 0;
    a->running = true;
    a->started = a->alive = 0;
    a->drained_at = NEVER;
    if (a->board != NULL)
        board_forget_ranks(a->board);
    while (begun < a->job.count && failed == 0) {
        all[begun] = spawn_begin(&a->spawn, begun, step);
        failed = all[begun].pid < 0 ? -all[begun].pid : 0;
        begun += failed == 0;
    }
    for (int i = 0; i < begun; i++) {
        const int pid = spawn_await(&all[i]);
        if (pid > 0)
            take_rank(a, i, &all[i]);
        else if (failed == 0)
            failed = -pid;
    }
    if (failed != 0)
        say_number(a, WIRE_UNSTARTED, a->job.first, failed);
    free(all);
}

static void say_ended(agent *a, const rank *r)
{
    const siginfo_t *fate = &r->fate;
    const bool exited = fate->si_code == CLD_EXITED;
    const uint64_t joined = a->board != NULL ? board_joined(a->board, r->number) : 0;
    const int named = a->board != NULL ? board_named_by(a->board, r->number) : -1;
    char note[MEMORY_NOTE_MAX];
    if ((!exited || fate->si_status != 0) &&
        memory_explains(&a->memory, r->number - a->job.first, note))
        say_text(a, WIRE_NOTE, note);
    bytes body = {0};
    wire_add_number(&body, exited ? fate->si_status : EXIT_SIGNAL + fate->si_status);
    wire_add_number(&body, exited ? 0 : fate->si_status);
    wire_add_number(&body, fate->si_code == CLD_DUMPED);
    wire_add_number(&body, (int64_t)joined);
    wire_add_number(&body, named);
    wire_add_number(&body, a->board != NULL && board_lost_timeline(a->board, r->number));
    say(a, WIRE_ENDED, (uint32_t)r->number, bytes_first(&body), bytes_used(&body));
    bytes_free(&body);
    if (a->board != NULL)
        board_note_end(a->board, r->number, joined, named);
}

/* Tells of those that ended since the last look. */
static void watch_ranks(agent *a)
{
    for (int i = 0; i < a->started; i++) {
        rank *r = &a->ranks[i];
        if (r->ended || waitid(P_PID, (id_t)r->pid, &r->fate, WEXITED | WNOHANG | WNOWAIT) != 0 ||
            r->fate.si_pid == 0)
            continue;
        r->ended = true;
        a->alive--;
        say_ended(a, r);
    }
    if (a->running && a->alive == 0 && a->drained_at == NEVER) {
        signal_all(a, SIGKILL); /* what the ranks have left behind */
        a->drained_at = world_now_ns() + LAUNCH_DRAIN_MS * NS_PER_MS;
    }
}

static void reap(agent *a)
{
    for (int i = 0; i < a->started; i++)
        waitpid(a->ranks[i].pid, NULL, 0);
    guard_forget(&a->guard);
    a->started = 0;
}

static void pump_readers(agent *a, uint64_t now)
{
    bool open = false;
    for (int i = 0; i < a->started; i++) {
        for (int k = 0; k < WIRE_KINDS; k++) {
            line_reader_pump(&a->ranks[i].readers[k], now >= a->drained_at);
            open |= a->ranks[i].readers[k].fd >= 0;
        }
    }
    if (a->running && a->alive == 0 && !open) {
        reap(a);
        a->running = false;
        say(a, WIRE_IDLE, 0, NULL, 0);
    }
}

static void close_readers(agent *a, int kind)
{
    for (int i = 0; i < a->started; i++)
        line_reader_close(&a->ranks[i].readers[kind]);
}

/* ---- Hearing ---------------------------------------------------------------------------------- */

static void say_ready(agent *a)
{
    host_answer answer = {0};
    bytes body = {0};
    address_of_ssh(&answer);
    if (a->job.interfaces[0] != '\0' && !address_of_interface(a->job.interfaces, answer.interface))
        answer.interface[0] = '\0';
    host_answer_pack(&answer, &body);
    say(a, WIRE_READY, 0, bytes_first(&body), bytes_used(&body));
    bytes_free(&body);
}

/* Whether one worker alone would be too much for this host; `why` says so. */
static bool too_small(const launch_worker *w, char *why, size_t size)
{
    const long long mib = 1 << 20, wanted = w->memory_bytes / mib, here = memory_here_bytes() / mib;
    if (w->cpus > world_cpu_count())
        snprintf(why, size, "a worker wants %d cpus, here are %d", w->cpus, world_cpu_count());
    else if (wanted > here)
        snprintf(why, size, "a worker wants %lld MiB, here are %lld", wanted, here);
    else
        return false;
    return true;
}

/* Memory that looks like a file: every rank reads it from the beginning. */
static void take_input(agent *a, const wire_frame *f)
{
    size_t taken = 0;
    if (a->spawn.input < 0)
        a->spawn.input = memfd_create("rueda-input", MFD_CLOEXEC);
    while (taken < f->length) {
        const ssize_t count = write(a->spawn.input, f->body + taken, f->length - taken);
        if (count < 0 && errno != EINTR) {
            say_text(a, WIRE_REFUSED, "no memory for the input of the ranks");
            return;
        }
        taken += count > 0 ? (size_t)count : 0;
    }
}

static void take_job(agent *a, const wire_frame *f)
{
    char why[4096];
    if (a->ranks != NULL || !host_job_unpack(&a->job, f->body, f->length)) {
        say_text(a, WIRE_REFUSED, "the job's description is not understood");
        return;
    }
    if (a->job.directory[0] != '\0' && chdir(a->job.directory) != 0) {
        snprintf(why, sizeof why, "cannot enter the working directory %s: %s", a->job.directory,
                 strerror(errno));
        say_text(a, WIRE_REFUSED, why);
        return;
    }
    if (too_small(&a->job.worker, why, sizeof why)) {
        say_text(a, WIRE_REFUSED, why);
        return;
    }
    for (char **variable = a->job.environment; *variable != NULL; variable++)
        spawn_set_variable(*variable);
    a->ranks = bytes_new((size_t)a->job.count, sizeof *a->ranks);
    a->polls = bytes_new(FIXED_POLLS + WIRE_KINDS * (size_t)a->job.count, sizeof *a->polls);
    a->board = board_make(a->job.size, a->job.name, a->board_path);
    a->guard = guard_start(a->job.count);
    const char *note = binding_plan(&a->binding, a->job.bind, a->job.count, &a->job.worker);
    if (note != NULL)
        say_text(a, WIRE_NOTE, note);
    if (memory_plan(&a->memory, &a->job.worker, a->job.count, why))
        say_text(a, WIRE_NOTE, why);
    say_ready(a);
}

static void take_start(agent *a, const wire_frame *f)
{
    if (a->ranks == NULL || a->running || f->number >= (uint32_t)a->job.step_count ||
        f->length >= sizeof a->meet)
        return;
    snprintf(a->meet, sizeof a->meet, "%.*s", (int)f->length, f->body);
    start_step(a, (int)f->number);
}

/* A rank of another host has ended. */
static void take_gone(agent *a, const wire_frame *f)
{
    wire_reader r = {f->body, f->body + f->length, false};
    const int64_t joined = wire_number(&r);
    const int named = wire_int(&r, -1, a->job.size - 1);
    if (a->board != NULL && f->number < (uint32_t)a->job.size && !r.bad)
        board_note_end(a->board, (int)f->number, (uint64_t)joined, named);
}

/* Its children must not hold memory or a GPU as long as the others go on. */
static void take_lost(const agent *a, const wire_frame *f)
{
    for (int i = 0; i < a->started; i++) {
        if (a->ranks[i].ended && (uint32_t)a->ranks[i].number == f->number)
            kill(-a->ranks[i].pid, SIGKILL);
    }
}

static void take_frame(agent *a, const wire_frame *f)
{
    switch (f->type) {
    case WIRE_JOB:
        take_job(a, f);
        return;
    case WIRE_INPUT:
        take_input(a, f);
        return;
    case WIRE_START:
        take_start(a, f);
        return;
    case WIRE_SIGNAL:
        signal_all(a, (int)f->number);
        return;
    case WIRE_LOST:
        take_lost(a, f);
        return;
    case WIRE_CREDIT:
        a->credit[f->kind] += f->number;
        return;
    case WIRE_UNREAD:
        close_readers(a, f->kind);
        return;
    case WIRE_GONE:
        take_gone(a, f);
        return;
    case WIRE_PING:
        say(a, WIRE_PONG, 0, NULL, 0);
        return;
    case WIRE_BYE:
        a->over = true;
        return;
    default: /* HOLD has had its effect by being the last */
        return;
    }
}

static void hear(agent *a, uint64_t now)
{
    wire_frame frame;
    int there = 0;
    const bytes_moved moved = bytes_read(&a->in, a->from);
    while (!a->over && (there = wire_peek(&a->in, &frame)) > 0) {
        take_frame(a, &frame);
        a->lost_at = frame.type == WIRE_HOLD || a->job.silence_s == 0
                         ? NEVER
                         : now + (uint64_t)a->job.silence_s * NS_PER_S;
        wire_drop(&a->in, &frame);
    }
    if (moved == BYTES_END || there < 0)
        a->over = true;
}

/* ---- The loop --------------------------------------------------------------------------------- */

/* A signal to the agent itself ends the ranks as one to the launcher would. */
static void take_signals(agent *a, uint64_t now)
{
    int signal;
    while ((signal = loop_next_signal(a->signals)) != 0) {
        if (!loop_is_ending(signal) || a->leaving)
            continue;
        a->leaving = true;
        a->kill_at = now + LAUNCH_GRACE_S * NS_PER_S;
        signal_all(a, signal);
    }
}

static int poll_ms(const agent *a, uint64_t now)
{
    uint64_t next = loop_earlier(a->lost_at, a->kill_at);
    if (now < a->drained_at)
        next = loop_earlier(next, a->drained_at);
    return loop_poll_ms(next, now);
}

static void await(agent *a, uint64_t now)
{
    struct pollfd few[FIXED_POLLS], *polls = a->polls != NULL ? a->polls : few;
    nfds_t count = 0;
    polls[count++] = (struct pollfd){a->signals, POLLIN, 0};
    polls[count++] = (struct pollfd){a->from, POLLIN, 0};
    polls[count++] = (struct pollfd){bytes_used(&a->out) > 0 ? a->to : -1, POLLOUT, 0};
    for (int i = 0; i < a->started; i++) {
        for (int k = 0; k < WIRE_KINDS; k++) {
            const line_reader *s = &a->ranks[i].readers[k];
            if (line_reader_wants(s))
                polls[count++] = (struct pollfd){s->fd, POLLIN, 0};
        }
    }
    if (poll(polls, count, poll_ms(a, now)) <= 0)
        return;
    if (polls[1].revents != 0)
        hear(a, world_now_ns());
}

static void check_deadlines(agent *a, uint64_t now)
{
    if (now >= a->lost_at)
        a->over = true;
    if (now >= a->kill_at) {
        a->kill_at = NEVER;
        signal_all(a, SIGKILL);
    }
}

static void run_loop(agent *a)
{
    uint64_t now = world_now_ns();
    while (!a->over) {
        await(a, now);
        now = world_now_ns();
        take_signals(a, now);
        watch_ranks(a);
        check_deadlines(a, now);
        pump_readers(a, now);
        if (bytes_used(&a->out) > 0 && bytes_write(&a->out, a->to, SIZE_MAX) == BYTES_END)
            a->over = true;
        if (a->leaving && !a->running && bytes_used(&a->out) == 0)
            a->over = true;
    }
}

/* ---- Beginning and end ------------------------------------------------------------------------ */

static void set_nonblocking(int fd)
{
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

/* Kills what still runs, and waits until it is gone: whoever sees us end must find nothing left. */
static void end_ranks(agent *a)
{
    const uint64_t limit = world_now_ns() + LAST_WAIT_MS * NS_PER_MS;
    signal_all(a, SIGKILL);
    for (uint64_t now = world_now_ns(); a->alive > 0 && now < limit; now = world_now_ns()) {
        watch_ranks(a);
        if (a->alive > 0)
            poll(&(struct pollfd){a->signals, POLLIN, 0}, 1, loop_poll_ms(limit, now));
        while (loop_next_signal(a->signals) != 0)
            continue;
    }
    if (a->alive == 0)
        reap(a);
}

static void finish(agent *a)
{
    for (int k = 0; k < WIRE_KINDS; k++)
        close_readers(a, k);
    end_ranks(a);
    guard_dismiss(&a->guard);
    board_close(a->board);
    binding_free(&a->binding);
    memory_free(&a->memory);
    host_job_free(&a->job);
    bytes_free(&a->in);
    bytes_free(&a->out);
    free(a->ranks);
    free(a->polls);
    if (a->spawn.input >= 0)
        close(a->spawn.input);
    close(a->signals);
    close(a->from);
    if (a->to != a->from)
        close(a->to);
}

int agent_run(const agent_options *options)
{
    agent a = {.from = options->in,
               .to = options->out,
               .lost_at = NEVER,
               .drained_at = NEVER,
               .kill_at = NEVER,
               .credit = {WIRE_WINDOW, WIRE_WINDOW, WIRE_WINDOW},
               .guard = {0, -1}};
    prctl(PR_SET_NAME, "rueda-agent");
    a.signals = loop_open_signals(NULL);
    if (a.signals < 0)
        return EXIT_FAILURE;
    a.spawn = (spawn_context){.job = &a.job,
                              .binding = &a.binding,
                              .memory = &a.memory,
                              .meet = a.meet,
                              .board = a.board_path,
                              .mask = options->mask,
                              .files = options->files,
                              .give_stdin = options->give_stdin,
                              .input = -1};
    set_nonblocking(a.from);
    set_nonblocking(a.to);
    char hello[64];
    snprintf(hello, sizeof hello, "\n%s %d %s\n", WIRE_HELLO, WIRE_PROTOCOL, rueda_version());
    bytes_add_text(&a.out, hello);
    run_loop(&a);
    finish(&a);
    return EXIT_SUCCESS;
}
