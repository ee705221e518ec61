/* spawn.c: fork, environment, exec. Between fork and exec the child is alone with one thread, so it
 * may use the whole C library. */
#include "cli/spawn.h"

#include "base/os.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

bool spawn_job_init(spawn_job *job, char **command, int size)
{
    unsigned char bytes[SPAWN_JOB_BYTES];
    job->command = command;
    job->size = size;
    if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
        return false;
    for (size_t i = 0; i < sizeof bytes; i++)
        sprintf(job->name + 2 * i, "%02x", bytes[i]);
    if (gethostname(job->hostname, sizeof job->hostname) != 0)
        strcpy(job->hostname, "localhost");
    job->hostname[sizeof job->hostname - 1] = '\0';
    return true;
}

static void set_number(const char *name, int value, bool replace)
{
    char text[16];
    snprintf(text, sizeof text, "%d", value);
    setenv(name, text, replace);
}

/* One fact under our name and under Horovod's, for scripts written for it. */
static void set_fact(const char *fact, int value)
{
    char name[64];
    snprintf(name, sizeof name, "RUEDA_%s", fact);
    set_number(name, value, true);
    snprintf(name, sizeof name, "HOROVOD_%s", fact);
    set_number(name, value, true);
}

static void set_environment(const spawn_job *job, int rank)
{
    set_fact("RANK", rank);
    set_fact("SIZE", job->size);
    set_fact("LOCAL_RANK", rank);
    set_fact("LOCAL_SIZE", job->size);
    set_fact("CROSS_RANK", 0);
    set_fact("CROSS_SIZE", 1);
    setenv("RUEDA_JOB", job->name, true);
    setenv("HOROVOD_HOSTNAME", job->hostname, true);
    /* Every rank with a thread for every core would fight for them. */
    const int share = os_cpu_count() / job->size;
    set_number("OMP_NUM_THREADS", share > 1 ? share : 1, false);
    setenv("PYTHONUNBUFFERED", "1", false); /* lines appear when they are printed */
}

static bool redirect(const spawn_job *job, int rank, int out, int err)
{
    if (rank > 0 || !job->give_stdin) {
        const int null = open("/dev/null", O_RDONLY);
        if (null < 0 || dup2(null, STDIN_FILENO) < 0)
            return false;
        close(null);
    }
    return dup2(out, STDOUT_FILENO) >= 0 && dup2(err, STDERR_FILENO) >= 0;
}

static _Noreturn void become_rank(const spawn_job *job, int rank, int launcher, const int fds[3])
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != launcher)
        _exit(1); /* it died before the line above */
    setsid();
    set_environment(job, rank);
    if (redirect(job, rank, fds[0], fds[1])) {
        setrlimit(RLIMIT_NOFILE, &job->files);
        signal(SIGPIPE, SIG_DFL);
        sigprocmask(SIG_SETMASK, &job->mask, NULL);
        execvp(job->command[0], job->command);
    }
    const int reason = errno;
    if (write(fds[2], &reason, sizeof reason) < 0)
        _exit(126);
    _exit(127);
}

static void close_pipe(int ends[2])
{
    close(ends[0]);
    close(ends[1]);
}

/* After the fork: waits until the child has become the command, or says why not. */
static int await_exec(int pid, int report)
{
    int reason;
    ssize_t count;
    do
        count = read(report, &reason, sizeof reason);
    while (count < 0 && errno == EINTR);
    if (count != sizeof reason)
        return pid;
    waitpid(pid, NULL, 0);
    return -reason;
}

int spawn_rank(const spawn_job *job, int rank, int *out, int *err)
{
    int out_ends[2], err_ends[2], report[2], result;
    if (pipe2(out_ends, O_CLOEXEC) != 0)
        return -errno;
    if (pipe2(err_ends, O_CLOEXEC) != 0) {
        result = -errno;
        goto close_out;
    }
    if (pipe2(report, O_CLOEXEC) != 0) {
        result = -errno;
        goto close_err;
    }
    const int launcher = getpid(), pid = fork();
    if (pid == 0)
        become_rank(job, rank, launcher, (int[]){out_ends[1], err_ends[1], report[1]});
    result = pid < 0 ? -errno : pid;
    close(report[1]);
    if (pid > 0)
        result = await_exec(pid, report[0]);
    close(report[0]);
    if (result < 0)
        goto close_err;
    close(out_ends[1]);
    close(err_ends[1]);
    *out = out_ends[0];
    *err = err_ends[0];
    fcntl(*out, F_SETFL, O_NONBLOCK);
    fcntl(*err, F_SETFL, O_NONBLOCK);
    return result;

close_err:
    close_pipe(err_ends);
close_out:
    close_pipe(out_ends);
    return result;
}
