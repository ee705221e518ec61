/* proof.h: the three messages by which two ends prove to each other that they know the job's key.
 *
 *     caller → host   hello    version, job and instance, generation, purpose, nonce, public key, MAC
 *     host → caller   answer   version, cipher, nonce, public key, MAC
 *     caller → host   finish   MAC
 *
 * Pure functions over bytes; no sockets. Every MAC is keyed with the job's key, covers all that was
 * said before it and begins with a label of its own: none can stand for another, nor for the same one
 * of another connection, because each side chose a nonce. The MAC of the hello lets a host turn
 * strangers away without a word; alone it proves nothing, since it can be recorded and sent again: a
 * door knows again what it has heard (heard.h).
 *
 * The keys of the session also come from a secret that both ends agree on by X25519 and forget: who gets
 * the job's key later cannot open what was recorded. No end calculates it before the other's MAC was right.
 */
#ifndef RUEDA_NET_PROOF_H
#define RUEDA_NET_PROOF_H

#include "net/net.h"

#define PROOF_VERSION 6 /* of the three messages and of what follows them on the wire */
#define PROOF_NONCE 32
#define PROOF_MAC 32
#define PROOF_PUBLIC 32 /* of X25519 */
#define PROOF_PREFIX 12 /* bytes of a message that never change: what it is, and its version */
#define PROOF_HELLO (PROOF_PREFIX + 84 + PROOF_NONCE + PROOF_PUBLIC + PROOF_MAC)
#define PROOF_ANSWER (PROOF_PREFIX + 4 + PROOF_NONCE + PROOF_PUBLIC + PROOF_MAC)

/* Why a message is refused; the order is that of door_refusals. */
typedef enum proof_verdict {
    PROOF_WRONG_KEY,
    PROOF_WRONG_JOB,
    PROOF_WRONG_GENERATION,
    PROOF_WRONG_VERSION,
    PROOF_GARBAGE,
    PROOF_SLOW,
    PROOF_CROWDED,
    PROOF_WRONG_PURPOSE,
    PROOF_REPEATED,
    PROOF_GOOD
} proof_verdict;

/* What was said, in the order of the wire. */
typedef struct proof_transcript {
    uint8_t hello[PROOF_HELLO];
    uint8_t answer[PROOF_ANSWER];
    uint8_t finish[PROOF_MAC];
} proof_transcript;

/* What an end draws for one connection. */
typedef struct proof_chance {
    uint8_t nonce[PROOF_NONCE];
    uint8_t secret
        [PROOF_PUBLIC]; /* of its public key; not used where there is no key to protect with */
} proof_chance;

typedef enum proof_cipher { PROOF_PLAIN, PROOF_AES256GCM, PROOF_CHACHA20 } proof_cipher;

/* One key for each direction. */
typedef struct proof_session {
    proof_cipher cipher; /* PROOF_PLAIN: there is no key, and nothing is protected */
    bool encrypts;       /* or only authenticates */
    uint8_t to_host[NET_KEY_BYTES], to_caller[NET_KEY_BYTES];
} proof_session;

/* `has_aes`: this end has AES-256-GCM. */
void proof_make_hello(const net_identity *me, const net_purpose *purpose, bool has_aes,
                      const proof_chance *chance, proof_transcript *said);
/* The nonce of a hello. */
const uint8_t *proof_nonce(const proof_transcript *said);
/* What can be told from the first `bytes` bytes of a hello; PROOF_GOOD: nothing bad so far. */
proof_verdict proof_check_prefix(const proof_transcript *said, size_t bytes);
proof_verdict proof_check_hello(const net_identity *me, const proof_transcript *said,
                                net_purpose *purpose);

/* After proof_check_hello. */
void proof_make_answer(const net_identity *me, bool has_aes, const proof_chance *chance,
                       proof_transcript *said);
/* PROOF_GOOD, PROOF_GARBAGE, PROOF_WRONG_VERSION or PROOF_WRONG_KEY. */
proof_verdict proof_check_answer(const net_identity *me, const proof_transcript *said);

/* After proof_check_answer. */
void proof_make_finish(const net_identity *me, proof_transcript *said);
/* PROOF_GOOD or PROOF_WRONG_KEY. */
proof_verdict proof_check_finish(const net_identity *me, const proof_transcript *said);

/* After proof_make_finish or proof_check_finish: both ends get the same, each with its own chance. The
 * caller wipes it. False: the other end's public key is none. */
bool proof_derive(const net_identity *me, const proof_transcript *said, const proof_chance *chance,
                  bool is_host, proof_session *session);

#endif
