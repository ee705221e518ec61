/* job_hear.c: what agents say, and what follows from it. See job.h. */
#include "cli/launch/describe.h"
#include "cli/launch/events.h"
#include "cli/launch/job.h"
#include "rueda.h"
#include "world/world.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void leave(host_link *l, uint64_t now)
{
    host_link_leave(l, now + JOB_LEAVE_S * NS_PER_S);
}

/* ---- Steps ------------------------------------------------------------------------------------ */

static void start_step(job *j, uint64_t now)
{
    const launch_hooks *hooks = &j->options->hooks;
    events_step_start(&j->output, j->step);
    if (hooks->step_started != NULL)
        hooks->step_started(hooks->context, j->step);
    j->start_by = now + (uint64_t)j->options->start_timeout_s * NS_PER_S;
    j->ends = 0;
    for (int r = 0; r < j->options->ranks; r++)
        j->fates[r] = (blame_fate){.named = -1};
    for (size_t i = 0; i < j->link_count; i++) {
        host_link *l = &j->links[i];
        l->state = LINK_RUNNING;
        l->to_start = l->count;
        host_link_say(l, WIRE_START, 0, (uint32_t)j->step, j->meet, strlen(j->meet));
    }
}

static bool choose_meeting(job *j)
{
    const host_link *other = NULL;
    for (size_t i = 0; i < j->link_count && other == NULL; i++)
        other = j->links[i].remote ? &j->links[i] : NULL;
    const host_link *first = &j->links[0];
    const meet_host hosts[] = {
        {first->host, hosts_is_here(first->host), &first->answer},
        {other != NULL ? other->host : NULL, false, other != NULL ? &other->answer : NULL}};
    if (j->link_count == 1 ||
        meet_choose(j->options, &hosts[0], other != NULL ? &hosts[1] : NULL, j->meet))
        return true;
    job_end(j, SIGTERM, EXIT_FAILURE, "host %s has no interface %s with an address", first->host,
            j->options->interfaces);
    return false;
}

/* When all hosts are ready: the first step, the next one, or the end. */
static void advance(job *j, uint64_t now, bool had_step)
{
    const launch_hooks *hooks = &j->options->hooks;
    if (j->failed_at != NEVER)
        return; /* whether the job ends is decided in a moment */
    for (size_t i = 0; i < j->link_count; i++) {
        if (j->links[i].state != LINK_READY)
            return;
    }
    if (had_step) {
        if (hooks->step_ended != NULL)
            hooks->step_ended(hooks->context, j->step);
        if (++j->step == j->options->step_count) {
            j->step--;
            for (size_t i = 0; i < j->link_count; i++)
                leave(&j->links[i], now);
            return;
        }
    } else if (!choose_meeting(j)) {
        return;
    }
    start_step(j, now);
}

void job_advance(job *j, uint64_t now)
{
    advance(j, now, true);
}

/* ---- Frames ----------------------------------------------------------------------------------- */

static int take_number(const wire_frame *f)
{
    wire_reader r = {f->body, f->body + f->length, false};
    return (int)wire_number(&r);
}

static void take_started(job *j, host_link *l, const wire_frame *f)
{
    const int rank = (int)f->number;
    const launch_hooks *hooks = &j->options->hooks;
    j->ranks[rank].pid = take_number(f);
    j->ranks[rank].alive = true;
    l->alive++;
    l->to_start--;
    events_rank_start(&j->output, j->step, rank, l->host, j->ranks[rank].pid);
    if (hooks->rank_started != NULL)
        hooks->rank_started(hooks->context, j->step, rank, l->host, j->ranks[rank].pid);
}

static void take_unstarted(job *j, host_link *l, const wire_frame *f)
{
    const int reason = take_number(f);
    char host[JOB_LINE_MAX], step[JOB_LINE_MAX];
    l->to_start = 0;
    const int code = reason == ENOENT   ? EXIT_NOT_FOUND
                     : reason == EACCES ? EXIT_NOT_EXECUTABLE
                                        : EXIT_FAILURE;
    job_end(j, SIGTERM, code, "cannot start %s%s%s: %s", j->options->steps[j->step].command[0],
            job_where(j, l, host), job_in_step(j, step), strerror(reason));
}

/* Ranks that are still in rueda_init learn it from their agent. */
static void tell_other_hosts(job *j, const host_link *of, int rank, int64_t joined, int named)
{
    bytes body = {0};
    wire_add_number(&body, joined);
    wire_add_number(&body, named);
    for (size_t i = 0; i < j->link_count; i++) {
        if (&j->links[i] != of && j->links[i].state == LINK_RUNNING)
            host_link_say(&j->links[i], WIRE_GONE, 0, (uint32_t)rank, bytes_first(&body),
                          bytes_used(&body));
    }
    bytes_free(&body);
}

/* False: it is none. */
static bool read_fate(job *j, const wire_frame *f, blame_fate *fate, int64_t *joined)
{
    wire_reader r = {f->body, f->body + f->length, false};
    *fate = (blame_fate){.ended = true, .turn = j->ends};
    fate->end.exit_code = wire_int(&r, 0, EXIT_CODE_MAX);
    fate->end.signal = wire_int(&r, 0, EXIT_CODE_MAX);
    fate->end.core_dumped = wire_int(&r, 0, 1) != 0;
    *joined = wire_number(&r);
    fate->joined = *joined > 0;
    fate->named = wire_int(&r, -1, j->options->ranks - 1);
    if (wire_int(&r, 0, 1) != 0)
        output_lose(&j->output, "the timeline of rank %d is incomplete", (int)f->number);
    return !r.bad;
}

static void take_ended(job *j, host_link *l, const wire_frame *f, uint64_t now)
{
    const int rank = (int)f->number;
    const launch_hooks *hooks = &j->options->hooks;
    blame_fate fate;
    int64_t joined;
    if (!j->ranks[rank].alive || !read_fate(j, f, &fate, &joined))
        return;
    j->ranks[rank].alive = false;
    l->alive--;
    j->ends++;
    j->fates[rank] = fate;
    tell_other_hosts(j, l, rank, joined, fate.named);
    events_rank_end(&j->output, j->step, rank, l->host, &fate.end);
    if (hooks->rank_ended != NULL)
        hooks->rank_ended(hooks->context, j->step, rank, &fate.end);
    job_gather_failures(j, now);
}

static void take_idle(job *j, host_link *l, uint64_t now)
{
    if (l->state != LINK_RUNNING)
        return;
    l->state = LINK_READY;
    if (j->cause[0] != '\0')
        leave(l, now);
    else
        job_advance(j, now);
}

static void take_ready(job *j, host_link *l, const wire_frame *f, uint64_t now)
{
    if (l->state != LINK_PREPARING || !host_answer_unpack(&l->answer, f->body, f->length))
        return;
    l->state = LINK_READY;
    bytes_drop(&l->said, bytes_used(&l->said)); /* greetings of a login */
    if (j->options->output.verbose)
        output_say(&j->output, "host %s is ready", l->host);
    advance(j, now, false);
}

/* Frames of ranks that are not its own would be a defect of the agent. */
static bool is_own(const host_link *l, const wire_frame *f)
{
    return f->number >= (uint32_t)l->first && f->number - (uint32_t)l->first < (uint32_t)l->count;
}

static void take_frame(job *j, host_link *l, const wire_frame *f, uint64_t now)
{
    const int length = (int)f->length;
    switch (f->type) {
    case WIRE_READY:
        take_ready(j, l, f, now);
        return;
    case WIRE_REFUSED:
        job_end(j, SIGTERM, EXIT_FAILURE, "host %s: %.*s", l->host, length, f->body);
        return;
    case WIRE_STARTED:
        if (is_own(l, f))
            take_started(j, l, f);
        return;
    case WIRE_UNSTARTED:
        take_unstarted(j, l, f);
        return;
    case WIRE_OUTPUT:
        if (is_own(l, f))
            wire_put(&l->pending[f->kind], f->type, f->kind, f->number, f->body, f->length);
        return;
    case WIRE_ENDED:
        if (is_own(l, f))
            take_ended(j, l, f, now);
        return;
    case WIRE_IDLE:
        take_idle(j, l, now);
        return;
    case WIRE_PONG:
        l->silence_at = NEVER;
        return;
    case WIRE_NOTE:
        output_say(&j->output, "host %s: %.*s", l->host, length, f->body);
        return;
    default:
        return;
    }
}

/* ---- Hearing ---------------------------------------------------------------------------------- */

/* Ends with an empty frame: an empty input is one, too. */
static void send_input(job *j, host_link *l)
{
    if (j->input < 0)
        return;
    char *part = bytes_new(1, WIRE_INPUT_MAX);
    ssize_t count;
    off_t at = 0;
    do {
        count = pread(j->input, part, WIRE_INPUT_MAX, at);
        host_link_say(l, WIRE_INPUT, 0, 0, part, count > 0 ? (size_t)count : 0);
        at += count;
    } while (count > 0);
    free(part);
}

/* The job goes to an agent that has greeted. */
static void greet(job *j, host_link *l, uint64_t now)
{
    char greeting[64];
    if (!host_link_greeted(l, greeting, sizeof greeting))
        return;
    l->state = LINK_PREPARING;
    l->greeted = true;
    const size_t index = (size_t)(l - j->links);
    if (atoi(greeting) != WIRE_PROTOCOL) {
        job_end(j, SIGTERM, EXIT_FAILURE,
                "host %s has another rueda (protocol and version %s); install %s there", l->host,
                greeting, rueda_version());
        return;
    }
    send_input(j, l);
    bytes body = {0};
    host_job part = describe_host(j->options, j->shares, j->link_count, index);
    part.name = j->name;
    part.key = j->key;
    host_job_pack(&part, &body);
    describe_free(&part);
    host_link_say(l, WIRE_JOB, 0, 0, bytes_first(&body), bytes_used(&body));
    bytes_free(&body);
    if (l->remote)
        l->ping_at = now;
}

/* Moves output that has come to where it belongs, and gives the agent the room back. */
static void move_output(job *j, host_link *l)
{
    wire_frame f;
    for (int k = 0; k < WIRE_KINDS; k++) {
        bytes *pending = &l->pending[k];
        while (output_has_room(&j->output, k) && wire_peek(pending, &f) > 0) {
            output_put(&j->output, (int)f.number, k, f.body, f.length);
            l->owed[k] += WIRE_HEADER + f.length;
            wire_drop(pending, &f);
        }
        if (l->owed[k] >= WIRE_WINDOW / 4) {
            host_link_say(l, WIRE_CREDIT, k, (uint32_t)l->owed[k], NULL, 0);
            l->owed[k] = 0;
        }
    }
}

static bool has_pending(const host_link *l)
{
    size_t used = 0;
    for (int k = 0; k < WIRE_KINDS; k++)
        used += bytes_used(&l->pending[k]);
    return used > 0;
}

static void hear_link(job *j, host_link *l, uint64_t now)
{
    wire_frame f;
    int there = 0;
    if (l->state == LINK_CLOSED)
        return;
    host_link_move(l);
    if (l->state == LINK_CONNECTING)
        greet(j, l, now);
    while (l->state != LINK_CONNECTING && (there = wire_peek(&l->in, &f)) > 0) {
        take_frame(j, l, &f, now);
        wire_drop(&l->in, &f);
    }
    if (there < 0)
        l->ended = true;
    if (l->ended) /* its process should follow soon */
        l->leave_by = loop_earlier(l->leave_by, now + JOB_LEAVE_S * NS_PER_S);
    move_output(j, l);
    if (l->state >= LINK_READY && l->state < LINK_LEAVING && bytes_used(&l->said) > 0)
        l->quote_at = loop_earlier(l->quote_at, now + JOB_QUOTE_MS * NS_PER_MS);
    if (!host_link_is_dead(l) || has_pending(l))
        return;
    if (l->state < LINK_LEAVING)
        job_lose_link(j, l);
    if (l->greeted && bytes_used(&l->said) > 0)
        output_quote(&j->output, l->host, &l->said);
    host_link_close(l);
}

/* The ranks whose output nobody reads learn it by SIGPIPE, as without a launcher. */
static void tell_unread(job *j)
{
    for (int k = 0; k < WIRE_KINDS; k++) {
        if (j->unread[k] || !output_is_unread(&j->output, k))
            continue;
        j->unread[k] = true;
        for (size_t i = 0; i < j->link_count; i++)
            host_link_say(&j->links[i], WIRE_UNREAD, k, 0, NULL, 0);
    }
}

static bool all_closed(const job *j)
{
    for (size_t i = 0; i < j->link_count; i++) {
        if (j->links[i].state != LINK_CLOSED)
            return false;
    }
    return true;
}

/* The cause is told once, after all that the ranks have said. */
static void tell_cause(job *j)
{
    if (j->told || !all_closed(j))
        return;
    j->told = true;
    if (j->cause[0] == '\0' && j->output.lost[0] != '\0') {
        snprintf(j->cause, sizeof j->cause, "%s", j->output.lost);
        j->exit_code = EXIT_FAILURE;
    }
    if (j->cause[0] != '\0') {
        if (j->shown >= 0)
            output_show_tail(&j->output, j->shown);
        output_say(&j->output, "%s", j->cause);
    } else if (j->lost > 0) {
        output_say(&j->output, "%d rank%s lost on the way; the others ended well", j->lost,
                   j->lost > 1 ? "s were" : " was");
    }
    events_job_end(&j->output, j->exit_code, j->cause[0] != '\0' ? j->cause : NULL, j->lost,
                   (double)(world_now_ns() - j->started_at) / (double)NS_PER_S);
}

void job_hear(job *j, uint64_t now)
{
    for (size_t i = 0; i < j->link_count; i++)
        hear_link(j, &j->links[i], now);
    tell_unread(j);
    tell_cause(j);
}

bool job_is_over(const job *j)
{
    return j->told && bytes_used(&j->output.sinks[WIRE_STDOUT].waiting) == 0 &&
           bytes_used(&j->output.sinks[WIRE_STDERR].waiting) == 0;
}
