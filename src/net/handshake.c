/* handshake.c: sends and receives the messages of the proof in turn. */
#include "net/handshake.h"
#include "world/sockets.h"

#include <errno.h>
#include <sodium.h>
#include <string.h>
#include <sys/socket.h>

void handshake_call(handshake *h, const net_identity *me, const net_purpose *purpose, bool has_aes)
{
    *h = (handshake){.me = *me, .purpose = *purpose, .has_aes = has_aes, .verdict = PROOF_GOOD};
    world_random(&h->chance, sizeof h->chance);
    proof_make_hello(me, purpose, has_aes, &h->chance, &h->said);
}

void handshake_host(handshake *h, const net_identity *me, heard *all, bool has_aes)
{
    *h = (handshake){
        .me = *me, .heard = all, .is_host = true, .has_aes = has_aes, .verdict = PROOF_GOOD};
}

bool handshake_sends(const handshake *h)
{
    return (h->turn == TURN_ANSWER) == h->is_host;
}

static uint8_t *message(handshake *h, size_t *bytes)
{
    switch (h->turn) {
    case TURN_HELLO:
        *bytes = sizeof h->said.hello;
        return h->said.hello;
    case TURN_ANSWER:
        *bytes = sizeof h->said.answer;
        return h->said.answer;
    default:
        *bytes = sizeof h->said.finish;
        return h->said.finish;
    }
}

/* Moves what the socket lets move of the message. */
static handshake_result move(handshake *h, int fd)
{
    size_t bytes;
    uint8_t *start = message(h, &bytes);
    while (h->moved < bytes) {
        uint8_t *at = start + h->moved;
        const size_t rest = bytes - h->moved;
        const ssize_t moved = handshake_sends(h)
                                  ? world_send(fd, at, rest, MSG_NOSIGNAL | MSG_DONTWAIT)
                                  : world_recv(fd, at, rest, MSG_DONTWAIT);
        if (moved < 0 && errno == EINTR)
            continue;
        if (moved < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return HANDSHAKE_WAITS;
        if (moved <= 0) {
            h->error = moved < 0 ? errno : 0;
            h->left = moved == 0 || errno == ECONNRESET || errno == EPIPE;
            h->verdict = PROOF_GARBAGE;
            return HANDSHAKE_FAILED;
        }
        h->moved += (size_t)moved;
        /* strangers need not be heard out */
        if (h->turn == TURN_HELLO && h->is_host)
            h->verdict = proof_check_prefix(&h->said, h->moved);
        if (h->verdict != PROOF_GOOD)
            return HANDSHAKE_FAILED;
    }
    return HANDSHAKE_DONE;
}

/* A host that has the whole hello. */
static proof_verdict judge_hello(handshake *h)
{
    const proof_verdict verdict = proof_check_hello(&h->me, &h->said, &h->purpose);
    if (verdict != PROOF_GOOD)
        return verdict;
    if (h->heard != NULL && !heard_note(h->heard, proof_nonce(&h->said)))
        return PROOF_REPEATED;
    world_random(&h->chance, sizeof h->chance);
    proof_make_answer(&h->me, h->has_aes, &h->chance, &h->said);
    return PROOF_GOOD;
}

/* What follows from a message that is complete. */
static proof_verdict conclude(handshake *h)
{
    if (handshake_sends(h))
        return PROOF_GOOD;
    if (h->turn == TURN_HELLO)
        return judge_hello(h);
    if (h->turn == TURN_FINISH)
        return proof_check_finish(&h->me, &h->said);
    const proof_verdict verdict = proof_check_answer(&h->me, &h->said);
    if (verdict == PROOF_GOOD)
        proof_make_finish(&h->me, &h->said);
    return verdict;
}

handshake_result handshake_step(handshake *h, int fd)
{
    while (h->turn != TURN_OVER) {
        const handshake_result result = move(h, fd);
        if (result != HANDSHAKE_DONE)
            return result;
        h->verdict = conclude(h);
        if (h->verdict != PROOF_GOOD)
            return HANDSHAKE_FAILED;
        h->turn++;
        h->moved = 0;
    }
    return HANDSHAKE_DONE;
}

void handshake_wipe(handshake *h)
{
    sodium_memzero(h, sizeof *h);
}
