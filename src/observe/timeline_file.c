/* timeline_file.c: see timeline_file.h. */
#include "observe/timeline_file.h"

#include "base/os.h"
#include "world/world.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define OPENING "[\n"
#define CLOSING "\n]\n"
#define CLOSING_BYTES (sizeof CLOSING - 1)
#define BETWEEN ",\n"
#define FILE_MODE 0666 /* less the umask */
#define LOOK_EVERY_NS 1000000
#define COPY_BYTES 65536

rueda_status timeline_file_init(timeline_file *f, const char *path, const char *first,
                                uint64_t max_bytes)
{
    *f = (timeline_file){.first = first, .max_bytes = max_bytes};
    if (path[0] == '\0' || strlen(path) >= TIMELINE_PATH_MAX)
        return status_fail(RUEDA_ERR_ARGUMENT, "the path of a timeline must have 1 to %d bytes",
                           TIMELINE_PATH_MAX - 1);
    char *real = realpath(path, NULL);
    snprintf(f->path, sizeof f->path, "%s", real != NULL ? real : path);
    free(real);
    snprintf(f->part, sizeof f->part, "%s%s", f->path, TIMELINE_PART);
    struct stat there;
    if (stat(f->path, &there) == 0 && !S_ISREG(there.st_mode))
        return status_fail(RUEDA_ERR_SYSTEM, "%s is not a file that a timeline could be written to",
                           path);
    return RUEDA_OK;
}

static bool write_at(int fd, const char *bytes, size_t count, uint64_t offset)
{
    while (count > 0) {
        const ssize_t written = pwrite(fd, bytes, count, (off_t)offset);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return false;
        bytes += written;
        count -= (size_t)written;
        offset += (uint64_t)written;
    }
    return true;
}

static bool read_at(int fd, char *bytes, size_t count, uint64_t offset)
{
    while (count > 0) {
        const ssize_t got = pread(fd, bytes, count, (off_t)offset);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        bytes += got;
        count -= (size_t)got;
        offset += (uint64_t)got;
    }
    return true;
}

/* Under a name of its own first: nobody sees an array without its end, and others may be adding. */
rueda_status timeline_file_create(timeline_file *f)
{
    char start[512], made[sizeof f->part + 16];
    snprintf(made, sizeof made, "%s.%d", f->part, world_process());
    const int length = snprintf(start, sizeof start, OPENING "%s" CLOSING, f->first);
    const int fd = open(made, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, FILE_MODE);
    if (fd < 0)
        return status_fail_errno(RUEDA_ERR_SYSTEM, "cannot write the timeline to %.300s", f->path);
    const bool written = write_at(fd, start, (size_t)length, 0);
    if (close(fd) == 0 && written && rename(made, f->path) == 0)
        return RUEDA_OK;
    status_fail_errno(RUEDA_ERR_SYSTEM, "cannot write the timeline to %.300s", f->path);
    unlink(made);
    return RUEDA_ERR_SYSTEM;
}

/* ---- Adding ---------------------------------------------------------------------------------- */

/* One of the two files. */
typedef struct array {
    int fd;
    uint64_t end; /* where the closing bracket's line begins; 0: it is not a complete array */
} array;

static void measure(array *a)
{
    struct stat status;
    char tail[CLOSING_BYTES];
    a->end = 0;
    if (fstat(a->fd, &status) != 0 || (uint64_t)status.st_size <= CLOSING_BYTES)
        return;
    const uint64_t end = (uint64_t)status.st_size - CLOSING_BYTES;
    if (read_at(a->fd, tail, CLOSING_BYTES, end) && memcmp(tail, CLOSING, CLOSING_BYTES) == 0)
        a->end = end;
}

static bool still_bears(int fd, const char *name)
{
    struct stat open_one, named;
    return fstat(fd, &open_one) == 0 && stat(name, &named) == 0 &&
           open_one.st_dev == named.st_dev && open_one.st_ino == named.st_ino;
}

/* Not by closing alone: a process that was forked meanwhile has a copy. */
static void unlock(int fd)
{
    flock(fd, LOCK_UN);
    close(fd);
}

/* Opens and locks the file that bears the name; whoever had the lock before may have exchanged it. Who
 * waits has nothing open: it would count as a reader. */
static rueda_status lock_front(timeline_file *f, int *front)
{
    const uint64_t deadline_ns = world_now_ns() + TIMELINE_LOCK_NS;
    do {
        const int fd = open(f->path, O_RDWR | O_CLOEXEC);
        if (fd < 0 && errno == ENOENT && timeline_file_create(f) == RUEDA_OK)
            continue;
        if (fd < 0)
            return status_fail_errno(RUEDA_ERR_SYSTEM, "cannot open the timeline %.300s", f->path);
        if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
            if (still_bears(fd, f->path))
                return *front = fd, RUEDA_OK;
            unlock(fd);
            continue;
        }
        const bool taken = errno == EWOULDBLOCK;
        close(fd);
        if (!taken)
            return status_fail(RUEDA_ERR_SYSTEM, "cannot lock the timeline %.300s", f->path);
        world_rest(LOOK_EVERY_NS);
    } while (world_now_ns() < deadline_ns);
    return status_fail(RUEDA_ERR_TIMEOUT, "another process keeps the timeline %.300s locked",
                       f->path);
}

static bool copy_range(int from, int to, uint64_t offset, uint64_t end)
{
    char *buffer = malloc(COPY_BYTES);
    bool good = buffer != NULL;
    while (good && offset < end) {
        const size_t count = end - offset < COPY_BYTES ? (size_t)(end - offset) : COPY_BYTES;
        good = read_at(from, buffer, count, offset) && write_at(to, buffer, count, offset);
        offset += count;
    }
    free(buffer);
    return good;
}

/* One call, so that an array that is written in place is incomplete as shortly as can be. */
static bool append(int fd, uint64_t end, const char *lines, size_t length)
{
    const size_t between = sizeof BETWEEN - 1;
    char *whole = malloc(between + length + CLOSING_BYTES);
    if (whole == NULL)
        return false;
    memcpy(whole, BETWEEN, between);
    memcpy(whole + between, lines, length);
    memcpy(whole + between + length, CLOSING, CLOSING_BYTES);
    const bool good = write_at(fd, whole, between + length + CLOSING_BYTES, end);
    free(whole);
    return good;
}

/* The other file: it holds a beginning of what the front holds, or, if a writer was killed, anything. One
 * that somebody still reads is left to him. */
static bool open_back(const timeline_file *f, const array *front, array *back)
{
    back->fd = open(f->part, O_RDWR | O_CREAT | O_CLOEXEC, FILE_MODE);
    if (back->fd >= 0 && os_is_open_elsewhere(back->fd)) {
        close(back->fd);
        unlink(f->part);
        back->fd = open(f->part, O_RDWR | O_CREAT | O_CLOEXEC, FILE_MODE);
    }
    if (back->fd < 0)
        return false;
    measure(back);
    if (back->end > front->end)
        back->end = 0;
    return back->end > 0 || ftruncate(back->fd, 0) == 0;
}

static bool write_back(const timeline_file *f, const array *front, const char *lines, size_t length)
{
    array back = {.fd = -1};
    bool good = open_back(f, front, &back) &&
                copy_range(front->fd, back.fd, back.end, front->end) &&
                append(back.fd, front->end, lines, length);
    const int reason = errno;
    good = (back.fd < 0 || close(back.fd) == 0) && good;
    if (!good)
        unlink(f->part);
    errno = reason;
    return good;
}

static rueda_status add_locked(timeline_file *f, const array *front, const char *lines,
                               size_t length)
{
    if (front->end + length > f->max_bytes)
        return status_fail(
            RUEDA_ERR_MEMORY,
            "the timeline %.300s is as large as RUEDA_TIMELINE_MAX allows: %llu bytes", f->path,
            (unsigned long long)f->max_bytes);
    if (!f->in_place) {
        if (!write_back(f, front, lines, length))
            return status_fail_errno(RUEDA_ERR_SYSTEM, "cannot write the timeline %.300s", f->part);
        if (os_exchange_files(f->path, f->part))
            return RUEDA_OK;
        f->in_place = true;
        unlink(f->part);
    }
    return append(front->fd, front->end, lines, length)
               ? RUEDA_OK
               : status_fail_errno(RUEDA_ERR_SYSTEM, "cannot write the timeline %.300s", f->path);
}

rueda_status timeline_file_add(timeline_file *f, const char *lines, size_t length)
{
    array front;
    rueda_status status = lock_front(f, &front.fd);
    if (status != RUEDA_OK)
        return status;
    measure(&front);
    if (front.end == 0)
        status = status_fail(RUEDA_ERR_SYSTEM, "%.300s is not a timeline any more", f->path);
    else
        status = add_locked(f, &front, lines, length);
    unlock(front.fd);
    return status;
}

void timeline_file_finish(timeline_file *f)
{
    int front;
    if (f->in_place || lock_front(f, &front) != RUEDA_OK)
        return;
    unlink(f->part);
    unlock(front);
}
