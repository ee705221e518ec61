/* record.h: one sealed record: length, ciphertext, tag. Pure functions over bytes; no sockets.
 *
 * Every direction of a link has a key of its own and counts its records; the count is the nonce, so a
 * record that is altered, repeated, left out or out of order does not open.
 */
#ifndef RUEDA_NET_RECORD_H
#define RUEDA_NET_RECORD_H

#include "net/proof.h"

#include <sodium.h>

#define RECORD_PLAIN 16384 /* bytes in a record at most */
#define RECORD_HEADER 4    /* its length */
#define RECORD_TAG 16
#define RECORD_BYTES (RECORD_HEADER + RECORD_PLAIN + RECORD_TAG)

typedef struct record_direction {
    crypto_aead_aes256gcm_state aes; /* the key, prepared */
    uint8_t key[NET_KEY_BYTES];      /* for ChaCha20 */
    proof_cipher cipher;
    uint64_t count; /* of records */
} record_direction;

/* A cipher other than PROOF_PLAIN. */
void record_start(record_direction *d, proof_cipher cipher, const uint8_t key[NET_KEY_BYTES]);

/* Seals 1 … RECORD_PLAIN bytes into `record` (RECORD_BYTES of room) and returns its bytes. `plain` may
 * be record + RECORD_HEADER. */
size_t record_seal(record_direction *d, const uint8_t *plain, size_t bytes, uint8_t *record);

/* How many bytes lie in the record that starts with this header; 0: no record has such a length. */
size_t record_length(const uint8_t header[RECORD_HEADER]);

/* Opens a complete record into `plain`, which may be record + RECORD_HEADER. False: it is not genuine;
 * nothing has changed then, and the stream is of no use any more. */
bool record_open(record_direction *d, const uint8_t *record, uint8_t *plain);

#endif
