/* meet_file.c: ranks that meet by a file (RUEDA_MEET=file:PATH) in a folder that all hosts see.
 *
 * Rank 0 writes one line, "GENERATION ADDRESS", and behind it the job's key where nothing else gives
 * one. Invariant: a key is only written to a file that is new, ours and for nobody else, and only
 * taken from one that is ours and for nobody else; the file goes when all have come.
 */
#include "boot/boot.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define FILE_PREFIX "file:"        /* of RUEDA_MEET */
#define FILE_POLL_NS 5000000       /* between two looks for the file, at first … */
#define FILE_POLL_MAX_NS 100000000 /* … and at last: a file server may have many of us to answer */
#define KEY_TEXT (2 * NET_KEY_BYTES + 1)

const char *meet_file_of(const config *settings)
{
    const char *text = settings->meet.text;
    return strncmp(text, FILE_PREFIX, strlen(FILE_PREFIX)) == 0 ? text + strlen(FILE_PREFIX) : NULL;
}

bool meet_file_brings_key(const config *settings)
{
    return meet_file_of(settings) != NULL && settings->key.text[0] == '\0' &&
           settings->key_file.text[0] == '\0' && !settings->insecure;
}

/* ---- Rank 0 ---------------------------------------------------------------------------------- */

static bool write_line(int fd, const net_identity *me, const net_address *own, bool with_key)
{
    char text[NET_TEXT], key[KEY_TEXT] = "";
    if (with_key)
        sodium_bin2hex(key, sizeof key, me->key, sizeof me->key);
    const bool written = dprintf(fd, "%llu %s %s\n", (unsigned long long)me->generation,
                                 net_format(own, text), key) > 0;
    sodium_memzero(key, sizeof key);
    return written;
}

/* Written under another name and then given its own: readers see all or nothing. */
rueda_status meet_file_write(const config *settings, uint16_t port, const boot_meeting *m)
{
    const char *path = meet_file_of(settings);
    net_address own = m->own;
    char draft[CONFIG_TEXT_MAX + 16];
    if (own.family == 0) {
        const rueda_status status = net_interface(NET_INTERFACE_ANY, &own);
        if (status != RUEDA_OK)
            return status;
    }
    own.port = port;
    snprintf(draft, sizeof draft, "%s.new", path);
    unlink(draft); /* somebody else's may have readers */
    const int fd = open(draft, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    bool written = fd >= 0 && write_line(fd, &m->identity, &own, meet_file_brings_key(settings));
    if (fd >= 0)
        written = close(fd) == 0 && written;
    if (written && rename(draft, path) == 0)
        return RUEDA_OK;
    status_fail_errno(
        RUEDA_ERR_SYSTEM,
        "rank 0: cannot write %s, where the ranks were to meet; set RUEDA_MEET=file:PATH "
        "in a folder that all hosts see",
        path);
    if (fd >= 0)
        unlink(draft);
    return RUEDA_ERR_SYSTEM;
}

void meet_file_remove(const config *settings)
{
    unlink(meet_file_of(settings));
}

/* ---- The others ------------------------------------------------------------------------------ */

/* A network file system remembers for a while that a file was not there, unless its folder is opened. */
static int open_anew(const char *path)
{
    char folder[CONFIG_TEXT_MAX];
    const char *slash = strrchr(path, '/');
    snprintf(folder, sizeof folder, "%.*s", slash == NULL ? 1 : (int)(slash - path) + 1,
             slash == NULL ? "." : path);
    const int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0)
        close(fd);
    /* non-blocking: a pipe of that name must not hold us */
    return open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
}

/* Why the line is of no use, or NULL. */
static const char *read_line(char *line, bool with_key, net_identity *me, net_address *where)
{
    char text[NET_TEXT] = "", key[KEY_TEXT] = "";
    unsigned long long generation = 0;
    net_address read;
    const int found = sscanf(line, "%llu %79s %64s", &generation, text, key);
    const char *wrong = NULL;
    if (found < 2 || generation != me->generation || net_resolve(text, 0, &read) != RUEDA_OK)
        wrong = "what is there is old";
    else if (with_key && key[0] == '\0')
        wrong = "rank 0 has its key from elsewhere: give this rank the same RUEDA_KEY_FILE";
    else if (with_key)
        wrong = net_key_parse(key, me->key);
    if (wrong == NULL)
        *where = read;
    sodium_memzero(key, sizeof key);
    return wrong;
}

const char *meet_file_find(const config *settings, net_identity *me, net_address *where)
{
    char line[NET_TEXT + KEY_TEXT + 32];
    const bool with_key = meet_file_brings_key(settings);
    const int fd = open_anew(meet_file_of(settings));
    if (fd < 0)
        return errno == ENOENT ? "it is not there" : strerror(errno);
    const char *wrong = with_key ? net_key_distrust(fd) : NULL;
    const ssize_t length = wrong == NULL ? read(fd, line, sizeof line - 1) : 0;
    close(fd);
    if (wrong == NULL && length <= 0)
        wrong = "it is empty";
    if (wrong != NULL)
        return wrong;
    line[length] = '\0';
    wrong = read_line(line, with_key, me, where);
    sodium_memzero(line, sizeof line);
    return wrong;
}

rueda_status meet_file_await(const config *settings, attendance *there, net_identity *me,
                             uint64_t deadline_ns, net_address *where)
{
    long pause = FILE_POLL_NS;
    const char *wrong;
    while ((wrong = meet_file_find(settings, me, where)) != NULL) {
        const rueda_status status = attendance_look(there);
        if (status != RUEDA_OK)
            return status;
        if (world_now_ns() > deadline_ns)
            return status_fail(
                RUEDA_ERR_TIMEOUT,
                "rank %u: rank 0 has not written its address to %s (%s) in time; see "
                "why it did not start, set RUEDA_MEET=file:PATH in a folder that all "
                "hosts see, or raise RUEDA_START_TIMEOUT",
                me->rank, meet_file_of(settings), wrong);
        world_rest(pause);
        pause = 2 * pause > FILE_POLL_MAX_NS ? FILE_POLL_MAX_NS : 2 * pause;
    }
    return RUEDA_OK;
}
