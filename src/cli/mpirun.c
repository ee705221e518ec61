/* mpirun.c: see mpirun.h. Open MPI and MPICH's Hydra (Intel MPI's, too) take other words for the same. */
#include "cli/mpirun.h"

#include "cli/launch/bytes.h"
#include "cli/launch/ssh.h"
#include "cli/launch/subprocess.h"
#include "cli/options.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef enum flavour { OPEN_MPI, HYDRA, UNKNOWN } flavour;

typedef struct words {
    char **list; /* ends with NULL */
    size_t count, room;
} words;

static char *copy_of(const char *text)
{
    return memcpy(bytes_new(strlen(text) + 1, 1), text, strlen(text));
}

static void add(words *w, const char *word)
{
    if (w->count + 2 > w->room) {
        const size_t room = 2 * w->room + 32;
        char **list = bytes_new(room, sizeof *list);
        for (size_t i = 0; i < w->count; i++)
            list[i] = w->list[i];
        free(w->list);
        w->list = list;
        w->room = room;
    }
    w->list[w->count++] = copy_of(word);
}

static void add_number(words *w, const char *option, int number)
{
    char text[16];
    snprintf(text, sizeof text, "%d", number);
    add(w, option);
    add(w, text);
}

/* A list that was put together, if there is anything in it. */
static void add_list(words *w, const char *option, bytes *list)
{
    if (bytes_used(list) > 0) {
        bytes_add(list, "", 1);
        add(w, option);
        add(w, bytes_first(list));
    }
    bytes_free(list);
}

/* ---- Which mpirun ---------------------------------------------------------------------------- */

static flavour ask_flavour(const char *program)
{
    char *const command[] = {(char *)program, "--version", NULL};
    char *text;
    const int code = subprocess_ask(command, &text);
    const bool open_mpi = strstr(text, "Open MPI") != NULL || strstr(text, "OpenRTE") != NULL ||
                          strstr(text, "PRRTE") != NULL;
    const bool hydra = strstr(text, "HYDRA") != NULL || strstr(text, "Intel(R) MPI") != NULL;
    free(text);
    return code != 0 ? UNKNOWN : open_mpi ? OPEN_MPI : hydra ? HYDRA : UNKNOWN;
}

/* ---- Its words ------------------------------------------------------------------------------- */

static void add_hosts(words *w, const char *option, const launch_options *l)
{
    bytes list = {0};
    char slots[16];
    for (size_t i = 0; i < l->host_count; i++) {
        snprintf(slots, sizeof slots, ":%d", l->hosts[i].slots);
        bytes_add_text(&list, i > 0 ? "," : "");
        bytes_add_text(&list, l->hosts[i].name);
        bytes_add_text(&list, slots);
    }
    add_list(w, option, &list);
}

/* Names of what goes along to ranks on other hosts: what concerns us, and where programs are found. */
static bool goes_along(const char *variable)
{
    static const char *const always[] = {
        "RUEDA_", "HOROVOD_", "PATH=", "PYTHONPATH=", "LD_LIBRARY_PATH=", "VIRTUAL_ENV="};
    for (size_t i = 0; i < sizeof always / sizeof always[0]; i++) {
        if (strncmp(variable, always[i], strlen(always[i])) == 0)
            return true;
    }
    return false;
}

static char *name_of(const char *variable)
{
    char *name = copy_of(variable);
    name[strcspn(name, "=")] = '\0';
    return name;
}

/* The job's variables become ours, and are then named. */
static words list_names(const launch_options *l)
{
    words names = {NULL, 0, 0};
    for (char *const *v = l->environment; v != NULL && *v != NULL; v++) {
        char *name = name_of(*v);
        setenv(name, strchr(*v, '=') + 1, 1);
        if (!goes_along(*v))
            add(&names, name);
        free(name);
    }
    for (char *const *v = l->forwarded; v != NULL && *v != NULL; v++)
        add(&names, *v);
    for (char **v = environ; *v != NULL; v++) {
        char *name = name_of(*v);
        if (goes_along(*v))
            add(&names, name);
        free(name);
    }
    return names;
}

static void free_words(words *w)
{
    for (size_t i = 0; i < w->count; i++)
        free(w->list[i]);
    free(w->list);
}

static void speak_open_mpi(words *w, const launch_options *l, const words *names)
{
    if (geteuid() == 0)
        add(w, "--allow-run-as-root");
    add_number(w, "-np", l->ranks);
    add(w, "-bind-to");
    add(w, "none");
    add(w, "-map-by");
    add(w, "slot");
    if (l->host_count == 0)
        add(w, "--oversubscribe"); /* more ranks than cores are allowed everywhere else, too */
    add_hosts(w, "-H", l);
    if (!l->output.plain)
        add(w, "--tag-output");
    if (l->directory != NULL) {
        add(w, "-wdir");
        add(w, l->directory);
    }
    for (size_t i = 0; i < names->count; i++) {
        add(w, "-x");
        add(w, names->list[i]);
    }
}

static void speak_hydra(words *w, const launch_options *l, const words *names)
{
    bytes list = {0};
    for (size_t i = 0; i < names->count; i++) {
        bytes_add_text(&list, i > 0 ? "," : "");
        bytes_add_text(&list, names->list[i]);
    }
    add_number(w, "-n", l->ranks);
    add_hosts(w, "-hosts", l);
    if (!l->output.plain)
        add(w, "-prepend-rank");
    if (l->directory != NULL) {
        add(w, "-wdir");
        add(w, l->directory);
    }
    add_list(w, "-genvlist", &list);
}

/* mpirun's own ssh gets the same options as ours: each kind reads them from a variable. None can be given
 * one with a blank. */
static void set_ssh_arguments(const launch_ssh *ssh)
{
    static const char *const variables[] = {"OMPI_MCA_plm_rsh_args" /* Open MPI up to 4 */,
                                            "PRTE_MCA_plm_ssh_args" /* from 5 on */,
                                            "HYDRA_LAUNCHER_EXTRA_ARGS"};
    bytes list = {0};
    char port[32];
    for (char *const *option = ssh->options; option != NULL && *option != NULL; option++) {
        bytes_add_text(&list, " -o ");
        bytes_add_text(&list, *option);
    }
    if (ssh->port > 0) {
        snprintf(port, sizeof port, " -p %d", ssh->port);
        bytes_add_text(&list, port);
    }
    if (ssh->identity != NULL) {
        bytes_add_text(&list, " -i ");
        bytes_add_text(&list, ssh->identity);
    }
    bytes_add(&list, "", 1);
    for (size_t i = 0; bytes_used(&list) > 1 && i < sizeof variables / sizeof variables[0]; i++)
        setenv(variables[i], bytes_first(&list) + 1, 1);
    bytes_free(&list);
}

static void add_arguments(words *w, const char *arguments)
{
    char *copy = copy_of(arguments == NULL ? "" : arguments), *rest = copy;
    for (char *word; (word = strsep(&rest, " ")) != NULL;) {
        if (*word != '\0')
            add(w, word);
    }
    free(copy);
}

/* Each rank's output is made into whole lines by this program, on hosts where it lies at the same place; on
 * others mpirun passes on what it gets. */
static void add_line_maker(words *w)
{
    char own[PATH_MAX] = "";
    if (readlink("/proc/self/exe", own, sizeof own - 1) <= 0)
        return;
    add(w, "sh");
    add(w, "-c");
    add(w, "[ ! -x \"$0\" ] || exec \"$0\" lines \"$@\"; exec \"$@\"");
    add(w, own);
}

/* ---- All together ---------------------------------------------------------------------------- */

static void print(const words *w)
{
    for (size_t i = 0; i < w->count; i++) {
        char *word = ssh_quote(w->list[i]);
        printf("%s%s", i > 0 ? " " : "", word);
        free(word);
    }
    putchar('\n');
}

/* Who starts us may be a rank itself: what says so must not reach the new ranks. */
static void forget_identity(void)
{
    static const char *const names[] = {"RUEDA_RANK",       "RUEDA_SIZE",       "RUEDA_LOCAL_RANK",
                                        "RUEDA_LOCAL_SIZE", "RUEDA_CROSS_RANK", "RUEDA_CROSS_SIZE",
                                        "RUEDA_JOB",        "RUEDA_MEET",       "RUEDA_KEY"};
    const bool is_rank = getenv("RUEDA_RANK") != NULL;
    for (size_t i = 0; is_rank && i < sizeof names / sizeof names[0]; i++)
        unsetenv(names[i]);
}

int mpirun_become(const mpirun_options *options)
{
    const launch_options *l = options->launch;
    const char *command = l->command_name == NULL ? "run" : l->command_name;
    const char *program = options->program == NULL ? "mpirun" : options->program;
    words w = {NULL, 0, 0};
    const flavour which = ask_flavour(program);
    if (which == UNKNOWN)
        return options_complain(
            command,
            "%s is not there, or not that of Open MPI, MPICH or Intel MPI; install "
            "one, or name it with --mpirun PROGRAM",
            program);
    forget_identity();
    set_ssh_arguments(&l->ssh);
    words names = list_names(l);
    add(&w, program);
    (which == OPEN_MPI ? speak_open_mpi : speak_hydra)(&w, l, &names);
    add_arguments(&w, options->arguments);
    add_line_maker(&w);
    for (char *const *word = l->steps[0].command; *word != NULL; word++)
        add(&w, *word);
    free_words(&names);
    if (options->dry_run) {
        print(&w);
        free_words(&w);
        return EXIT_SUCCESS;
    }
    fflush(NULL);
    execvp(program, w.list);
    fprintf(stderr, "rueda %s: cannot run %s: %s\n", command, program, strerror(errno));
    free_words(&w);
    return EXIT_NOT_FOUND;
}
