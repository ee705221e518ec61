/* envelope.h: one envelope: length, content, tag. Pure functions over bytes; no sockets.
 *
 * The tag proves that length and content are what was sent; with `encrypts` the content is ciphertext,
 * otherwise it travels as it is. Every direction of a link has a key of its own and counts its envelopes;
 * count and length are the nonce, so an envelope that is altered, repeated, left out or out of order does
 * not open. After ENVELOPE_KEY_BYTES both ends go on with the next key, which is a hash of the last: what
 * was sent before cannot be read with it.
 */
#ifndef RUEDA_NET_ENVELOPE_H
#define RUEDA_NET_ENVELOPE_H

#include "net/proof.h"

#include <sodium.h>

#define ENVELOPE_PLAIN 65536 /* bytes in an envelope at most */
#define ENVELOPE_HEADER 4    /* its length */
#define ENVELOPE_TAG 16
#define ENVELOPE_BYTES (ENVELOPE_HEADER + ENVELOPE_PLAIN + ENVELOPE_TAG)
#define ENVELOPE_KEY_BYTES (UINT64_C(64) << 30) /* of content under one key */

typedef struct envelope_direction {
    crypto_aead_aes256gcm_state aes; /* the key, prepared */
    uint8_t key[NET_KEY_BYTES];
    proof_cipher cipher;
    bool encrypts;
    uint64_t count;            /* of envelopes */
    uint64_t moved, key_bytes; /* content under this key, and how much that may be */
} envelope_direction;

/* What travels around the content. */
typedef struct envelope_frame {
    uint8_t header[ENVELOPE_HEADER];
    uint8_t tag[ENVELOPE_TAG];
} envelope_frame;

/* A cipher other than PROOF_PLAIN. */
void envelope_start(envelope_direction *d, proof_cipher cipher, bool encrypts,
                    const uint8_t key[NET_KEY_BYTES]);

/* Frames 1 … ENVELOPE_PLAIN bytes. Returns the content that travels: `plain` itself, or where the direction
 * encrypts `sealed`, which has as much room and may be `plain`. */
const uint8_t *envelope_seal(envelope_direction *d, const uint8_t *plain, size_t bytes,
                             uint8_t *sealed, envelope_frame *frame);

/* How many bytes lie in the envelope that starts with this header; 0: no envelope has such a length. */
size_t envelope_length(const uint8_t header[ENVELOPE_HEADER]);

/* Turns the content into what was sent, in place. False: it is not genuine, and the stream is of no use
 * any more. */
bool envelope_open(envelope_direction *d, const envelope_frame *frame, uint8_t *content);

#endif
