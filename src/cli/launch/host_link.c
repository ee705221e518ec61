/* host_link.c: see host_link.h. */
#include "cli/launch/host_link.h"

#include "cli/launch/agent.h"
#include "cli/launch/child.h"
#include "cli/launch/loop.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define LAST_WRITE_MS 500

/* ---- Opening ---------------------------------------------------------------------------------- */

static bool open_pair(int ends[2])
{
    return socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0;
}

/* Our end of a link to a process that was just started; closes what the process has. */
static bool take_end(host_link *l, int ends[2])
{
    close(ends[1]);
    if (l->pid < 0) {
        close(ends[0]);
        l->pid = 0;
        return false;
    }
    l->fd = ends[0];
    fcntl(l->fd, F_SETFL, O_NONBLOCK);
    return true;
}

/* An agent that held the launcher's end of another would keep that from seeing the launcher's end. */
static void close_others(const host_link *links, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (links[i].fd >= 0)
            close(links[i].fd);
    }
}

bool host_link_open_here(host_link *l, const host_link *links, size_t count, const sigset_t *mask,
                         const struct rlimit *files, bool give_stdin)
{
    int ends[2];
    l->fd = l->errors = -1;
    if (!open_pair(ends))
        return false;
    l->pid = fork();
    if (l->pid == 0) {
        setsid(); /* the terminal's signals are the launcher's business */
        close(ends[0]);
        close_others(links, count);
        _exit(agent_run(&(agent_options){ends[1], ends[1], *mask, *files, give_stdin}));
    }
    return take_end(l, ends);
}

bool host_link_open_ssh(host_link *l, char **command, const sigset_t *mask)
{
    int ends[2], errors[2];
    l->fd = l->errors = -1;
    if (!open_pair(ends))
        return false;
    if (pipe2(errors, O_CLOEXEC) != 0) {
        close(ends[0]);
        close(ends[1]);
        return false;
    }
    l->pid = child_start(&(child){.command = command,
                                  .input = ends[1],
                                  .output = ends[1],
                                  .errors = errors[1],
                                  .place = CHILD_OWN_SESSION,
                                  .death_signal = SIGKILL,
                                  .mask = mask,
                                  .complaint = ""});
    close(errors[1]);
    l->errors = errors[0];
    fcntl(l->errors, F_SETFL, O_NONBLOCK);
    return take_end(l, ends);
}

/* ---- Moving ----------------------------------------------------------------------------------- */

void host_link_say(host_link *l, wire_type type, int kind, uint32_t number, const void *body,
                   size_t length)
{
    if (l->fd >= 0)
        wire_put(&l->out, type, kind, number, body, length);
}

/* What a host says is kept to its last bytes. */
static void keep_last(bytes *said)
{
    if (bytes_used(said) > LINK_ANSWER_MAX)
        bytes_drop(said, bytes_used(said) - LINK_ANSWER_MAX);
}

static void move_errors(host_link *l)
{
    if (l->errors < 0)
        return;
    bytes_moved moved;
    while ((moved = bytes_read(&l->said, l->errors)) == BYTES_MOVED)
        keep_last(&l->said);
    /* A connection that ssh shares may keep the descriptor open for good. */
    if (moved == BYTES_END || l->pid == 0) {
        close(l->errors);
        l->errors = -1;
    }
}

void host_link_move(host_link *l)
{
    if (l->pid > 0 && waitpid(l->pid, &l->status, WNOHANG) == l->pid)
        l->pid = 0;
    if (l->fd >= 0) {
        if (bytes_used(&l->out) > 0 && bytes_write(&l->out, l->fd, SIZE_MAX) == BYTES_END)
            bytes_drop(&l->out, bytes_used(&l->out));
        if (!l->ended && bytes_read(&l->in, l->fd) == BYTES_END)
            l->ended = true;
    }
    move_errors(l);
}

/* A login shell may have printed something before. */
bool host_link_greeted(host_link *l, char *greeting, size_t size)
{
    static const char hello[] = "\n" WIRE_HELLO " ";
    const size_t length = sizeof hello - 1;
    if (bytes_used(&l->in) < length)
        return false;
    const char *first = bytes_first(&l->in), *end = first + bytes_used(&l->in);
    const char *found = memmem(first, bytes_used(&l->in), hello, length);
    const char *line_end =
        found != NULL ? memchr(found + length, '\n', (size_t)(end - found) - length) : NULL;
    if (line_end == NULL) {
        if (bytes_used(&l->in) >
            LINK_ANSWER_MAX) { /* what cannot be the start of it is what it answered */
            bytes_add(&l->said, first, bytes_used(&l->in) - length);
            keep_last(&l->said);
            bytes_drop(&l->in, bytes_used(&l->in) - length);
        }
        return false;
    }
    snprintf(greeting, size, "%.*s", (int)(line_end - found - (ptrdiff_t)length), found + length);
    bytes_drop(&l->in, (size_t)(line_end + 1 - first));
    return true;
}

bool host_link_is_dead(const host_link *l)
{
    return l->ended && l->pid == 0;
}

/* ---- Ending ----------------------------------------------------------------------------------- */

void host_link_leave(host_link *l, uint64_t leave_by)
{
    if (l->state >= LINK_LEAVING)
        return;
    if (l->state == LINK_CONNECTING && l->remote && l->pid > 0)
        kill(l->pid, SIGTERM);
    host_link_say(l, WIRE_BYE, 0, 0, NULL, 0);
    l->state = LINK_LEAVING;
    l->leave_by = leave_by;
}

void host_link_finish_writing(host_link *l)
{
    struct pollfd ready = {l->fd, POLLOUT, 0};
    while (l->fd >= 0 && bytes_used(&l->out) > 0 && poll(&ready, 1, LAST_WRITE_MS) > 0) {
        if (bytes_write(&l->out, l->fd, SIZE_MAX) == BYTES_END)
            return;
    }
}

void host_link_close(host_link *l)
{
    if (l->fd >= 0)
        close(l->fd); /* an agent that is still there ends its ranks now */
    if (l->errors >= 0)
        close(l->errors);
    if (l->pid > 0) {
        if (l->remote)
            kill(l->pid, SIGKILL);
        waitpid(l->pid, NULL, 0);
    }
    l->fd = l->errors = -1;
    l->pid = 0;
    l->ping_at = l->silence_at = l->quote_at = l->leave_by = NEVER;
    l->state = LINK_CLOSED;
    bytes_free(&l->in);
    bytes_free(&l->out);
    bytes_free(&l->said);
    for (int k = 0; k < WIRE_KINDS; k++)
        bytes_free(&l->pending[k]);
}
