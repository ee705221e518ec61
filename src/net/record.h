/* record.h: one record: length, content, tag. Pure functions over bytes; no sockets.
 *
 * The tag proves that length and content are what was sent; with `encrypts` the content is ciphertext,
 * otherwise it travels as it is. Every direction of a link has a key of its own and counts its records;
 * count and length are the nonce, so a record that is altered, repeated, left out or out of order does
 * not open. After RECORD_KEY_BYTES both ends go on with the next key, which is a hash of the last: what
 * was sent before cannot be read with it.
 */
#ifndef RUEDA_NET_RECORD_H
#define RUEDA_NET_RECORD_H

#include "net/proof.h"

#include <sodium.h>

#define RECORD_PLAIN 65536 /* bytes in a record at most */
#define RECORD_HEADER 4    /* its length */
#define RECORD_TAG 16
#define RECORD_BYTES (RECORD_HEADER + RECORD_PLAIN + RECORD_TAG)
#define RECORD_KEY_BYTES (UINT64_C(64) << 30) /* of content under one key */

typedef struct record_direction {
    crypto_aead_aes256gcm_state aes; /* the key, prepared */
    uint8_t key[NET_KEY_BYTES];
    proof_cipher cipher;
    bool encrypts;
    uint64_t count;            /* of records */
    uint64_t moved, key_bytes; /* content under this key, and how much that may be */
} record_direction;

/* What travels around the content. */
typedef struct record_frame {
    uint8_t header[RECORD_HEADER];
    uint8_t tag[RECORD_TAG];
} record_frame;

/* A cipher other than PROOF_PLAIN. */
void record_start(record_direction *d, proof_cipher cipher, bool encrypts,
                  const uint8_t key[NET_KEY_BYTES]);

/* Frames 1 … RECORD_PLAIN bytes. Returns the content that travels: `plain` itself, or where the direction
 * encrypts `sealed`, which has as much room and may be `plain`. */
const uint8_t *record_seal(record_direction *d, const uint8_t *plain, size_t bytes, uint8_t *sealed,
                           record_frame *frame);

/* How many bytes lie in the record that starts with this header; 0: no record has such a length. */
size_t record_length(const uint8_t header[RECORD_HEADER]);

/* Turns the content into what was sent, in place. False: it is not genuine, and the stream is of no use
 * any more. */
bool record_open(record_direction *d, const record_frame *frame, uint8_t *content);

#endif
