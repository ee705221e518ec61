/* doctor_check.c: what this machine has. Each check is one function that says one thing. */
#include "base/config.h"
#include "base/os.h"
#include "cli/doctor.h"
#include "cli/json_line.h"
#include "cli/launch/child.h"
#include "cli/launch/topology.h"
#include "kernel/kernel.h"
#include "transport/mpi/load.h"
#include "world/world.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define FINDING_MAX 320
#define PROBE_BYTES (UINT64_C(16) << 20) /* shared memory to try */
#define FEW_FILES 256                    /* fewer descriptors are tight for a launcher */

typedef enum verdict { OK, NOTE, MISSING, BROKEN } verdict;
static const char *const verdict_names[] = {"ok", "note", "missing", "broken"};

/* What was found; a consequence says what it costs, or what to do. */
typedef struct finding {
    verdict verdict;
    char text[FINDING_MAX];
    const char *consequence; /* NULL if none */
} finding;

__attribute__((format(printf, 3, 4))) static finding found(verdict v, const char *consequence,
                                                           const char *format, ...)
{
    finding f = {.verdict = v, .consequence = consequence};
    va_list args;
    va_start(args, format);
    vsnprintf(f.text, sizeof f.text, format, args);
    va_end(args);
    return f;
}

static finding check_version(void)
{
    return found(OK, NULL, "rueda %d.%d.%d", RUEDA_VERSION_MAJOR, RUEDA_VERSION_MINOR,
                 RUEDA_VERSION_PATCH);
}

static finding check_kernel(void)
{
    const char *name = kernel_table_best()->name;
    if (strcmp(name, "plain") == 0)
        return found(NOTE, "arithmetic is not vectorised by hand: reductions in cache are slower",
                     "plain kernels: no AVX2 here");
    return found(OK, NULL, "%s kernels", name);
}

static finding check_cores(void)
{
    const int cores = world_cpu_count();
    if (cores == 1)
        return found(NOTE, "ranks take turns: jobs work, but nothing gets faster", "1 core");
    return found(OK, NULL, "%d cores: up to %d ranks run side by side; more work too, taking turns",
                 cores, cores);
}

static finding check_settings(void)
{
    config settings;
    if (config_load(&settings, doctor_warn_unknown) != RUEDA_OK)
        return found(BROKEN, "rueda_init will fail: correct or unset the variable", "%s",
                     status_text());
    return found(OK, NULL, "all valid (rueda doctor --config lists them)");
}

static finding check_shared_memory(void)
{
    static const char cost[] = "ranks cannot share memory, so no job of several ranks can run";
    int fd;
    void *base;
    if (os_shared_create(PROBE_BYTES, &fd) != RUEDA_OK)
        return found(BROKEN, cost, "%s", status_text());
    rueda_status status = os_shared_commit(fd, 0, PROBE_BYTES);
    if (status == RUEDA_OK)
        status = os_shared_map(fd, PROBE_BYTES, &base);
    close(fd);
    if (status != RUEDA_OK)
        return found(BROKEN, cost, "%s", status_text());
    memset(base, 1, PROBE_BYTES);
    os_unmap(base, PROBE_BYTES);
    return found(OK, NULL, "memfd with seals; %llu MiB allocated, mapped and written",
                 (unsigned long long)(PROBE_BYTES >> 20));
}

static finding check_process_handles(void)
{
    const int fd = world_process_open((int)getpid());
    if (fd < 0)
        return found(MISSING, "the death of a rank is noticed later, by its closed socket",
                     "no pidfd (Linux 5.3 has it)");
    close(fd);
    return found(OK, NULL, "pidfd");
}

static finding check_huge_pages(void)
{
    static const char path[] = "/sys/kernel/mm/transparent_hugepage/shmem_enabled";
    char modes[128] = "";
    FILE *file = fopen(path, "r");
    if (file != NULL) {
        if (fgets(modes, sizeof modes, file) == NULL)
            modes[0] = '\0';
        fclose(file);
    }
    const char *start = strchr(modes, '[');
    if (start == NULL)
        return found(NOTE,
                     "shared memory is in small pages: the first touch of large tensors is slower",
                     "the kernel has none for shared memory");
    const int length = (int)strcspn(start + 1, "]");
    const bool off = strncmp(start, "[never]", 7) == 0 || strncmp(start, "[deny]", 6) == 0;
    return found(off ? NOTE : OK,
                 off ? "shared memory is in small pages; root may write advise to "
                       "/sys/kernel/mm/transparent_hugepage/shmem_enabled"
                     : NULL,
                 "for shared memory: %.*s", length, start + 1);
}

static finding check_address_space(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return found(OK, NULL, "not limited");
    return found(NOTE, "rueda_init may fail: raise ulimit -v, or make RUEDA_HEAP_MAX smaller",
                 "limited to %llu MiB", (unsigned long long)(limit.rlim_cur >> 20));
}

static finding check_files(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return found(NOTE, NULL, "limit unknown");
    const bool few = limit.rlim_max < FEW_FILES;
    return found(few ? NOTE : OK, few ? "jobs of many ranks may not start: raise ulimit -n" : NULL,
                 "%llu, at most %llu; rueda run needs 2 for each rank",
                 (unsigned long long)limit.rlim_cur, (unsigned long long)limit.rlim_max);
}

static finding check_program(const char *program, const char *text, const char *cost)
{
    const bool have = child_exists(program);
    return found(have ? OK : MISSING, have ? NULL : cost, "%s%s", have ? "" : "no ", text);
}

static finding check_ssh(void)
{
    return check_program("ssh", "ssh", "rueda run cannot start ranks on other hosts");
}

static finding check_binding(void)
{
    const bool have = topology_knows_cores();
    return found(have ? OK : MISSING,
                 have ? NULL : "every processor counts as a core when ranks are bound",
                 have ? "hwloc" : "built without hwloc");
}

static finding check_compiler(void)
{
    return check_program("cc", "C compiler", "programs that use rueda.h cannot be built here");
}

static finding check_pkg_config(void)
{
    return check_program("pkg-config", "pkg-config", "give the compiler -lrueda by hand");
}

static finding check_open_mpi(void)
{
    return check_program("ompi_info", "Open MPI", "rueda bench --against openmpi is not possible");
}

static finding check_mpich(void)
{
    return check_program("mpichversion", "MPICH", "rueda bench --against mpich is not possible");
}

static finding check_mpi_plugin(void)
{
    config settings;
    char path[MPI_PATH_MAX], list[FINDING_MAX] = "";
    static const char *const flavours[] = {"openmpi", "mpich"};
    for (size_t i = 0; config_load(&settings, NULL) == RUEDA_OK && i < 2; i++) {
        const size_t used = strlen(list);
        if (mpi_find(&settings, flavours[i], path))
            snprintf(list + used, sizeof list - used, "%s%.150s", used > 0 ? ", " : "", path);
    }
    if (list[0] == '\0')
        return found(MISSING, "data between hosts goes by tcp; rueda doctor --build-mpi makes one",
                     "no plug-in");
    return found(OK, NULL, "%s", list);
}

static const struct {
    const char *name;
    finding (*function)(void);
} checks[] = {
    {"version", check_version},
    {"processor", check_kernel},
    {"cores", check_cores},
    {"settings", check_settings},
    {"shared memory", check_shared_memory},
    {"process handles", check_process_handles},
    {"huge pages", check_huge_pages},
    {"address space", check_address_space},
    {"open files", check_files},
    {"binding", check_binding},
    {"ssh", check_ssh},
    {"compiler", check_compiler},
    {"pkg-config", check_pkg_config},
    {"Open MPI", check_open_mpi},
    {"MPICH", check_mpich},
    {"MPI plug-in", check_mpi_plugin},
};

static void print_finding(const char *name, const finding *f, bool json)
{
    if (!json) {
        printf("%-8s %-16s %s\n", verdict_names[f->verdict], name, f->text);
        if (f->consequence != NULL)
            printf("%25s -> %s\n", "", f->consequence);
        return;
    }
    json_line_print(json_pack("{s:s, s:s, s:o, s:o}", "check", name, "verdict",
                              verdict_names[f->verdict], "text", json_line_string(f->text),
                              "consequence", json_line_string(f->consequence)));
}

int doctor_check(bool json)
{
    int broken = 0;
    for (size_t i = 0; i < sizeof checks / sizeof checks[0]; i++) {
        const finding f = checks[i].function();
        print_finding(checks[i].name, &f, json);
        broken |= f.verdict == BROKEN;
    }
    return broken;
}
