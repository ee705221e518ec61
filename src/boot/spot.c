/* spot.c: names of abstract Unix sockets, and who is behind them (SO_PEERCRED). */
#include "boot/spot.h"

#include "net/bytes.h"
#include "world/sockets.h"

#include <errno.h>
#include <sodium.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#define LINE_BYTES 512     /* of the list; names have a fifth of it */
#define HASH_BYTES 16      /* of a name that nobody can guess */
#define SHORT_HASH_BYTES 8 /* of one that everybody can calculate; a random end follows */
#define END_BYTES 8        /* random */
#define END_MARK '-'       /* before the end */
#define HEX(bytes) (2 * (bytes))

typedef struct spot_name {
    struct sockaddr_un address;
    socklen_t length;
} spot_name;

/* Where nothing is secret, and there is a list to look into. */
static bool has_random_end(const spot *s)
{
    return sodium_is_zero(s->me->key, sizeof s->me->key) && world_lists_unix_names();
}

/* Of all that tells this spot from others; keyed where there is a key. */
static void hash_spot(const spot *s, char *hex, size_t bytes)
{
    static const char label[16] = "rueda socket";
    const net_identity *me = s->me;
    const bool keyed = !sodium_is_zero(me->key, sizeof me->key);
    uint8_t numbers[16], hash[HASH_BYTES];
    crypto_generichash_state state;
    bytes_put32(numbers, (uint32_t)geteuid());
    bytes_put32(numbers + 4, (uint32_t)s->giver);
    bytes_put64(numbers + 8, me->generation);
    crypto_generichash_init(&state, keyed ? me->key : NULL, keyed ? sizeof me->key : 0, bytes);
    crypto_generichash_update(&state, (const uint8_t *)label, sizeof label);
    crypto_generichash_update(&state, numbers, sizeof numbers);
    crypto_generichash_update(&state, me->instance, sizeof me->instance);
    crypto_generichash_update(&state, (const uint8_t *)s->topic, strlen(s->topic) + 1);
    crypto_generichash_update(&state, (const uint8_t *)me->job, strnlen(me->job, sizeof me->job));
    crypto_generichash_final(&state, hash, bytes);
    sodium_bin2hex(hex, HEX(bytes) + 1, hash, bytes);
    sodium_memzero(&state, sizeof state);
}

/* The job's name is for those who look at a list of sockets. */
static void make_name(const spot *s, const char *rest, spot_name *name)
{
    struct sockaddr_un *a = &name->address;
    memset(a, 0, sizeof *a);
    a->sun_family = AF_UNIX;
    const int length =
        snprintf(a->sun_path + 1, sizeof a->sun_path - 1, "rueda/%.63s/%s", s->me->job, rest);
    name->length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

static void make_keyed_name(const spot *s, spot_name *name)
{
    char hex[HEX(HASH_BYTES) + 1];
    hash_spot(s, hex, HASH_BYTES);
    make_name(s, hex, name);
}

/* `end`: HEX(END_BYTES) digits. */
static void make_open_name(const spot *s, const char *end, spot_name *name)
{
    char rest[HEX(SHORT_HASH_BYTES) + 1 + HEX(END_BYTES) + 1];
    hash_spot(s, rest, SHORT_HASH_BYTES);
    snprintf(rest + HEX(SHORT_HASH_BYTES), sizeof rest - HEX(SHORT_HASH_BYTES), "%c%.*s", END_MARK,
             HEX(END_BYTES), end);
    make_name(s, rest, name);
}

/* ---- Who is there ---------------------------------------------------------------------------- */

static bool ask_peer(int connection, spot_stranger *peer)
{
    struct ucred who;
    socklen_t length = sizeof who;
    if (world_getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &who, &length) != 0)
        return false;
    *peer = (spot_stranger){who.pid, who.uid};
    return true;
}

bool spot_is_own_user(int connection, spot_stranger *peer)
{
    return ask_peer(connection, peer) && peer->user == (unsigned)geteuid();
}

static bool lacks_means(int error)
{
    return error == EMFILE || error == ENFILE || error == ENOMEM || error == ENOBUFS;
}

/* As spot_connect, for one name. Nobody may hold us up by not accepting. */
static int reach(const spot_name *name, spot_stranger *met)
{
    spot_stranger peer;
    const int fd = world_socket(AF_UNIX, false);
    if (fd < 0)
        return -1;
    const bool there =
        world_connect(fd, (const struct sockaddr *)&name->address, name->length) == 0;
    if (there && spot_is_own_user(fd, &peer) && world_let_block(fd) == 0)
        return fd;
    if (there)
        *met = peer;
    world_close(fd);
    errno = ECONNREFUSED;
    return -1;
}

/* The end of the name in a line of the list, or NULL. */
static const char *find_end(const char *line, const char *hash)
{
    const char *found = strstr(line, hash);
    if (found == NULL || found[strlen(hash)] != END_MARK)
        return NULL;
    const char *end = found + strlen(hash) + 1;
    return strspn(end, "0123456789abcdef") == HEX(END_BYTES) ? end : NULL;
}

/* Whoever of ours listens at a name of this spot, but for `own` (or NULL). */
static int look_around(const spot *s, const char *own, spot_stranger *met)
{
    char line[LINE_BYTES], hash[HEX(SHORT_HASH_BYTES) + 1];
    int found = -1, error = ECONNREFUSED;
    hash_spot(s, hash, SHORT_HASH_BYTES);
    FILE *list = world_unix_names();
    if (list == NULL)
        return -1;
    while (found < 0 && !lacks_means(error) && fgets(line, sizeof line, list) != NULL) {
        spot_name name;
        const char *end = find_end(line, hash);
        if (end == NULL || (own != NULL && strncmp(end, own, HEX(END_BYTES)) == 0))
            continue;
        make_open_name(s, end, &name);
        found = reach(&name, met);
        error = errno;
    }
    fclose(list);
    errno = error;
    return found;
}

int spot_connect(const spot *s, spot_stranger *met)
{
    spot_name name;
    if (has_random_end(s))
        return look_around(s, NULL, met);
    make_keyed_name(s, &name);
    return reach(&name, met);
}

/* ---- Listening ------------------------------------------------------------------------------- */

static rueda_status fail_taken(const spot *s, int twin, const spot_stranger *met)
{
    spot_stranger peer = {0};
    if (twin >= 0 && ask_peer(twin, &peer))
        return status_fail(RUEDA_ERR_SYSTEM,
                           "rank %d: process %d is rank %d of job '%s' already: is the job running "
                           "twice? Each needs a RUEDA_JOB of its own",
                           s->giver, peer.pid, s->giver, s->me->job);
    if (met->pid != 0)
        return status_fail(
            RUEDA_ERR_SYSTEM,
            "rank %d: process %d of user %u has taken the socket by which the ranks of "
            "job '%s' were to find each other: give the job another RUEDA_JOB, or a "
            "key (RUEDA_KEY_FILE)",
            s->giver, met->pid, met->user, s->me->job);
    return status_fail(
        RUEDA_ERR_SYSTEM,
        "rank %d: somebody has taken the socket by which the ranks of job '%s' were to "
        "find each other: give the job another RUEDA_JOB, or a key (RUEDA_KEY_FILE)",
        s->giver, s->me->job);
}

static rueda_status bind_name(const spot *s, const spot_name *name, int *listener)
{
    spot_stranger met = {0};
    const int made = world_socket(AF_UNIX, true);
    if (made < 0)
        return status_fail_errno(RUEDA_ERR_SYSTEM, "rank %d: cannot make a Unix socket", s->giver);
    if (world_bind(made, (const struct sockaddr *)&name->address, name->length) == 0 &&
        world_listen(made) == 0)
        return *listener = made, RUEDA_OK;
    rueda_status status;
    if (errno == EADDRINUSE) {
        const int twin = reach(name, &met);
        status = fail_taken(s, twin, &met);
        if (twin >= 0)
            world_close(twin);
    } else {
        status = status_fail_errno(RUEDA_ERR_SYSTEM, "rank %d: cannot listen on a Unix socket",
                                   s->giver);
    }
    world_close(made);
    return status;
}

/* Two jobs of the same name would mix. Both listen before they look: one of them sees the other. */
static rueda_status bind_open_name(const spot *s, int *listener)
{
    char end[HEX(END_BYTES) + 1];
    uint8_t random[END_BYTES];
    spot_name name;
    spot_stranger met = {0};
    int made;
    world_random(random, sizeof random);
    sodium_bin2hex(end, sizeof end, random, sizeof random);
    make_open_name(s, end, &name);
    rueda_status status = bind_name(s, &name, &made);
    if (status != RUEDA_OK)
        return status;
    const int twin = look_around(s, end, &met);
    if (twin < 0)
        return *listener = made, RUEDA_OK;
    status = fail_taken(s, twin, &met);
    world_close(twin);
    world_close(made);
    return status;
}

rueda_status spot_listen(const spot *s, int *listener)
{
    spot_name name;
    if (sodium_init() < 0)
        return status_fail(RUEDA_ERR_SYSTEM, "libsodium cannot be used");
    if (has_random_end(s))
        return bind_open_name(s, listener);
    make_keyed_name(s, &name);
    return bind_name(s, &name, listener);
}
