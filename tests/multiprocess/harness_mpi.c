/* harness_mpi.c: ranks that mpirun starts. It cannot fork a running test, so the ranks run the test
 * program from its beginning, silently, up to the job they are meant for. */
#include "harness_mpi.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define WORDS_MAX 32
#define GRACE_S 5 /* that mpirun gets to end its ranks */

bool harness_has_mpirun(void)
{
    return getenv("TEST_MPIRUN") != NULL;
}

int mpi_job_number(void)
{
    const char *number = getenv("TEST_MPI_JOB");
    return number == NULL ? 0 : atoi(number);
}

int mpi_rank(void)
{
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    return atoi(rank == NULL ? getenv("PMI_RANK") : rank);
}

int mpi_open_board(void)
{
    return open(getenv("TEST_MPI_BOARD"), O_RDWR | O_CLOEXEC);
}

/* The test's own report comes from the test, not from its ranks. */
__attribute__((constructor)) static void be_silent(void)
{
    const int null = mpi_job_number() > 0 ? open("/dev/null", O_WRONLY) : -1;
    if (null < 0)
        return;
    dup2(null, STDOUT_FILENO);
    close(null);
}

bool mpi_serves(const job *j)
{
    const char *list = getenv("TEST_MPI_RANKS");
    if (j->killed != 0 || j->may_die != 0)
        return false;
    for (const char *next = list; next != NULL && *next != '\0';) {
        char *end;
        if (strtol(next, &end, 10) == j->ranks)
            return true;
        next = *end == ',' ? end + 1 : "";
    }
    return list == NULL;
}

static void become_mpirun(const job *j, int number, int board, pid_t test)
{
    char words[1024], path[64], ranks[16], own[512], *argv[WORDS_MAX] = {NULL}, *rest = words;
    int count = 0;
    snprintf(words, sizeof words, "%s", getenv("TEST_MPIRUN"));
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)test, board);
    snprintf(ranks, sizeof ranks, "%d", number);
    setenv("TEST_MPI_BOARD", path, 1);
    setenv("TEST_MPI_JOB", ranks, 1);
    unsetenv("TEST_MPIRUN");
    snprintf(ranks, sizeof ranks, "%d", j->ranks);
    const ssize_t length = readlink("/proc/self/exe", own, sizeof own - 1);
    own[length < 0 ? 0 : length] = '\0';
    for (char *word; (word = strsep(&rest, " ")) != NULL && count < WORDS_MAX - 4;)
        argv[count++] = word;
    argv[count++] = "-np";
    argv[count++] = ranks;
    argv[count++] = own;
    execvp(argv[0], argv);
    fprintf(stderr, "cannot run %s\n", argv[0]);
    _exit(127);
}

bool mpi_start(const job *j, int number, int board, pid_t *pid)
{
    const pid_t test = getpid();
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    sigprocmask(SIG_BLOCK, &child, NULL); /* next_ended waits for it */
    *pid = fork();
    if (*pid == 0) {
        sigprocmask(SIG_UNBLOCK, &child, NULL);
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        become_mpirun(j, number, board, test);
    }
    return *pid > 0;
}

void mpi_end(pid_t pid)
{
    if (pid <= 0)
        return;
    kill(pid, SIGTERM);
    for (int i = 0; i < 10 * GRACE_S; i++) {
        if (waitpid(pid, NULL, WNOHANG) == pid)
            return;
        nanosleep(&(struct timespec){0, 100000000}, NULL);
    }
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}
