/* envelope.c: authentication, and encryption where it is wanted, of one envelope, by libsodium. What is not
 * encrypted is additional data of an empty message: AES-GCM then is GMAC. */
#include "net/envelope.h"

#include "net/bytes.h"

#include <assert.h>
#include <string.h>

#define NONCE_BYTES 12
#define KEY_TRACES 8192 /* bytes of stack: more than all registers of a processor take */
/* both ciphers have the same shape */
static_assert(NONCE_BYTES == crypto_aead_aes256gcm_NPUBBYTES, "AES nonce");
static_assert(NONCE_BYTES == crypto_aead_chacha20poly1305_ietf_NPUBBYTES, "ChaCha20 nonce");
static_assert(ENVELOPE_TAG == crypto_aead_aes256gcm_ABYTES, "AES tag");
static_assert(ENVELOPE_TAG == crypto_aead_chacha20poly1305_ietf_ABYTES, "ChaCha20 tag");
static_assert(NET_KEY_BYTES == crypto_aead_aes256gcm_KEYBYTES, "AES key");
static_assert(NET_KEY_BYTES == crypto_aead_chacha20poly1305_ietf_KEYBYTES, "ChaCha20 key");

static const char next_label[16] = "rueda next key";

static void use_key(envelope_direction *d)
{
    d->moved = 0;
    if (d->cipher != PROOF_AES256GCM)
        return;
    crypto_aead_aes256gcm_beforenm(&d->aes, d->key);
    /* where libsodium is bound at the first call, the linker has put registers with the key there */
    sodium_stackzero(KEY_TRACES);
}

void envelope_start(envelope_direction *d, proof_cipher cipher, bool encrypts,
                    const uint8_t key[NET_KEY_BYTES])
{
    memset(d, 0, sizeof *d);
    d->cipher = cipher;
    d->encrypts = encrypts;
    d->key_bytes = ENVELOPE_KEY_BYTES;
    memcpy(d->key, key, sizeof d->key);
    use_key(d);
}

/* Both ends have counted the same bytes, so both change at the same envelope. */
static void change_key(envelope_direction *d)
{
    uint8_t next[NET_KEY_BYTES];
    crypto_generichash(next, sizeof next, (const uint8_t *)next_label, sizeof next_label, d->key,
                       sizeof d->key);
    memcpy(d->key, next, sizeof d->key);
    sodium_memzero(next, sizeof next);
    use_key(d);
}

static void count_envelope(envelope_direction *d, size_t bytes)
{
    d->count++;
    d->moved += bytes;
    if (d->moved >= d->key_bytes)
        change_key(d);
}

static void make_nonce(const envelope_direction *d, size_t bytes, uint8_t nonce[NONCE_BYTES])
{
    bytes_put64(nonce, d->count);
    bytes_put32(nonce + 8, (uint32_t)bytes);
}

const uint8_t *envelope_seal(envelope_direction *d, const uint8_t *plain, size_t bytes,
                             uint8_t *sealed, envelope_frame *frame)
{
    uint8_t nonce[NONCE_BYTES];
    const size_t secret = d->encrypts ? bytes : 0, open = bytes - secret;
    make_nonce(d, bytes, nonce);
    bytes_put32(frame->header, (uint32_t)bytes);
    if (d->cipher == PROOF_AES256GCM)
        crypto_aead_aes256gcm_encrypt_detached_afternm(sealed, frame->tag, NULL, plain, secret,
                                                       plain, open, NULL, nonce, &d->aes);
    else
        crypto_aead_chacha20poly1305_ietf_encrypt_detached(sealed, frame->tag, NULL, plain, secret,
                                                           plain, open, NULL, nonce, d->key);
    count_envelope(d, bytes);
    return d->encrypts ? sealed : plain;
}

size_t envelope_length(const uint8_t header[ENVELOPE_HEADER])
{
    const uint32_t bytes = bytes_get32(header);
    return bytes <= ENVELOPE_PLAIN ? bytes : 0;
}

bool envelope_open(envelope_direction *d, const envelope_frame *frame, uint8_t *content)
{
    uint8_t nonce[NONCE_BYTES];
    const size_t bytes = envelope_length(frame->header);
    const size_t secret = d->encrypts ? bytes : 0, open = bytes - secret;
    make_nonce(d, bytes, nonce);
    const int result =
        d->cipher == PROOF_AES256GCM
            ? crypto_aead_aes256gcm_decrypt_detached_afternm(
                  content, NULL, content, secret, frame->tag, content, open, nonce, &d->aes)
            : crypto_aead_chacha20poly1305_ietf_decrypt_detached(
                  content, NULL, content, secret, frame->tag, content, open, nonce, d->key);
    if (result != 0)
        return false;
    count_envelope(d, bytes);
    return true;
}
