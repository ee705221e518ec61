/* tools.c: see tools.h. */
#include "cli/submit/tools.h"

#include "cli/launch/child.h"
#include "cli/submit/submit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const char *tool_last_line(char *said)
{
    size_t length = strlen(said);
    while (length > 0 && said[length - 1] == '\n')
        said[--length] = '\0';
    const char *start = strrchr(said, '\n');
    return length == 0 ? "nothing" : start != NULL ? start + 1 : said;
}

int tool_show(char *const *command)
{
    fflush(NULL); /* what we have printed comes before what it prints */
    const pid_t pid = child_start(&(child){.command = command});
    return pid > 0 ? child_wait(pid, NULL) : EXIT_FAILURE;
}

static bool fill(int fd, const char *path, const char *text, size_t bytes)
{
    bool written = fd >= 0;
    while (written && bytes > 0) {
        const ssize_t count = write(fd, text, bytes);
        written = count > 0 || (count < 0 && errno == EINTR);
        text += count > 0 ? count : 0;
        bytes -= count > 0 ? (size_t)count : 0;
    }
    if (fd >= 0)
        written = close(fd) == 0 && written;
    if (!written)
        submit_complain("cannot write %s: %s", path, strerror(errno));
    return written;
}

bool tool_write(const char *path, const char *text, size_t bytes)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd >= 0)
        fchmod(fd, 0600); /* it may have been there already */
    return fill(fd, path, text, bytes);
}

bool tool_write_new(const char *suffix, const char *text, size_t bytes, char *path)
{
    snprintf(path, TOOL_PATH_MAX, "rueda-submit-XXXXXX%s", suffix);
    const int fd = mkostemps(path, (int)strlen(suffix), O_CLOEXEC);
    const bool written = fill(fd, path, text, bytes);
    if (!written && fd >= 0)
        unlink(path);
    return written;
}
