/* seal.c: buffers between the records and the socket. One record waits at most on the way out, so what
 * is taken from the caller is bounded; on the way in records are opened straight into the caller's
 * memory where they fit. */
#include "net/seal.h"

#include "net/record.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define ARRIVED_BYTES (2 * RECORD_BYTES)

/* Bytes from … to of a buffer. */
typedef struct range {
    size_t from, to;
} range;

struct seal {
    record_direction out, in;
    range waiting; /* of `outgoing`: sealed, not sent */
    range arrived; /* of `incoming`: received, not opened */
    range opened;  /* of `incoming`: opened in place, not delivered; lies before `arrived` */
    uint8_t outgoing[RECORD_BYTES];
    uint8_t incoming[ARRIVED_BYTES];
};

static size_t length(range r)
{
    return r.to - r.from;
}

seal *seal_make(const proof_session *session, bool is_host)
{
    void *memory;
    if (posix_memalign(&memory, OS_CACHE_LINE, sizeof(seal)) != 0)
        return NULL;
    seal *s = memory;
    s->waiting = s->arrived = s->opened = (range){0, 0};
    record_start(&s->out, session->cipher, is_host ? session->to_caller : session->to_host);
    record_start(&s->in, session->cipher, is_host ? session->to_host : session->to_caller);
    return s;
}

void seal_free(seal *s)
{
    if (s == NULL)
        return;
    sodium_memzero(s, sizeof *s);
    free(s);
}

/* ---- Out ------------------------------------------------------------------------------------- */

bool seal_waits(const seal *s)
{
    return length(s->waiting) > 0;
}

bool seal_push(seal *s, int fd)
{
    while (seal_waits(s)) {
        const ssize_t sent = send(fd, s->outgoing + s->waiting.from, length(s->waiting),
                                  MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent > 0)
            s->waiting.from += (size_t)sent;
        else if (errno == EAGAIN || errno == EWOULDBLOCK)
            return true;
        else if (errno != EINTR)
            return false;
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

/* The next bytes for one record: the caller's own memory where a part suffices, otherwise gathered in
 * `room`. */
static const uint8_t *next_bytes(cursor *c, uint8_t *room, size_t *bytes)
{
    const uint8_t *first = (const uint8_t *)c->part->iov_base + c->done;
    const size_t rest = c->part->iov_len - c->done;
    if (rest >= RECORD_PLAIN || c->part + 1 == c->end) {
        *bytes = rest < RECORD_PLAIN ? rest : RECORD_PLAIN;
        c->done += *bytes;
        return first;
    }
    *bytes = 0;
    for (; c->part < c->end && *bytes < RECORD_PLAIN; skip_empty(c)) {
        size_t piece = c->part->iov_len - c->done;
        if (piece > RECORD_PLAIN - *bytes)
            piece = RECORD_PLAIN - *bytes;
        memcpy(room + *bytes, (const uint8_t *)c->part->iov_base + c->done, piece);
        c->done += piece;
        *bytes += piece;
    }
    return room;
}

ssize_t seal_send(seal *s, int fd, const struct iovec *parts, int count)
{
    cursor c = {parts, parts + count, 0};
    size_t taken = 0;
    if (!seal_push(s, fd))
        return -1;
    for (skip_empty(&c); c.part < c.end && !seal_waits(s); skip_empty(&c)) {
        size_t bytes;
        const uint8_t *plain = next_bytes(&c, s->outgoing + RECORD_HEADER, &bytes);
        s->waiting = (range){0, record_seal(&s->out, plain, bytes, s->outgoing)};
        taken += bytes;
        if (!seal_push(s, fd))
            return -1;
    }
    return (ssize_t)taken;
}

/* ---- In -------------------------------------------------------------------------------------- */

/* More bytes from the socket: 1 if some came, 0 if none now or no more (*ended), -1 with errno. */
static int fetch(seal *s, int fd, bool *ended)
{
    if (s->arrived.from > 0) {
        memmove(s->incoming, s->incoming + s->arrived.from, length(s->arrived));
        s->arrived = (range){0, length(s->arrived)};
    }
    ssize_t got;
    do
        got =
            recv(fd, s->incoming + s->arrived.to, sizeof s->incoming - s->arrived.to, MSG_DONTWAIT);
    while (got < 0 && errno == EINTR);
    if (got > 0) {
        s->arrived.to += (size_t)got;
        return 1;
    }
    *ended = got == 0;
    return got == 0 || errno == EAGAIN || errno == EWOULDBLOCK ? 0 : -1;
}

static size_t deliver_opened(seal *s, uint8_t *to, size_t room)
{
    const size_t bytes = length(s->opened) < room ? length(s->opened) : room;
    memcpy(to, s->incoming + s->opened.from, bytes);
    s->opened.from += bytes;
    return bytes;
}

/* Opens the next record, if all of it is there: 1; 0: it is not; -1: it is not genuine. */
static int open_next(seal *s, uint8_t *to, size_t room, size_t *delivered)
{
    *delivered = 0;
    if (length(s->arrived) < RECORD_HEADER)
        return 0;
    uint8_t *record = s->incoming + s->arrived.from;
    const size_t bytes = record_length(record);
    if (bytes == 0)
        return -1;
    if (length(s->arrived) < RECORD_HEADER + bytes + RECORD_TAG)
        return 0;
    const bool fits = bytes <= room;
    if (!record_open(&s->in, record, fits ? to : record + RECORD_HEADER))
        return -1;
    const size_t start = s->arrived.from + RECORD_HEADER;
    s->arrived.from = start + bytes + RECORD_TAG;
    if (fits) {
        *delivered = bytes;
    } else {
        s->opened = (range){start, start + bytes};
        *delivered = deliver_opened(s, to, room);
    }
    return 1;
}

ssize_t seal_receive(seal *s, int fd, uint8_t *to, size_t bytes, bool *ended)
{
    size_t done = deliver_opened(s, to, bytes);
    *ended = false;
    while (done < bytes) {
        size_t delivered;
        int result = open_next(s, to + done, bytes - done, &delivered);
        done += delivered;
        if (result < 0)
            errno = EBADMSG;
        if (result == 0)
            result = fetch(s, fd, ended);
        if (result <= 0 && done > 0)
            break; /* the next call finds the same again */
        if (result < 0)
            return -1;
        if (result == 0)
            break;
    }
    if (done > 0)
        *ended = false;
    return (ssize_t)done;
}
