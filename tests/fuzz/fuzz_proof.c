/* fuzz_proof.c: nobody without the key gets through the proof, in whatever pieces it comes; what stands
 * behind a right MAC is read without harm. */
#include "fuzz.h"

#include "net/bytes.h"
#include "net/handshake.h"

#include <sodium.h>
#include <sys/socket.h>
#include <unistd.h>

#define HELLO_SIGNED (PROOF_HELLO - PROOF_MAC)

static const net_identity host = {.key = {1, 2, 3}, .job = "job", .generation = 5, .rank = 1};
static const net_identity caller = {.key = {1, 2, 3}, .job = "job", .generation = 5, .rank = 0};
static const net_purpose purpose = {.role = 1, .from = 0, .to = 1};
static const proof_chance chance = {.nonce = {7}, .secret = {9}};

/* A good proof with a piece of it written over: what comes at or after the change is refused. */
static void forge_messages(fuzz_input *in)
{
    proof_transcript good, said;
    net_purpose seen;
    proof_make_hello(&caller, &purpose, true, &chance, &good);
    proof_make_answer(&host, true, &chance, &good);
    proof_make_finish(&caller, &good);
    said = good;
    uint16_t from;
    fuzz_bytes(in, &from, sizeof from);
    from = from % sizeof said;
    const size_t rest = sizeof said - from;
    fuzz_bytes(in, (uint8_t *)&said + from, in->bytes < rest ? in->bytes : rest);
    for (size_t bytes = 0; bytes <= PROOF_PREFIX; bytes++)
        (void)proof_check_prefix(&said, bytes);
    bool same = memcmp(said.hello, good.hello, sizeof good.hello) == 0;
    must((proof_check_hello(&host, &said, &seen) == PROOF_GOOD) == same);
    same = same && memcmp(said.answer, good.answer, sizeof good.answer) == 0;
    must((proof_check_answer(&caller, &said) == PROOF_GOOD) == same);
    same = same && memcmp(said.finish, good.finish, sizeof good.finish) == 0;
    must((proof_check_finish(&host, &said) == PROOF_GOOD) == same);
}

/* Somebody who has the key may say what he likes. */
static void sign_anything(fuzz_input *in)
{
    static const char label[16] = "rueda hello";
    proof_transcript said;
    net_purpose seen;
    uint8_t covered[sizeof label + HELLO_SIGNED];
    proof_make_hello(&caller, &purpose, true, &chance, &said);
    const uint8_t from = fuzz_byte(in) % HELLO_SIGNED;
    fuzz_bytes(in, said.hello + from, HELLO_SIGNED - from);
    memcpy(covered, label, sizeof label);
    memcpy(covered + sizeof label, said.hello, HELLO_SIGNED);
    crypto_generichash(said.hello + HELLO_SIGNED, PROOF_MAC, covered, sizeof covered, host.key,
                       sizeof host.key);
    if (proof_check_hello(&host, &said, &seen) == PROOF_GOOD) {
        must(seen.to == host.rank);
        proof_make_answer(&host, true, &chance, &said);
        must(proof_check_answer(&caller, &said) == PROOF_GOOD);
    }
}

/* The same over a socket, in pieces. */
static void talk(fuzz_input *in, bool to_host)
{
    handshake h;
    int fds[2];
    if (to_host)
        handshake_host(&h, &host, NULL, true);
    else
        handshake_call(&h, &caller, &purpose, true);
    must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds) == 0);
    handshake_result result = handshake_step(&h, fds[0]);
    while (result == HANDSHAKE_WAITS && in->bytes > 0) {
        uint8_t piece[256];
        const size_t bytes = fuzz_byte(in) % sizeof piece;
        fuzz_bytes(in, piece, bytes);
        if (send(fds[1], piece, bytes, MSG_NOSIGNAL) < 0)
            break;
        result = handshake_step(&h, fds[0]);
    }
    must(result != HANDSHAKE_DONE);
    shutdown(fds[1], SHUT_WR);
    if (result == HANDSHAKE_WAITS)
        must(handshake_step(&h, fds[0]) == HANDSHAKE_FAILED);
    must(h.verdict != PROOF_GOOD);
    close(fds[0]);
    close(fds[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (sodium_init() < 0)
        return 0;
    fuzz_input in = {data, bytes};
    switch (fuzz_byte(&in) % 4) {
    case 0:
        forge_messages(&in);
        break;
    case 1:
        sign_anything(&in);
        break;
    case 2:
        talk(&in, true);
        break;
    default:
        talk(&in, false);
    }
    return 0;
}
