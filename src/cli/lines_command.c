/* lines_command.c: `rueda lines COMMAND...`, one rank of `rueda run --mpi`: hands its output on in whole lines.
 *
 * mpirun passes on whatever a rank has written at a moment, so lines of ranks that write in pieces are mixed.
 * Here each line leaves by one write. The command has our standard input, gets our signals, ends with us, and
 * its exit code is ours.
 */
#include "cli/commands.h"
#include "cli/launch/bytes.h"
#include "cli/launch/child.h"
#include "cli/options.h"
#include "world/world.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define LINE_MAX_BYTES 65536 /* a longer line is handed on in parts */

typedef struct relay {
    int from, to;
    bytes waiting; /* no whole line of it yet */
} relay;

static volatile sig_atomic_t command_pid;

static void pass_on(int number)
{
    if (command_pid > 0)
        kill(command_pid, number);
}

static void pass_signals_on(void)
{
    static const int numbers[] = {SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGCONT};
    struct sigaction action = {.sa_handler = pass_on, .sa_flags = SA_RESTART};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        sigaction(numbers[i], &action, NULL);
}

/* As much of what waits as can be handed on: whole lines; all of it at the end, or when it is too long. */
static size_t ready_bytes(const relay *s, bool ended)
{
    const char *first = bytes_first(&s->waiting);
    const char *last =
        bytes_used(&s->waiting) == 0 ? NULL : memrchr(first, '\n', bytes_used(&s->waiting));
    if (ended || (last == NULL && bytes_used(&s->waiting) >= LINE_MAX_BYTES))
        return bytes_used(&s->waiting);
    return last == NULL ? 0 : (size_t)(last - first) + 1;
}

/* False: nobody reads any more. */
static bool write_lines(relay *s, bool ended)
{
    size_t left = ready_bytes(s, ended);
    while (left > 0) {
        const char *first = bytes_first(&s->waiting), *end = memchr(first, '\n', left);
        const size_t line = end == NULL ? left : (size_t)(end - first) + 1;
        const ssize_t written = write(s->to, first, line);
        if (written < 0 && errno != EINTR)
            return false;
        bytes_drop(&s->waiting, written < 0 ? 0 : (size_t)written);
        left -= written < 0 ? 0 : (size_t)written;
    }
    return true;
}

static void close_relay(relay *s)
{
    close(s->from); /* the command gets SIGPIPE, as if it wrote itself */
    s->from = -1;
    bytes_free(&s->waiting);
}

static void move(relay *s)
{
    const bytes_moved moved = bytes_read(&s->waiting, s->from);
    if (!write_lines(s, moved == BYTES_END) || moved == BYTES_END)
        close_relay(s);
}

/* Until both outputs have ended; or the command, whose children may still hold them. */
static void move_all(relay relays[2], int command)
{
    bool ended = false;
    while (!ended && (relays[0].from >= 0 || relays[1].from >= 0)) {
        struct pollfd ready[3] = {{.fd = relays[0].from, .events = POLLIN},
                                  {.fd = relays[1].from, .events = POLLIN},
                                  {.fd = command, .events = POLLIN}};
        if (poll(ready, 3, -1) < 0) {
            if (errno != EINTR)
                return;
            continue;
        }
        for (int i = 0; i < 2; i++) {
            if (relays[i].from >= 0 && ready[i].revents != 0)
                move(&relays[i]);
        }
        ended = ready[2].revents != 0 && ready[0].revents == 0 && ready[1].revents == 0;
    }
    for (int i = 0; i < 2; i++) {
        if (relays[i].from >= 0)
            write_lines(&relays[i], true);
    }
}

/* Lines are made here, and should come at once. */
static bool prepare(void *unused)
{
    (void)unused;
    return setenv("PYTHONUNBUFFERED", "1", 0) == 0;
}

/* mpirun tells how its rank has ended: as the command has, by its signal, too. */
static int end_likewise(pid_t pid)
{
    int killer;
    const int code = child_wait(pid, &killer);
    if (killer != 0) {
        setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
        signal(killer, SIG_DFL);
        raise(killer);
    }
    return code;
}

int lines_command(int argc, char **argv)
{
    int out[2], err[2];
    if (argc < 2)
        return options_complain("lines", "is for rueda run --mpi alone; see rueda run --help");
    if (pipe2(out, O_CLOEXEC) != 0 || pipe2(err, O_CLOEXEC) != 0) {
        fprintf(stderr, "rueda run: no pipe for the output of %s: %s\n", argv[1], strerror(errno));
        return EXIT_FAILURE;
    }
    const pid_t pid = child_start(&(child){.command = argv + 1,
                                           .output = out[1],
                                           .errors = err[1],
                                           .death_signal = SIGKILL,
                                           .prepare = prepare,
                                           .complaint = "rueda run: cannot run "});
    if (pid < 0) {
        fprintf(stderr, "rueda run: cannot start %s: %s\n", argv[1], strerror(-pid));
        return EXIT_FAILURE;
    }
    command_pid = pid;
    pass_signals_on();
    signal(SIGPIPE, SIG_IGN);
    close(out[1]);
    close(err[1]);
    relay relays[2] = {{.from = out[0], .to = STDOUT_FILENO},
                       {.from = err[0], .to = STDERR_FILENO}};
    fcntl(out[0], F_SETFL, O_NONBLOCK);
    fcntl(err[0], F_SETFL, O_NONBLOCK);
    const int command = world_process_open(pid);
    move_all(relays, command);
    close(command);
    return end_likewise(pid);
}
