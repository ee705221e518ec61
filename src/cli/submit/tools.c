/* tools.c: see tools.h. */
#include "cli/submit/tools.h"

#include "cli/job_file/subprocess.h"
#include "cli/launch/bytes.h"
#include "cli/submit/submit.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define EXIT_NOT_FOUND 127
#define EXIT_SIGNAL 128

bool tool_exists(const char *program)
{
    const char *path = getenv("PATH");
    char *list = strdup(path != NULL ? path : ""), *rest = list, *folder;
    bool found = false;
    while (!found && list != NULL && (folder = strsep(&rest, ":")) != NULL) {
        char *file = NULL;
        found = asprintf(&file, "%s/%s", folder[0] == '\0' ? "." : folder, program) > 0 &&
                access(file, X_OK) == 0;
        free(file);
    }
    free(list);
    return found;
}

static void keep_line(void *context, const char *line)
{
    bytes_add_text(context, line);
    bytes_add_text(context, "\n");
}

int tool_ask(char *const *command, char **said)
{
    bytes all = {0};
    int caught;
    const int code = subprocess_run(command, keep_line, &all, &caught);
    if (caught != 0)
        raise(caught);
    bytes_add(&all, "", 1);
    *said = bytes_first(&all);
    return code;
}

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
    pid_t pid;
    int status = 0;
    fflush(NULL);
    if (posix_spawnp(&pid, command[0], NULL, NULL, command, environ) != 0)
        return EXIT_NOT_FOUND;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_SIGNAL + WTERMSIG(status);
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
