/* record.c: authenticated encryption of one record, by libsodium. */
#include "net/record.h"

#include "net/bytes.h"

#include <assert.h>
#include <string.h>

#define NONCE_BYTES 12
/* both ciphers have the same shape */
static_assert(NONCE_BYTES == crypto_aead_aes256gcm_NPUBBYTES, "AES nonce");
static_assert(NONCE_BYTES == crypto_aead_chacha20poly1305_ietf_NPUBBYTES, "ChaCha20 nonce");
static_assert(RECORD_TAG == crypto_aead_aes256gcm_ABYTES, "AES tag");
static_assert(RECORD_TAG == crypto_aead_chacha20poly1305_ietf_ABYTES, "ChaCha20 tag");
static_assert(NET_KEY_BYTES == crypto_aead_aes256gcm_KEYBYTES, "AES key");
static_assert(NET_KEY_BYTES == crypto_aead_chacha20poly1305_ietf_KEYBYTES, "ChaCha20 key");

void record_start(record_direction *d, proof_cipher cipher, const uint8_t key[NET_KEY_BYTES])
{
    *d = (record_direction){.cipher = cipher};
    if (cipher == PROOF_AES256GCM)
        crypto_aead_aes256gcm_beforenm(&d->aes, key);
    else
        memcpy(d->key, key, sizeof d->key);
}

static void make_nonce(const record_direction *d, uint8_t nonce[NONCE_BYTES])
{
    memset(nonce, 0, NONCE_BYTES);
    bytes_put64(nonce, d->count);
}

size_t record_seal(record_direction *d, const uint8_t *plain, size_t bytes, uint8_t *record)
{
    uint8_t nonce[NONCE_BYTES];
    make_nonce(d, nonce);
    bytes_put32(record, (uint32_t)bytes);
    uint8_t *sealed = record + RECORD_HEADER;
    if (d->cipher == PROOF_AES256GCM)
        crypto_aead_aes256gcm_encrypt_afternm(sealed, NULL, plain, bytes, record, RECORD_HEADER,
                                              NULL, nonce, &d->aes);
    else
        crypto_aead_chacha20poly1305_ietf_encrypt(sealed, NULL, plain, bytes, record, RECORD_HEADER,
                                                  NULL, nonce, d->key);
    d->count++;
    return RECORD_HEADER + bytes + RECORD_TAG;
}

size_t record_length(const uint8_t header[RECORD_HEADER])
{
    const uint32_t bytes = bytes_get32(header);
    return bytes <= RECORD_PLAIN ? bytes : 0;
}

bool record_open(record_direction *d, const uint8_t *record, uint8_t *plain)
{
    uint8_t nonce[NONCE_BYTES];
    make_nonce(d, nonce);
    const uint8_t *sealed = record + RECORD_HEADER;
    const size_t bytes = record_length(record) + RECORD_TAG;
    const int result =
        d->cipher == PROOF_AES256GCM
            ? crypto_aead_aes256gcm_decrypt_afternm(plain, NULL, NULL, sealed, bytes, record,
                                                    RECORD_HEADER, nonce, &d->aes)
            : crypto_aead_chacha20poly1305_ietf_decrypt(plain, NULL, NULL, sealed, bytes, record,
                                                        RECORD_HEADER, nonce, d->key);
    if (result != 0)
        return false;
    d->count++;
    return true;
}
