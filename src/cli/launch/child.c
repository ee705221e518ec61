/* child.c: see child.h. */
#include "cli/launch/child.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* Puts a descriptor, or nothing, at a place; 0: what is there stays. */
static bool put(int fd, int place)
{
    if (fd == CHILD_NOTHING)
        fd = open("/dev/null", place == STDIN_FILENO ? O_RDONLY : O_WRONLY);
    if (fd == place)
        return fcntl(fd, F_SETFD, 0) == 0; /* it may be one that exec would close */
    return fd == 0 || (fd > 0 && dup2(fd, place) >= 0);
}

static bool prepare(const child *c)
{
    if (c->place == CHILD_OWN_SESSION)
        setsid();
    else if (c->place == CHILD_OWN_GROUP)
        setpgid(0, 0);
    if (!put(c->input, STDIN_FILENO) || !put(c->output, STDOUT_FILENO) ||
        !put(c->errors, STDERR_FILENO) || (c->prepare != NULL && !c->prepare(c->context)))
        return false;
    if (c->mask != NULL) {
        signal(SIGPIPE, SIG_DFL);
        sigprocmask(SIG_SETMASK, c->mask, NULL);
    }
    return true;
}

static _Noreturn void become(const child *c, pid_t parent, int report)
{
    if (c->death_signal != 0) {
        prctl(PR_SET_PDEATHSIG, c->death_signal);
        if (getppid() != parent)
            _exit(EXIT_FAILURE); /* it died before the line above */
    }
    if (prepare(c))
        execvp(c->command[0], c->command);
    const int reason = errno;
    if (report >= 0 && write(report, &reason, sizeof reason) < 0)
        _exit(EXIT_NOT_EXECUTABLE);
    if (report < 0 && c->complaint != NULL)
        fprintf(stderr, "%s%s: %s\n", c->complaint, c->command[0], strerror(reason));
    _exit(reason == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE);
}

pid_t child_start(const child *c)
{
    int ends[2] = {-1, -1};
    if (c->report != NULL && pipe2(ends, O_CLOEXEC) != 0)
        return -errno;
    const pid_t parent = getpid(), pid = fork();
    if (pid == 0)
        become(c, parent, ends[1]);
    const int reason = errno;
    if (ends[1] >= 0)
        close(ends[1]);
    if (pid < 0 && ends[0] >= 0)
        close(ends[0]);
    if (pid > 0 && c->report != NULL)
        *c->report = ends[0];
    return pid > 0 ? pid : -reason;
}

int child_wait(pid_t pid, int *signal)
{
    int status = 0;
    if (signal != NULL)
        *signal = 0;
    while (waitpid(pid, &status, 0) < 0) {
        if (errno != EINTR)
            return EXIT_FAILURE;
    }
    if (WIFEXITED(status))
        return WEXITSTATUS(status);
    if (signal != NULL)
        *signal = WTERMSIG(status);
    return EXIT_SIGNAL + WTERMSIG(status);
}

int child_shell(const char *line)
{
    char *const command[] = {"/bin/sh", "-c", (char *)line, NULL};
    fflush(NULL); /* what we have printed comes before what it prints */
    const pid_t pid = child_start(&(child){.command = command});
    return pid > 0 ? child_wait(pid, NULL) : EXIT_FAILURE;
}

bool child_exists(const char *program)
{
    const char *path = getenv("PATH");
    if (strchr(program, '/') != NULL)
        return access(program, X_OK) == 0;
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

bool child_beside(const char *name, char path[PATH_MAX])
{
    const ssize_t length = readlink("/proc/self/exe", path, PATH_MAX - 1);
    if (length < 0)
        return false;
    path[length] = '\0';
    char *end = strrchr(path, '/') + 1;
    const size_t room = (size_t)(path + PATH_MAX - end);
    return (size_t)snprintf(end, room, "%s", name) < room;
}
