/* handshake.h: the proof of one connection, as far as its socket lets it go. */
#ifndef RUEDA_NET_HANDSHAKE_H
#define RUEDA_NET_HANDSHAKE_H

#include "net/heard.h"
#include "net/proof.h"

/* The message under way; each is sent by one end and received by the other. */
typedef enum handshake_turn { TURN_HELLO, TURN_ANSWER, TURN_FINISH, TURN_OVER } handshake_turn;

typedef struct handshake {
    net_identity me;
    net_purpose purpose; /* of a host: known from TURN_ANSWER on */
    heard *heard;        /* of a host: what its door has heard, or NULL */
    proof_chance chance;
    proof_transcript said;
    handshake_turn turn;
    size_t moved; /* bytes of the message under way */
    bool is_host;
    bool has_aes;
    proof_verdict verdict; /* PROOF_GOOD until it has failed */
    int error;             /* why the socket failed, or 0 */
    bool left;             /* the other end closed it */
} handshake;

/* `all` must stay as long as the handshake; it may be NULL. */
void handshake_call(handshake *h, const net_identity *me, const net_purpose *purpose, bool has_aes);
void handshake_host(handshake *h, const net_identity *me, heard *all, bool has_aes);

typedef enum handshake_result {
    HANDSHAKE_WAITS,
    HANDSHAKE_DONE,
    HANDSHAKE_FAILED
} handshake_result;

/* Never reads beyond the last message. */
handshake_result handshake_step(handshake *h, int fd);

/* Whether it waits until the socket takes bytes; else until some arrive. */
bool handshake_sends(const handshake *h);

void handshake_wipe(handshake *h);

#endif
