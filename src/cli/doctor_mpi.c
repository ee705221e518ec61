/* doctor_mpi.c: `rueda doctor --build-mpi`: the plug-in from its sources, which come with the program, by
 * the mpicc of the MPI that the user has. */
#include "cli/doctor.h"
#include "cli/launch/child.h"
#include "cli/launch/ssh.h"
#include "cli/options.h"
#include "transport/mpi/load.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define COMMAND_MAX 4096

/* Below the folder of the program: where it is installed, and where it is built. */
static bool find_sources(char path[MPI_PATH_MAX])
{
    static const char *const below[] = {"/../share/rueda/mpi", "/share/rueda/mpi", "/mpi"};
    char own[MPI_PATH_MAX], probe[MPI_PATH_MAX + 32];
    for (size_t i = 0; mpi_own_folder(own) && i < sizeof below / sizeof below[0]; i++) {
        const int length = snprintf(path, MPI_PATH_MAX, "%s%s", own, below[i]);
        snprintf(probe, sizeof probe, "%s/transport/mpi/plugin.h", path);
        if (length < MPI_PATH_MAX && access(probe, R_OK) == 0)
            return true;
    }
    return false;
}

static bool make_folders(const char *path)
{
    char part[MPI_PATH_MAX];
    for (size_t i = 1; path[i - 1] != '\0'; i++) {
        if (path[i] != '/' && path[i] != '\0')
            continue;
        snprintf(part, sizeof part, "%.*s", (int)i, path);
        if (mkdir(part, 0755) != 0 && errno != EEXIST)
            return false;
    }
    return true;
}

static int compile(const char *mpicc, const char *sources, const char *to)
{
    char line[COMMAND_MAX];
    char *compiler = ssh_quote(mpicc), *from = ssh_quote(sources), *target = ssh_quote(to);
    const int length =
        snprintf(line, sizeof line,
                 "%s -std=c11 -D_GNU_SOURCE -O2 -fPIC -shared -fvisibility=hidden "
                 "-DRUEDA_PLUGIN_VERSION='\"%s\"' -I%s %s/transport/mpi/plugin/*.c -o %s",
                 compiler, rueda_version(), from, from, target);
    free(compiler);
    free(from);
    free(target);
    return length < COMMAND_MAX ? child_shell(line) : -1;
}

static int fail(const char *what, const char *why)
{
    fprintf(stderr, "rueda doctor: %s: %s\n", what, why);
    return EXIT_FAILURE;
}

/* Loads what was made: only then is it known for which MPI it is, and that it works. */
static int keep(const char *draft, const char *folder)
{
    char path[2 * MPI_PATH_MAX];
    void *handle = dlopen(draft, RTLD_NOW | RTLD_LOCAL);
    const mpi_plugin *made = handle == NULL ? NULL : dlsym(handle, MPI_PLUGIN_SYMBOL);
    if (made == NULL)
        return fail("the plug-in was made and cannot be loaded", dlerror());
    snprintf(path, sizeof path, "%s/librueda-mpi-%s.so", folder, made->flavour);
    if (rename(draft, path) != 0)
        return fail(path, strerror(errno));
    printf("%s\nfor %.*s\n", path, (int)strcspn(made->library(), "\n"), made->library());
    return EXIT_SUCCESS;
}

int doctor_build_mpi(const char *mpicc)
{
    char sources[MPI_PATH_MAX], folder[MPI_PATH_MAX], draft[2 * MPI_PATH_MAX];
    if (!child_exists(mpicc))
        return options_complain(
            "doctor",
            "%s is not there: install an MPI with its compiler (libopenmpi-dev, "
            "libmpich-dev), or name it with --mpicc PROGRAM",
            mpicc);
    if (!find_sources(sources))
        return fail("the plug-in's sources are missing",
                    "they belong to share/rueda/mpi beside this program: install it again");
    if (!mpi_user_folder(folder) || !make_folders(folder))
        return fail("there is no folder of yours to put the plug-in", strerror(errno));
    snprintf(draft, sizeof draft, "%s/draft-%d.so", folder, (int)getpid());
    const int code =
        compile(mpicc, sources, draft) == 0
            ? keep(draft, folder)
            : fail(mpicc, "it could not compile the plug-in; what it said stands above");
    unlink(draft);
    return code;
}
