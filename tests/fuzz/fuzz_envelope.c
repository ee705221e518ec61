/* fuzz_envelope.c: a stream of envelopes delivers what was sent or nothing, whatever happens on the line. */
#include "fuzz.h"

#include "net/envelope.h"
#include "net/seal.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#define PLAIN_MAX 4096
#define PIECE_MIN 8 /* of fuzz_piece */
#define SEALED_MAX (PLAIN_MAX + (PLAIN_MAX / PIECE_MIN + 1) * (ENVELOPE_HEADER + ENVELOPE_TAG))

#define KEY_BYTES 700 /* content under one key */

/* Puts the bytes on the line in pieces and returns how many bytes came out at the far end, which are
 * in `plain`. */
static size_t deliver(const proof_session *session, const uint8_t *sealed, size_t bytes,
                      fuzz_input *in, uint8_t *plain, size_t room)
{
    int fds[2];
    seal *far = seal_make(session, true, KEY_BYTES);
    must(far != NULL);
    must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds) == 0);
    size_t put = 0, done = 0;
    for (bool over = false, ended = false; !over;) {
        if (put < bytes)
            put += (size_t)write(fds[1], sealed + put, fuzz_piece(in, bytes - put));
        else
            shutdown(fds[1], SHUT_WR);
        const size_t want = fuzz_piece(in, room - done);
        const ssize_t got = seal_receive(far, fds[0], plain + done, want, &ended);
        must(got >= 0 || errno == EBADMSG);
        done += got > 0 ? (size_t)got : 0;
        over = got < 0 || ended || done == room;
    }
    seal_free(far);
    close(fds[0]);
    close(fds[1]);
    return done;
}

/* Seals `plain` in envelopes of the sizes the input says. */
static size_t seal_all(const proof_session *session, const uint8_t *plain, size_t bytes,
                       fuzz_input *in, uint8_t *sealed)
{
    envelope_direction out;
    envelope_start(&out, session->cipher, session->encrypts, session->to_host);
    out.key_bytes = KEY_BYTES;
    size_t used = 0;
    for (size_t done = 0, piece; done < bytes; done += piece) {
        piece = fuzz_piece(in, bytes - done);
        envelope_frame frame;
        uint8_t *content = sealed + used + ENVELOPE_HEADER;
        memmove(content, envelope_seal(&out, plain + done, piece, content, &frame), piece);
        memcpy(sealed + used, frame.header, ENVELOPE_HEADER);
        memcpy(content + piece, frame.tag, ENVELOPE_TAG);
        used += ENVELOPE_HEADER + piece + ENVELOPE_TAG;
    }
    return used;
}

static void alter(const proof_session *session, fuzz_input *in)
{
    static uint8_t plain[PLAIN_MAX], got[PLAIN_MAX + 1], sealed[SEALED_MAX];
    const uint8_t change = fuzz_byte(in);
    uint16_t where, bytes;
    fuzz_bytes(in, &where, sizeof where);
    fuzz_bytes(in, &bytes, sizeof bytes);
    bytes = bytes % PLAIN_MAX;
    for (size_t i = 0; i < bytes; i++)
        plain[i] = (uint8_t)(i * 31 + i / 256);
    const size_t used = seal_all(session, plain, bytes, in, sealed);
    if (used > 0)
        sealed[where % used] ^= change;
    const size_t done = deliver(session, sealed, used, in, got, sizeof got);
    must(done <= bytes && memcmp(got, plain, done) == 0);
    must(used == 0 || (done == bytes) == (change == 0));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (sodium_init() < 0)
        return 0;
    fuzz_input in = {data, bytes};
    const uint8_t choice = fuzz_byte(&in);
    const bool has_aes = crypto_aead_aes256gcm_is_available() == 1;
    const proof_session session = {.cipher = has_aes && (choice & 1) != 0 ? PROOF_AES256GCM
                                                                          : PROOF_CHACHA20,
                                   .encrypts = (choice & 4) != 0,
                                   .to_host = {1},
                                   .to_caller = {2}};
    if ((choice & 2) != 0) {
        alter(&session, &in);
        return 0;
    }
    uint8_t got[64], header[ENVELOPE_HEADER];
    fuzz_input steps = in;
    fuzz_bytes(&steps, header, sizeof header);
    must(envelope_length(header) <= ENVELOPE_PLAIN);
    steps = in; /* the same bytes decide, and are put on the line */
    must(deliver(&session, in.data, in.bytes, &steps, got, sizeof got) == 0);
    return 0;
}
