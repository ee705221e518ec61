/* seal.c: envelopes between the caller's memory and the socket.
 *
 * Out: what is only authenticated goes to the socket from where it lies; small parts are gathered first.
 * What the socket does not take of an envelope waits here, so that the caller's memory is free: one envelope at
 * most. In: an envelope is received where the caller wants it if it fits there, and handed over when its tag
 * is right; one that has not come whole by the end of the call waits here.
 */
#include "net/seal.h"
#include "world/sockets.h"

#include "net/envelope.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define GATHER_BYTES 16384 /* parts from this size on are sent from where they lie */

/* Bytes from … to of a buffer. */
typedef struct range {
    size_t from, to;
} range;

/* The envelope that is arriving. One call to the system brings the rest of its content, its tag, and the
 * header of the next. */
typedef struct arrival {
    size_t bytes;   /* of content; 0: between two envelopes, the next header is not complete */
    size_t content; /* how much of it has come */
    size_t edge;    /* how much of `around` has come */
    uint8_t around[ENVELOPE_TAG + ENVELOPE_HEADER]; /* the tag, and the next header */
    envelope_frame frame;
} arrival;

/* What is kept out of core dumps. */
typedef struct seal_keys {
    envelope_direction out, in;
} seal_keys;

struct seal {
    seal_keys *keys;
    range waiting; /* of `outgoing`: what the socket did not take of an envelope */
    range opened;  /* of `incoming`: genuine, not delivered */
    arrival now;
    bool broken; /* something was not genuine */
    uint8_t outgoing[ENVELOPE_BYTES];
    uint8_t incoming[ENVELOPE_PLAIN];
};

static size_t length(range r)
{
    return r.to - r.from;
}

seal *seal_make(const proof_session *session, bool is_host, uint64_t key_bytes)
{
    const uint8_t *out = is_host ? session->to_caller : session->to_host;
    const uint8_t *in = is_host ? session->to_host : session->to_caller;
    void *memory;
    if (posix_memalign(&memory, OS_CACHE_LINE, sizeof(seal)) != 0)
        return NULL;
    seal *s = memory;
    s->keys = os_secret_alloc(sizeof *s->keys);
    if (s->keys == NULL) {
        free(s);
        return NULL;
    }
    s->waiting = s->opened = (range){0, 0};
    s->now = (arrival){.edge = ENVELOPE_TAG}; /* as behind an envelope */
    s->broken = false;
    envelope_start(&s->keys->out, session->cipher, session->encrypts, out);
    envelope_start(&s->keys->in, session->cipher, session->encrypts, in);
    s->keys->out.key_bytes = s->keys->in.key_bytes = key_bytes;
    return s;
}

void seal_free(seal *s)
{
    if (s == NULL)
        return;
    os_secret_free(s->keys, sizeof *s->keys);
    free(s);
}

/* ---- Out ------------------------------------------------------------------------------------- */

bool seal_waits(const seal *s)
{
    return length(s->waiting) > 0;
}

/* Bytes that the socket took, 0: none now, -1 with errno. */
static ssize_t give(int fd, struct iovec *parts, size_t count, int flags)
{
    const struct msghdr message = {.msg_iov = parts, .msg_iovlen = count};
    for (;;) {
        const ssize_t sent = world_sendmsg(fd, &message, flags | MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent >= 0)
            return sent;
        if (errno == EAGAIN || errno == EWOULDBLOCK)
            return 0;
        if (errno != EINTR)
            return -1;
    }
}

bool seal_push(seal *s, int fd)
{
    while (seal_waits(s)) {
        struct iovec rest = {s->outgoing + s->waiting.from, length(s->waiting)};
        const ssize_t sent = give(fd, &rest, 1, 0);
        if (sent <= 0)
            return sent == 0;
        s->waiting.from += (size_t)sent;
    }
    return true;
}

/* What is left of a list of parts. */
typedef struct cursor {
    const struct iovec *part, *end;
    size_t done; /* of the first part */
} cursor;

static void skip_empty(cursor *c)
{
    while (c->part < c->end && c->done == c->part->iov_len) {
        c->part++;
        c->done = 0;
    }
}

/* The next bytes for one envelope: the caller's own memory where a part is large or the last, otherwise
 * gathered in `room`, up to the next large part. */
static const uint8_t *next_bytes(cursor *c, uint8_t *room, size_t *bytes)
{
    const uint8_t *first = (const uint8_t *)c->part->iov_base + c->done;
    const size_t rest = c->part->iov_len - c->done;
    if (rest >= GATHER_BYTES || c->part + 1 == c->end) {
        *bytes = rest < ENVELOPE_PLAIN ? rest : ENVELOPE_PLAIN;
        c->done += *bytes;
        return first;
    }
    *bytes = 0;
    for (; c->part < c->end && *bytes < ENVELOPE_PLAIN; skip_empty(c)) {
        size_t piece = c->part->iov_len - c->done;
        if (piece >= GATHER_BYTES)
            break;
        if (piece > ENVELOPE_PLAIN - *bytes)
            piece = ENVELOPE_PLAIN - *bytes;
        memcpy(room + *bytes, (const uint8_t *)c->part->iov_base + c->done, piece);
        c->done += piece;
        *bytes += piece;
    }
    return room;
}

/* Lays what the socket did not take of an envelope into `outgoing`, at its place there. */
static void keep_rest(seal *s, const envelope_frame *frame, const uint8_t *content, size_t bytes,
                      size_t sent)
{
    uint8_t *own = s->outgoing + ENVELOPE_HEADER;
    const size_t skip = sent > ENVELOPE_HEADER ? sent - ENVELOPE_HEADER : 0;
    if (content != own && skip < bytes)
        memcpy(own + skip, content + skip, bytes - skip);
    memcpy(s->outgoing, frame->header, ENVELOPE_HEADER);
    memcpy(own + bytes, frame->tag, ENVELOPE_TAG);
    s->waiting = (range){sent, ENVELOPE_HEADER + bytes + ENVELOPE_TAG};
}

ssize_t seal_send(seal *s, int fd, const struct iovec *parts, int count)
{
    cursor c = {parts, parts + count, 0};
    size_t taken = 0;
    if (!seal_push(s, fd))
        return -1;
    for (skip_empty(&c); c.part < c.end && !seal_waits(s);) {
        size_t bytes;
        envelope_frame frame;
        uint8_t *room = s->outgoing + ENVELOPE_HEADER;
        const uint8_t *plain = next_bytes(&c, room, &bytes);
        const uint8_t *content = envelope_seal(&s->keys->out, plain, bytes, room, &frame);
        struct iovec envelope[3] = {
            {frame.header, ENVELOPE_HEADER}, {(void *)content, bytes}, {frame.tag, ENVELOPE_TAG}};
        skip_empty(&c);
        const ssize_t sent = give(fd, envelope, 3, c.part < c.end ? MSG_MORE : 0);
        if (sent < 0)
            return -1;
        if ((size_t)sent < ENVELOPE_HEADER + bytes + ENVELOPE_TAG)
            keep_rest(s, &frame, content, bytes, (size_t)sent);
        taken += bytes;
    }
    return (ssize_t)taken;
}

/* ---- In -------------------------------------------------------------------------------------- */

/* More of the envelope, its content to `to`: 1 if something came, 0 if not now or never (*ended), -1 with
 * errno. */
static int fetch(arrival *a, int fd, uint8_t *to, bool *ended)
{
    struct iovec parts[2] = {{to + a->content, a->bytes - a->content},
                             {a->around + a->edge, sizeof a->around - a->edge}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    ssize_t got;
    do
        got = world_recvmsg(fd, &message, MSG_DONTWAIT);
    while (got < 0 && errno == EINTR);
    if (got > 0) {
        const size_t content = (size_t)got < parts[0].iov_len ? (size_t)got : parts[0].iov_len;
        a->content += content;
        a->edge += (size_t)got - content;
        return 1;
    }
    *ended = got == 0;
    return got == 0 || errno == EAGAIN || errno == EWOULDBLOCK ? 0 : -1;
}

static int break_off(seal *s)
{
    s->broken = true;
    errno = EBADMSG;
    return -1;
}

static size_t deliver_opened(seal *s, uint8_t *to, size_t room)
{
    const size_t bytes = length(s->opened) < room ? length(s->opened) : room;
    memcpy(to, s->incoming + s->opened.from, bytes);
    s->opened.from += bytes;
    return bytes;
}

/* The envelope has come whole, its content to `at`: it is delivered, as far as there is room, if it is
 * genuine. */
static int open_envelope(seal *s, uint8_t *at, uint8_t *to, size_t room, size_t *delivered)
{
    arrival *a = &s->now;
    const size_t bytes = a->bytes;
    memcpy(a->frame.tag, a->around, ENVELOPE_TAG);
    if (!envelope_open(&s->keys->in, &a->frame, at))
        return break_off(s);
    a->bytes = a->content = 0;
    *delivered = bytes;
    if (at != to) {
        s->opened = (range){0, bytes};
        *delivered = deliver_opened(s, to, room);
    }
    return 1;
}

/* One step: a header, or as much of an envelope as has come. An envelope that has no room behind others is left
 * for the next call, which may bring more room. 1: there may be more, 0: not now, -1 with errno. */
static int advance(seal *s, int fd, uint8_t *to, size_t room, bool behind, size_t *delivered,
                   bool *ended)
{
    arrival *a = &s->now;
    if (a->bytes == 0 && a->edge == sizeof a->around) {
        memcpy(a->frame.header, a->around + ENVELOPE_TAG, ENVELOPE_HEADER);
        a->bytes = envelope_length(a->frame.header);
        a->edge = 0;
    }
    if (a->bytes == 0 && a->edge == 0)
        return break_off(s); /* no envelope has such a length */
    const bool begins = a->bytes > 0 && a->content == 0 && a->edge == 0;
    if (begins && behind && a->bytes > room)
        return 0;
    uint8_t *at = begins && a->bytes <= room ? to : s->incoming;
    const int result = fetch(a, fd, at, ended);
    if (a->bytes > 0 && a->content == a->bytes && a->edge >= ENVELOPE_TAG)
        return open_envelope(s, at, to, room, delivered);
    if (at == to)
        memcpy(s->incoming, to, a->content); /* the next call may want it elsewhere */
    return result;
}

ssize_t seal_receive(seal *s, int fd, uint8_t *to, size_t bytes, bool *ended)
{
    size_t done = deliver_opened(s, to, bytes);
    int result = 1;
    *ended = false;
    while (done < bytes && result > 0) {
        size_t delivered = 0;
        result = s->broken ? break_off(s)
                           : advance(s, fd, to + done, bytes - done, done > 0, &delivered, ended);
        done += delivered;
    }
    if (done == 0)
        return result < 0 ? -1 : 0;
    *ended = false; /* the next call finds the same again */
    return (ssize_t)done;
}
