/* job.c: see job.h. */
#include "cli/launch/job.h"

#include "cli/launch/events.h"
#include "cli/launch/losses.h"
#include "cli/launch/tail.h"
#include "world/world.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#define PINGS_A_SILENCE 4 /* so many may be lost */

/* ---- Ending ----------------------------------------------------------------------------------- */

void job_signal(job *j, int signal)
{
    for (size_t i = 0; i < j->link_count; i++) {
        if (j->links[i].state == LINK_RUNNING)
            host_link_say(&j->links[i], WIRE_SIGNAL, 0, (uint32_t)signal, NULL, 0);
    }
}

static void ask_to_end(job *j, int signal)
{
    j->ask_at = NEVER;
    j->kill_at = world_now_ns() + LAUNCH_GRACE_S * NS_PER_S;
    job_signal(j, signal);
}

/* Keeps the first cause, with which the end begins; false: it has begun already. */
static bool begin_end(job *j, int exit_code, const char *format, va_list args)
{
    if (j->cause[0] != '\0')
        return false;
    vsnprintf(j->cause, sizeof j->cause, format, args);
    j->exit_code = exit_code;
    j->start_by = j->blame_at = NEVER;
    const uint64_t leave_by = world_now_ns() + JOB_LEAVE_S * NS_PER_S;
    for (size_t i = 0; i < j->link_count; i++) {
        if (j->links[i].state != LINK_RUNNING)
            host_link_leave(&j->links[i], leave_by);
    }
    return true;
}

void job_end(job *j, int signal, int exit_code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const bool first = begin_end(j, exit_code, format, args);
    va_end(args);
    if (first || j->ask_at != NEVER)
        ask_to_end(j, signal);
}

void job_fail(job *j, int exit_code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const bool first = begin_end(j, exit_code, format, args);
    va_end(args);
    if (first)
        j->ask_at = loop_earlier(j->failed_at, world_now_ns()) +
                    (uint64_t)j->options->farewell_s * NS_PER_S;
}

const char *job_where(const job *j, const host_link *l, char to[JOB_LINE_MAX])
{
    to[0] = '\0';
    if (j->link_count > 1 || l->remote)
        snprintf(to, JOB_LINE_MAX, " on %s", l->host);
    return to;
}

const char *job_in_step(const job *j, char to[JOB_LINE_MAX])
{
    const char *label = j->options->steps[j->step].label;
    to[0] = '\0';
    if (label != NULL)
        snprintf(to, JOB_LINE_MAX, " in %s", label);
    return to;
}

/* "rank 2, worker 3 on node2 (pid 4711)" */
static const char *describe_rank(const job *j, int rank, char to[JOB_LINE_MAX])
{
    const char *label = j->options->rank_extra != NULL ? j->options->rank_extra[rank].label : NULL;
    char host[JOB_LINE_MAX];
    snprintf(to, JOB_LINE_MAX, "rank %d%s%s%s (pid %d)", rank, label != NULL ? ", " : "",
             label != NULL ? label : "", job_where(j, j->ranks[rank].link, host),
             j->ranks[rank].pid);
    return to;
}

/* "exited with 4", "was killed by SIGSEGV (core dumped)" */
static const char *describe_end(const launch_end *end, char to[JOB_LINE_MAX])
{
    if (end->signal == 0)
        snprintf(to, JOB_LINE_MAX, "exited with %d", end->exit_code);
    else
        snprintf(to, JOB_LINE_MAX, "was killed by SIG%s%s", sigabbrev_np(end->signal),
                 end->core_dumped ? " (core dumped)" : "");
    return to;
}

/* Why an elastic job does not go on; "" for others. */
static const char *describe_limit(const job *j, const losses_tally *tally, char to[JOB_LINE_MAX])
{
    to[0] = '\0';
    if (j->options->min_ranks > 0 && tally->start_failed)
        snprintf(to, JOB_LINE_MAX, "; the first rueda_init needs all ranks");
    else if (j->options->min_ranks > 0)
        snprintf(to, JOB_LINE_MAX, "; fewer ranks are left than --min-np %d asks for",
                 j->options->min_ranks);
    return to;
}

static void blame_rank(job *j, const blame *b, const losses_tally *tally)
{
    const blame_fate *fate = &j->fates[b->failed], *culprit = &j->fates[b->culprit];
    char who[JOB_LINE_MAX], how[JOB_LINE_MAX], other[JOB_LINE_MAX], step[JOB_LINE_MAX],
        why[JOB_LINE_MAX];
    describe_rank(j, b->failed, who);
    describe_end(&fate->end, how);
    job_in_step(j, step);
    describe_limit(j, tally, why);
    j->shown = b->failed;
    if (b->culprit == b->failed)
        job_fail(j, fate->end.exit_code, "%s %s%s%s", who, how, step, why);
    else
        job_fail(j, fate->end.exit_code, "%s %s%s: %s %s%s", describe_rank(j, b->culprit, other),
                 culprit->ended ? "exited with 0 while the others still needed it"
                                : "was lost to the others, although it still runs",
                 step, who, how, why);
}

/* "3 ranks go on" */
static const char *describe_others(int running, char to[JOB_LINE_MAX])
{
    if (running > 0)
        snprintf(to, JOB_LINE_MAX, "%d rank%s on", running, running > 1 ? "s go" : " goes");
    else
        snprintf(to, JOB_LINE_MAX, "the others have ended well");
    return to;
}

static void lose_rank(job *j, int rank, int running)
{
    char who[JOB_LINE_MAX], how[JOB_LINE_MAX], step[JOB_LINE_MAX], others[JOB_LINE_MAX];
    host_link *l = j->ranks[rank].link;
    j->fates[rank].lost = true;
    j->lost++;
    output_say(&j->output, "%s %s%s; %s", describe_rank(j, rank, who),
               describe_end(&j->fates[rank].end, how), job_in_step(j, step),
               describe_others(running, others));
    events_rank_lost(&j->output, j->step, rank, l->host, running);
    host_link_say(l, WIRE_LOST, 0, (uint32_t)rank, NULL, 0);
}

static void go_on(job *j, const losses_tally *tally)
{
    for (int r = 0; r < j->options->ranks; r++) {
        if (blame_has_failed(&j->fates[r]) && !j->fates[r].lost)
            lose_rank(j, r, tally->running);
    }
    j->failed_at = j->blame_at = NEVER;
    job_advance(j, world_now_ns()); /* the step may have ended meanwhile */
}

/* Whom the others name is waited for as long as ranks may end by themselves: its own end, and that of its
 * host, tells more. An elastic job that may go on learns in the same time whether others fail, too, be it
 * in their first rueda_init, which a rank that never joined has broken. */
void job_gather_failures(job *j, uint64_t now)
{
    const blame b = blame_find(j->fates, j->options->ranks);
    if (b.failed < 0 || j->cause[0] != '\0')
        return;
    const losses_tally tally = losses_count(j->fates, j->options->ranks);
    const bool goes_on = losses_survived(j->options, &tally);
    const blame_fate *culprit = &j->fates[b.culprit];
    const bool known = b.certain && (!goes_on || tally.running == 0);
    const bool awaited = !culprit->ended || (goes_on && !culprit->joined);
    j->failed_at = loop_earlier(j->failed_at, now);
    j->blame_at = known     ? now
                  : awaited ? j->failed_at + (uint64_t)j->options->farewell_s * NS_PER_S
                            : j->failed_at + JOB_BLAME_MS * NS_PER_MS;
}

void job_decide(job *j)
{
    const blame b = blame_find(j->fates, j->options->ranks);
    if (b.failed < 0 || j->cause[0] != '\0')
        return;
    const losses_tally tally = losses_count(j->fates, j->options->ranks);
    if (losses_survived(j->options, &tally))
        go_on(j, &tally);
    else
        blame_rank(j, &b, &tally);
}

/* ---- Links that are lost ---------------------------------------------------------------------- */

typedef struct last_line {
    char text[JOB_LINE_MAX];
    int count;
} last_line;

static void keep_line(void *context, const char *line)
{
    last_line *last = context;
    snprintf(last->text, sizeof last->text, "%s", line);
    last->count++;
}

/* What a host said, for the end of a sentence; if it said much, the rest goes before. */
static const char *answer_of(job *j, host_link *l, last_line *last)
{
    *last = (last_line){.count = 0};
    if (l->state == LINK_CONNECTING)
        bytes_add(&l->said, bytes_first(&l->in), bytes_used(&l->in));
    tail_show(&l->said, TAIL_LINES_ALL, keep_line, last);
    last->text[strcspn(last->text, "\r")] = '\0';
    if (last->count > 1)
        output_quote(&j->output, l->host, &l->said);
    bytes_drop(&l->said, bytes_used(&l->said));
    return last->text;
}

static void describe_status(const host_link *l, char *to, size_t size)
{
    const char *what = l->remote ? "ssh" : "the agent";
    if (l->pid > 0)
        snprintf(to, size, "%s closed the connection", what);
    else if (WIFSIGNALED(l->status))
        snprintf(to, size, "%s was killed by SIG%s", what, sigabbrev_np(WTERMSIG(l->status)));
    else
        snprintf(to, size, "%s ended with %d", what, WEXITSTATUS(l->status));
}

static void forget_ranks(job *j, host_link *l)
{
    for (int r = l->first; r < l->first + l->count; r++)
        j->ranks[r].alive = false;
    l->alive = l->to_start = 0;
}

void job_lose_link(job *j, host_link *l)
{
    char how[JOB_LINE_MAX];
    last_line last;
    const bool began = l->state >= LINK_READY;
    describe_status(l, how, sizeof how);
    const char *answer = answer_of(j, l, &last);
    const char *colon = answer[0] != '\0' ? ": " : "";
    forget_ranks(j, l);
    l->state = LINK_LEAVING;
    job_fail(j, EXIT_FAILURE, "%s %s: %s%s%s", began ? "lost host" : "cannot start on host",
             l->host, how, colon, answer);
}

/* Breaks a connection from which nothing comes any more. */
static void cut_link(job *j, host_link *l)
{
    forget_ranks(j, l);
    host_link_close(l);
}

static void end_late_start(job *j)
{
    char names[JOB_CAUSE_MAX / 4] = "";
    host_link *late = NULL;
    size_t used = 0, count = 0;
    for (size_t i = 0; i < j->link_count; i++) {
        host_link *l = &j->links[i];
        if (l->state == LINK_READY || (l->state == LINK_RUNNING && l->to_start == 0))
            continue;
        late = late != NULL ? late : l;
        count++;
        if (used < sizeof names)
            used += (size_t)snprintf(names + used, sizeof names - used, "%s%s",
                                     count > 1 ? ", " : "", l->host);
    }
    last_line last = {.count = 0};
    const char *answer = late != NULL ? answer_of(j, late, &last) : "";
    job_end(j, SIGTERM, EXIT_FAILURE,
            "host%s %s did not answer within %lld s (--start-timeout): ssh said %s",
            count > 1 ? "s" : "", names, (long long)j->options->start_timeout_s,
            answer[0] != '\0' ? answer : "nothing");
}

/* ---- Deadlines -------------------------------------------------------------------------------- */

static void check_link(job *j, host_link *l, uint64_t now)
{
    const uint64_t silence = (uint64_t)j->options->silence_s * NS_PER_S;
    if (now >= l->ping_at) {
        host_link_say(l, WIRE_PING, 0, 0, NULL, 0);
        l->ping_at = now + silence / PINGS_A_SILENCE;
        l->silence_at = loop_earlier(l->silence_at, now + silence);
    }
    if (now >= l->silence_at) {
        l->silence_at = NEVER;
        job_fail(j, EXIT_FAILURE, "lost host %s: no sign of life for %lld s", l->host,
                 (long long)j->options->silence_s);
        cut_link(j, l);
    }
    if (now >= l->quote_at) {
        l->quote_at = NEVER;
        output_quote(&j->output, l->host, &l->said);
    }
    if (now >= l->leave_by) {
        if (l->state < LINK_LEAVING)
            job_lose_link(j, l);
        cut_link(j, l);
    }
}

static bool all_started(const job *j)
{
    for (size_t i = 0; i < j->link_count; i++) {
        if (j->links[i].state != LINK_RUNNING || j->links[i].to_start > 0)
            return false;
    }
    return true;
}

static void abandon_links(job *j)
{
    for (size_t i = 0; i < j->link_count; i++) {
        host_link *l = &j->links[i];
        if (l->alive == 0 || l->state == LINK_CLOSED)
            continue;
        output_say(&j->output, "host %s does not answer: its ranks are left to its agent", l->host);
        cut_link(j, l);
    }
}

void job_check_deadlines(job *j, uint64_t now)
{
    if (now >= j->blame_at)
        job_decide(j);
    if (j->start_by != NEVER && all_started(j)) {
        j->start_by = NEVER;
        if (j->options->output.verbose)
            output_say(&j->output, "all ranks run, after %.3f s%s%s",
                       (double)(now - j->started_at) / (double)NS_PER_S,
                       j->meet[0] != '\0' ? "; they meet at " : "", j->meet);
    }
    if (now >= j->start_by) {
        j->start_by = NEVER;
        end_late_start(j);
    }
    if (now >= j->timeout_at) {
        j->timeout_at = NEVER;
        job_decide(j);
        job_end(j, SIGTERM, EXIT_TIMEOUT, "the job took longer than %.10g s (--timeout)",
                (double)j->options->timeout_ms / 1e3);
        j->give_up_at = now + (LAUNCH_GRACE_S + 1) * NS_PER_S;
    }
    if (now >= j->ask_at)
        ask_to_end(j, SIGTERM);
    if (now >= j->kill_at) {
        j->kill_at = NEVER;
        j->abandon_at = now + LAUNCH_GRACE_S * NS_PER_S;
        job_signal(j, SIGKILL);
    }
    if (now >= j->abandon_at) {
        j->abandon_at = NEVER;
        abandon_links(j);
    }
    for (size_t i = 0; i < j->link_count; i++)
        check_link(j, &j->links[i], now);
}

uint64_t job_next_deadline(const job *j)
{
    const uint64_t all[] = {j->start_by, j->timeout_at, j->blame_at,  j->ask_at,
                            j->kill_at,  j->abandon_at, j->give_up_at};
    uint64_t next = NEVER;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        next = loop_earlier(next, all[i]);
    for (size_t i = 0; i < j->link_count; i++) {
        const host_link *l = &j->links[i];
        next = loop_earlier(next, loop_earlier(l->ping_at, l->quote_at));
        next = loop_earlier(next, loop_earlier(l->silence_at, l->leave_by));
    }
    return next;
}
