/* proof.c: builds and checks the messages of the proof. All numbers are little-endian. */
#include "net/proof.h"

#include "net/bytes.h"

#include <assert.h>
#include <sodium.h>
#include <string.h>

#define MAGIC_BYTES 8
#define LABEL_BYTES 16

static const uint8_t hello_magic[MAGIC_BYTES] = {'r', 'u', 'e', 'd', 'a', '-', 'h', '\n'};
static const uint8_t answer_magic[MAGIC_BYTES] = {'r', 'u', 'e', 'd', 'a', '-', 'a', '\n'};

/* What a MAC or a key is for: the first thing it covers. */
static const char hello_label[LABEL_BYTES] = "rueda hello";
static const char answer_label[LABEL_BYTES] = "rueda answer";
static const char finish_label[LABEL_BYTES] = "rueda finish";
static const char session_label[LABEL_BYTES] = "rueda session";

/* Where things lie in a hello. */
enum {
    AT_VERSION = MAGIC_BYTES,
    AT_FLAGS = PROOF_PREFIX,
    AT_JOB = AT_FLAGS + 4,
    JOB_BYTES = 32,
    AT_GENERATION = AT_JOB + JOB_BYTES,
    AT_EPOCH = AT_GENERATION + 8,
    AT_ROLE = AT_EPOCH + 8,
    AT_FROM = AT_ROLE + 4,
    AT_TO = AT_FROM + 4,
    AT_SET = AT_TO + 4,
    AT_CHANNEL = AT_SET + 4,
    AT_SPARE = AT_CHANNEL + 4,
    AT_NONCE = AT_SPARE + 12,
    AT_PUBLIC = AT_NONCE + PROOF_NONCE,
    AT_MAC = AT_PUBLIC + PROOF_PUBLIC
};
static_assert(AT_MAC + PROOF_MAC == PROOF_HELLO, "the fields fill the hello");

/* Where things lie in an answer. */
enum {
    AT_CIPHER = PROOF_PREFIX,
    AT_ANSWER_NONCE = AT_CIPHER + 4,
    AT_ANSWER_PUBLIC = AT_ANSWER_NONCE + PROOF_NONCE,
    AT_ANSWER_MAC = AT_ANSWER_PUBLIC + PROOF_PUBLIC
};
static_assert(AT_ANSWER_MAC + PROOF_MAC == PROOF_ANSWER, "the fields fill the answer");

/* Flags of a hello. */
enum { FLAG_ENCRYPT = 1, FLAG_AES = 2, FLAGS_KNOWN = 3 };

static_assert(PROOF_PUBLIC == crypto_scalarmult_BYTES &&
                  PROOF_PUBLIC == crypto_scalarmult_SCALARBYTES,
              "X25519");

/* Without a secret there is nothing to protect with. */
static bool has_key(const net_identity *me)
{
    return !sodium_is_zero(me->key, sizeof me->key);
}

/* Zeros where nothing is protected. */
static void put_public(const net_identity *me, const proof_chance *chance, uint8_t *at)
{
    memset(at, 0, PROOF_PUBLIC);
    if (has_key(me))
        crypto_scalarmult_base(at, chance->secret);
}

/* The keyed hash of the label and the first `bytes` of what was said. */
static void authenticate(const net_identity *me, const char label[LABEL_BYTES], const void *said,
                         size_t bytes, uint8_t *mac, size_t mac_bytes)
{
    crypto_generichash_state state;
    crypto_generichash_init(&state, me->key, sizeof me->key, mac_bytes);
    crypto_generichash_update(&state, (const uint8_t *)label, LABEL_BYTES);
    crypto_generichash_update(&state, said, bytes);
    crypto_generichash_final(&state, mac, mac_bytes);
    sodium_memzero(&state, sizeof state);
}

/* Whether the MAC that stands at `at` of the transcript is right for all before it. */
static bool is_authentic(const net_identity *me, const char label[LABEL_BYTES],
                         const proof_transcript *said, size_t at)
{
    uint8_t expected[PROOF_MAC];
    authenticate(me, label, said, at, expected, sizeof expected);
    return sodium_memcmp(expected, (const uint8_t *)said + at, sizeof expected) == 0;
}

/* Of the name and the instance, which has the same length always: nothing else gives the same. */
static void hash_job(const net_identity *me, uint8_t hash[JOB_BYTES])
{
    crypto_generichash_state state;
    crypto_generichash_init(&state, NULL, 0, JOB_BYTES);
    crypto_generichash_update(&state, (const uint8_t *)me->job, strnlen(me->job, sizeof me->job));
    crypto_generichash_update(&state, me->instance, sizeof me->instance);
    crypto_generichash_final(&state, hash, JOB_BYTES);
}

void proof_make_hello(const net_identity *me, const net_purpose *purpose, bool has_aes,
                      const proof_chance *chance, proof_transcript *said)
{
    uint8_t *hello = said->hello;
    memset(hello, 0, sizeof said->hello);
    memcpy(hello, hello_magic, MAGIC_BYTES);
    bytes_put32(hello + AT_VERSION, PROOF_VERSION);
    bytes_put32(hello + AT_FLAGS, (me->encrypt ? FLAG_ENCRYPT : 0u) | (has_aes ? FLAG_AES : 0u));
    hash_job(me, hello + AT_JOB);
    bytes_put64(hello + AT_GENERATION, me->generation);
    bytes_put64(hello + AT_EPOCH, purpose->epoch);
    bytes_put32(hello + AT_ROLE, purpose->role);
    bytes_put32(hello + AT_FROM, purpose->from);
    bytes_put32(hello + AT_TO, purpose->to);
    bytes_put32(hello + AT_SET, purpose->set);
    bytes_put32(hello + AT_CHANNEL, purpose->channel);
    memcpy(hello + AT_NONCE, chance->nonce, PROOF_NONCE);
    put_public(me, chance, hello + AT_PUBLIC);
    authenticate(me, hello_label, said, AT_MAC, hello + AT_MAC, PROOF_MAC);
}

const uint8_t *proof_nonce(const proof_transcript *said)
{
    return said->hello + AT_NONCE;
}

static proof_verdict check_start(const uint8_t *message, size_t bytes,
                                 const uint8_t magic[MAGIC_BYTES])
{
    if (memcmp(message, magic, bytes < MAGIC_BYTES ? bytes : MAGIC_BYTES) != 0)
        return PROOF_GARBAGE;
    if (bytes >= PROOF_PREFIX && bytes_get32(message + AT_VERSION) != PROOF_VERSION)
        return PROOF_WRONG_VERSION;
    return PROOF_GOOD;
}

proof_verdict proof_check_prefix(const proof_transcript *said, size_t bytes)
{
    return check_start(said->hello, bytes, hello_magic);
}

static net_purpose read_purpose(const uint8_t *hello)
{
    return (net_purpose){.role = bytes_get32(hello + AT_ROLE),
                         .from = bytes_get32(hello + AT_FROM),
                         .to = bytes_get32(hello + AT_TO),
                         .set = bytes_get32(hello + AT_SET),
                         .channel = bytes_get32(hello + AT_CHANNEL),
                         .epoch = bytes_get64(hello + AT_EPOCH)};
}

proof_verdict proof_check_hello(const net_identity *me, const proof_transcript *said,
                                net_purpose *purpose)
{
    static const uint8_t spare[AT_NONCE - AT_SPARE];
    const uint8_t *hello = said->hello;
    const proof_verdict start = proof_check_prefix(said, PROOF_HELLO);
    if (start != PROOF_GOOD)
        return start;
    uint8_t job[JOB_BYTES];
    hash_job(me, job);
    if (sodium_memcmp(hello + AT_JOB, job, sizeof job) != 0)
        return PROOF_WRONG_JOB;
    if (bytes_get64(hello + AT_GENERATION) != me->generation)
        return PROOF_WRONG_GENERATION;
    if (!is_authentic(me, hello_label, said, AT_MAC))
        return PROOF_WRONG_KEY;
    const uint32_t flags = bytes_get32(hello + AT_FLAGS);
    if ((flags & ~(uint32_t)FLAGS_KNOWN) != 0 || memcmp(hello + AT_SPARE, spare, sizeof spare) != 0)
        return PROOF_GARBAGE;
    if (((flags & FLAG_ENCRYPT) != 0) != me->encrypt || bytes_get32(hello + AT_TO) != me->rank)
        return PROOF_WRONG_PURPOSE;
    *purpose = read_purpose(hello);
    return PROOF_GOOD;
}

static proof_cipher choose_cipher(const net_identity *me, const uint8_t *hello, bool has_aes)
{
    const uint32_t flags = bytes_get32(hello + AT_FLAGS);
    if (!has_key(me))
        return PROOF_PLAIN;
    return has_aes && (flags & FLAG_AES) != 0 ? PROOF_AES256GCM : PROOF_CHACHA20;
}

void proof_make_answer(const net_identity *me, bool has_aes, const proof_chance *chance,
                       proof_transcript *said)
{
    uint8_t *answer = said->answer;
    memcpy(answer, answer_magic, MAGIC_BYTES);
    bytes_put32(answer + AT_VERSION, PROOF_VERSION);
    bytes_put32(answer + AT_CIPHER, choose_cipher(me, said->hello, has_aes));
    memcpy(answer + AT_ANSWER_NONCE, chance->nonce, PROOF_NONCE);
    put_public(me, chance, answer + AT_ANSWER_PUBLIC);
    authenticate(me, answer_label, said, PROOF_HELLO + AT_ANSWER_MAC, answer + AT_ANSWER_MAC,
                 PROOF_MAC);
}

proof_verdict proof_check_answer(const net_identity *me, const proof_transcript *said)
{
    const proof_verdict start = check_start(said->answer, PROOF_ANSWER, answer_magic);
    if (start != PROOF_GOOD)
        return start;
    if (!is_authentic(me, answer_label, said, PROOF_HELLO + AT_ANSWER_MAC))
        return PROOF_WRONG_KEY;
    /* a host may do without AES, but not choose what we did not offer */
    const uint32_t cipher = bytes_get32(said->answer + AT_CIPHER);
    if (cipher != choose_cipher(me, said->hello, true) &&
        cipher != choose_cipher(me, said->hello, false))
        return PROOF_GARBAGE;
    return PROOF_GOOD;
}

void proof_make_finish(const net_identity *me, proof_transcript *said)
{
    authenticate(me, finish_label, said, offsetof(proof_transcript, finish), said->finish,
                 sizeof said->finish);
}

proof_verdict proof_check_finish(const net_identity *me, const proof_transcript *said)
{
    return is_authentic(me, finish_label, said, offsetof(proof_transcript, finish))
               ? PROOF_GOOD
               : PROOF_WRONG_KEY;
}

/* The secret of this connection alone. */
static bool agree(const proof_transcript *said, const proof_chance *chance, bool is_host,
                  uint8_t secret[PROOF_PUBLIC])
{
    const uint8_t *theirs = is_host ? said->hello + AT_PUBLIC : said->answer + AT_ANSWER_PUBLIC;
    return crypto_scalarmult(secret, chance->secret, theirs) == 0;
}

bool proof_derive(const net_identity *me, const proof_transcript *said, const proof_chance *chance,
                  bool is_host, proof_session *session)
{
    uint8_t keys[2 * NET_KEY_BYTES];
    struct {
        proof_transcript said;
        uint8_t secret[PROOF_PUBLIC];
    } all = {.said = *said};
    if (has_key(me) && !agree(said, chance, is_host, all.secret))
        return false;
    authenticate(me, session_label, &all, sizeof all, keys, sizeof keys);
    session->cipher = (proof_cipher)bytes_get32(said->answer + AT_CIPHER);
    session->encrypts = me->encrypt;
    memcpy(session->to_host, keys, NET_KEY_BYTES);
    memcpy(session->to_caller, keys + NET_KEY_BYTES, NET_KEY_BYTES);
    sodium_memzero(keys, sizeof keys);
    sodium_memzero(&all, sizeof all);
    return true;
}
