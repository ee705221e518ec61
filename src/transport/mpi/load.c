/* load.c: finds out which MPI this process belongs to, and loads the plug-in for it.
 *
 * Invariant: nothing of MPI is loaded unless the launcher, the application and the plug-in agree: two
 * MPIs in one process fail in ways that nobody can read.
 */
#include "transport/mpi/load.h"

#include "base/foreign.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const flavours[] = {"openmpi", "mpich"};
#define FLAVOURS (sizeof flavours / sizeof flavours[0])

const char *mpi_flavour_name(const char *flavour)
{
    return strcmp(flavour, "openmpi") == 0 ? "Open MPI" : "MPICH";
}

/* ---- What is loaded already ------------------------------------------------------------------ */

#define LOADED_MAX 4

typedef struct loaded {
    char paths[LOADED_MAX][MPI_PATH_MAX];
    int count;
} loaded;

static bool starts_with(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

/* Nothing may be loaded from in here: the list is locked. */
static int note_mpi(struct dl_phdr_info *info, size_t size, void *argument)
{
    loaded *l = argument;
    const char *end = strrchr(info->dlpi_name, '/');
    const char *name = end == NULL ? info->dlpi_name : end + 1;
    (void)size;
    if ((starts_with(name, "libmpi.so") || starts_with(name, "libmpich.so")) &&
        l->count < LOADED_MAX)
        snprintf(l->paths[l->count++], MPI_PATH_MAX, "%s", info->dlpi_name);
    return 0;
}

/* By a symbol that only Open MPI has: both call their library libmpi.so. */
static const char *flavour_of(const char *path)
{
    void *handle = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
    const bool open_mpi = handle != NULL && dlsym(handle, "ompi_mpi_comm_world") != NULL;
    if (handle != NULL)
        dlclose(handle);
    return open_mpi ? "openmpi" : "mpich";
}

rueda_status mpi_flavour(const char **flavour)
{
    loaded l = {.count = 0};
    const char *started = foreign_mpi(), *found = NULL, *path = NULL;
    dl_iterate_phdr(note_mpi, &l);
    for (int i = 0; i < l.count; i++) {
        const char *other = flavour_of(l.paths[i]);
        if (found != NULL && strcmp(found, other) != 0)
            return status_fail(RUEDA_ERR_CONFIG,
                               "two MPIs are loaded in this process, %s and %s: build and start "
                               "everything with one of them",
                               path, l.paths[i]);
        found = other;
        path = l.paths[i];
    }
    if (found != NULL && started != NULL && strcmp(found, started) != 0)
        return status_fail(RUEDA_ERR_CONFIG,
                           "this program uses %s (%s) and was started by the mpirun of %s: use the "
                           "mpirun of %s",
                           mpi_flavour_name(found), path, mpi_flavour_name(started),
                           mpi_flavour_name(found));
    *flavour = found != NULL ? found : started;
    return RUEDA_OK;
}

/* ---- Where plug-ins are ---------------------------------------------------------------------- */

bool mpi_user_folder(char path[MPI_PATH_MAX])
{
    const char *data = config_variable("XDG_DATA_HOME"), *home = config_variable("HOME");
    int length = -1;
    if (data != NULL)
        length = snprintf(path, MPI_PATH_MAX, "%s/rueda/%s", data, rueda_version());
    else if (home != NULL)
        length = snprintf(path, MPI_PATH_MAX, "%s/.local/share/rueda/%s", home, rueda_version());
    return length > 0 && length < MPI_PATH_MAX;
}

static bool is_file(const char *path)
{
    struct stat facts;
    return stat(path, &facts) == 0 && S_ISREG(facts.st_mode);
}

static bool look_in(const char *folder, const char *below, const char *flavour,
                    char path[MPI_PATH_MAX])
{
    const int length =
        snprintf(path, MPI_PATH_MAX, "%s%s/librueda-mpi-%s.so", folder, below, flavour);
    return length > 0 && length < MPI_PATH_MAX && is_file(path);
}

/* Where our code was loaded from. */
bool mpi_own_folder(char folder[MPI_PATH_MAX])
{
    Dl_info facts;
    char *end;
    if (dladdr((const void *)flavours, &facts) == 0 || facts.dli_fname == NULL)
        return false;
    snprintf(folder, MPI_PATH_MAX, "%s", facts.dli_fname);
    if (strchr(folder, '/') == NULL) { /* the program, which PATH has found */
        const ssize_t length = readlink("/proc/self/exe", folder, MPI_PATH_MAX - 1);
        folder[length > 0 ? length : 0] = '\0';
    }
    if ((end = strrchr(folder, '/')) == NULL)
        return false;
    *end = '\0';
    return true;
}

/* The program, which has the library inside, lies beside the library's folder. */
static bool find_one(const config *settings, const char *flavour, char path[MPI_PATH_MAX])
{
    static const char *const below[] = {"", "/rueda", "/../lib/rueda"};
    const char *told = settings->mpi_plugin.text;
    char folder[MPI_PATH_MAX];
    if (told[0] != '\0')
        return look_in(told, "", flavour, path);
    if (mpi_user_folder(folder) && look_in(folder, "", flavour, path))
        return true;
    for (size_t i = 0; mpi_own_folder(folder) && i < sizeof below / sizeof below[0]; i++) {
        if (look_in(folder, below[i], flavour, path))
            return true;
    }
    return false;
}

bool mpi_find(const config *settings, const char *flavour, char path[MPI_PATH_MAX])
{
    char other[MPI_PATH_MAX];
    if (is_file(settings->mpi_plugin.text))
        return snprintf(path, MPI_PATH_MAX, "%s", settings->mpi_plugin.text) > 0;
    if (flavour != NULL)
        return find_one(settings, flavour, path);
    const bool first = find_one(settings, flavours[0], path),
               second = find_one(settings, flavours[1], other);
    if (!first && second)
        memcpy(path, other, sizeof other);
    return first != second;
}

/* ---- Loading --------------------------------------------------------------------------------- */

static rueda_status fail_missing(const config *settings, const char *flavour)
{
    char path[MPI_PATH_MAX];
    if (flavour == NULL)
        return status_fail(
            RUEDA_ERR_CONFIG,
            "RUEDA_TRANSPORT=mpi, and nothing says which MPI: start the ranks with its "
            "mpirun, or name the plug-in with RUEDA_MPI_PLUGIN=PATH");
    for (size_t i = 0; i < FLAVOURS; i++) {
        if (strcmp(flavours[i], flavour) != 0 && find_one(settings, flavours[i], path))
            return status_fail(
                RUEDA_ERR_CONFIG,
                "the ranks belong to %s, and there is only a plug-in for %s: use the "
                "mpirun of %s, or `rueda doctor --build-mpi --mpicc` with the mpicc of %s",
                mpi_flavour_name(flavour), mpi_flavour_name(flavours[i]),
                mpi_flavour_name(flavours[i]), mpi_flavour_name(flavour));
    }
    return status_fail(RUEDA_ERR_CONFIG,
                       "there is no plug-in librueda-mpi-%s.so for %s: make it with `rueda doctor "
                       "--build-mpi`, name it with RUEDA_MPI_PLUGIN, or say RUEDA_TRANSPORT=tcp",
                       flavour, mpi_flavour_name(flavour));
}

/* Of another version only the first fields may be read. */
static rueda_status check(const mpi_plugin *p, const char *path, const char *flavour)
{
    if (p->interface != MPI_PLUGIN_INTERFACE || strcmp(p->version, rueda_version()) != 0)
        return status_fail(
            RUEDA_ERR_CONFIG,
            "%s was made for rueda %s and this is %s: make it anew with `rueda doctor "
            "--build-mpi`",
            path, p->version, rueda_version());
    if (flavour != NULL && strcmp(p->flavour, flavour) != 0)
        return status_fail(RUEDA_ERR_CONFIG,
                           "%s is for %s and the ranks belong to %s: use the mpirun of %s, or name "
                           "another plug-in with RUEDA_MPI_PLUGIN",
                           path, mpi_flavour_name(p->flavour), mpi_flavour_name(flavour),
                           mpi_flavour_name(p->flavour));
    return RUEDA_OK;
}

rueda_status mpi_load(const config *settings, const char *flavour, const mpi_plugin **plugin)
{
    char path[MPI_PATH_MAX];
    if (!mpi_find(settings, flavour, path))
        return fail_missing(settings, flavour);
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (handle == NULL)
        return status_fail(
            RUEDA_ERR_CONFIG,
            "the plug-in %s cannot be loaded (%s): install the MPI it was made for, or "
            "make it anew with `rueda doctor --build-mpi`",
            path, dlerror());
    const mpi_plugin *found = dlsym(handle, MPI_PLUGIN_SYMBOL);
    if (found == NULL)
        return status_fail(RUEDA_ERR_CONFIG, "%s is no MPI plug-in of rueda", path);
    const rueda_status status = check(found, path, flavour);
    if (status == RUEDA_OK)
        *plugin = found;
    return status;
}
