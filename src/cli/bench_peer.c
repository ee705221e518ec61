/* bench_peer.c: see bench_peer.h. The peer's program lies beside ours, in the build folder: it is made
 * only where the other engine was found (see CMakeLists.txt).
 */
#include "cli/bench_peer.h"

#include "cli/launch/child.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct {
    const char *name, *program, *missing;
} peers[] = {
    [PEER_NONE] = {"", "", ""},
    [PEER_SUM] = {"sum", "", ""},
    [PEER_OPENMPI] =
        {"openmpi", "rueda-peer-openmpi",
         "no Open MPI in this build; install openmpi-bin and libopenmpi-dev, then build "
         "again"},
    [PEER_MPICH] = {"mpich", "rueda-peer-mpich",
                    "no MPICH in this build; install mpich and libmpich-dev, then build again"},
    [PEER_GLOO] =
        {"gloo", "rueda-peer-gloo.py",
         "no Gloo in this build; install torch for python3 (pip install torch), then build "
         "again"},
    [PEER_SOCKET] = {"socket", "rueda-peer-socket", "it is not beside this program"},
};

const char *bench_peer_name(bench_peer peer)
{
    return peers[peer].name;
}

/* Looks only whether it is there: an import takes seconds. */
static bool have_torch(void)
{
    return child_shell("python3 -c 'import importlib.util, sys; "
                       "sys.exit(importlib.util.find_spec(\"torch\") is None)' 2>/dev/null") == 0;
}

const char *bench_peer_missing(bench_peer peer)
{
    char path[PATH_MAX];
    if (peer <= PEER_SUM)
        return NULL;
    if (peer == PEER_GLOO && !have_torch())
        return peers[peer].missing;
    return child_beside(peers[peer].program, path) && access(path, R_OK) == 0 ? NULL
                                                                              : peers[peer].missing;
}

/* Where we are ranks of an mpirun ourselves: what it told us must not reach the other one. */
static void forget_mpirun(void)
{
    static const char *const prefixes[] = {"OMPI_", "PMIX_",  "PMI_",
                                           "HYDI_", "HYDRA_", "MPI_LOCAL"};
    for (char **v = environ; *v != NULL;) {
        char name[256];
        bool foreign = false;
        snprintf(name, sizeof name, "%.*s", (int)strcspn(*v, "="), *v);
        for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++)
            foreign = foreign || strncmp(name, prefixes[i], strlen(prefixes[i])) == 0;
        if (foreign)
            unsetenv(name);
        else
            v++;
    }
}

const char *bench_peer_launcher(bench_peer peer)
{
    return peer == PEER_OPENMPI ? "mpirun.openmpi" : peer == PEER_MPICH ? "mpirun.mpich" : NULL;
}

/* What other engines say must not be among our lines: our stdout may be JSON. */
static bool prepare(void *unused)
{
    (void)unused;
    forget_mpirun();
    return dup2(STDERR_FILENO, STDOUT_FILENO) >= 0;
}

bool bench_peer_start(bench_peer_process *p, const bench_options *o, int board_fd)
{
    const bench_peer peer = o->against;
    const char *how = o->by_mpirun ? "started" : "blocking"; /* MPI_Iallreduce */
    char path[PATH_MAX], board[64], count[16];
    child_beside(peers[peer].program, path);
    /* A launcher closes descriptors that it does not know, so the board goes by its path. */
    snprintf(board, sizeof board, "/proc/%d/fd/%d", (int)getpid(), board_fd);
    snprintf(count, sizeof count, "%d", (int)o->ranks);
    const char *const by_openmpi[] = {"mpirun.openmpi",
                                      "--allow-run-as-root",
                                      "--oversubscribe",
                                      "-np",
                                      count,
                                      path,
                                      board,
                                      how,
                                      NULL};
    const char *const by_mpich[] = {"mpirun.mpich", "-n", count, path, board, how, NULL};
    const char *const alone[] = {path, count, board, NULL};
    const char *const by_python[] = {"python3", path, count, board, NULL};
    const char *const *command = peer == PEER_OPENMPI  ? by_openmpi
                                 : peer == PEER_MPICH  ? by_mpich
                                 : peer == PEER_SOCKET ? alone
                                                       : by_python;
    p->pid = child_start(&(child){.command = (char *const *)command,
                                  .input = CHILD_NOTHING,
                                  .death_signal = SIGTERM,
                                  .prepare = prepare,
                                  .complaint = "rueda bench: cannot start "});
    if (p->pid < 0)
        fprintf(stderr, "rueda bench: cannot start %s: %s\n", peers[peer].name, strerror(-p->pid));
    return p->pid > 0;
}

bool bench_peer_alive(bench_peer_process *p)
{
    if (p->pid > 0 && waitpid(p->pid, NULL, WNOHANG) != 0)
        p->pid = 0;
    return p->pid > 0;
}

void bench_peer_end(bench_peer_process *p, bool gently)
{
    if (p->pid <= 0)
        return;
    if (!gently)
        kill(p->pid, SIGTERM);
    waitpid(p->pid, NULL, 0);
}
