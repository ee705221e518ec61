/* run_command.c: `rueda run`. */
#include "cli/commands.h"
#include "cli/job_file/job_run.h"
#include "cli/job_file/options_file.h"
#include "cli/launch/losses.h"
#include "cli/mpirun.h"
#include "cli/run_compat.h"
#include "cli/run_options.h"

#include <stdlib.h>
#include <string.h>

/* What mpirun does itself, in its own way. */
static int run_by_mpirun(const run_options *o)
{
    const launch_output *out = &o->launch.output;
    if (out->json || out->json_file != NULL || out->directory != NULL || o->launch.timeout_ms > 0)
        return options_complain("run",
                                "--json, --json-file, --output-filename and --timeout do not "
                                "go with --mpi; see --mpi-args");
    if (o->launch.min_ranks > 0)
        return options_complain("run", "--min-np does not go with --mpi: MPI cannot lose ranks; "
                                       "leave --mpi out, and they talk by shm or tcp");
    return mpirun_become(&(mpirun_options){.launch = &o->launch,
                                           .program = o->mpirun,
                                           .arguments = o->mpi_arguments,
                                           .dry_run = o->dry_run});
}

/* A real Horovod may have been built with MPI as its default, and need them without --mpi. */
static void leave_out(run_options *o, const char **value, const char *name)
{
    const char **end = o->idle;
    while (*end != NULL)
        end++;
    *end = name;
    *value = NULL;
}

static int run(run_options *o, int argc, char **argv, int next)
{
    if (o->check_build)
        return doctor_command(1, (char *[]){"doctor", NULL});
    if (o->launch.ranks == 0)
        return options_complain("run", "how many ranks? write: %s", run_usage);
    if (next == argc)
        return options_complain("run", "which command? write: %s", run_usage);
    char why[LOSSES_WHY_MAX];
    if (!losses_allowed(&o->launch, why))
        return options_complain("run", "%s", why);
    const launch_step step = {.command = argv + next};
    o->launch.steps = &step;
    o->launch.step_count = 1;
    if (!o->mpi && o->horovodrun && o->mpi_arguments != NULL)
        leave_out(o, &o->mpi_arguments, "--mpi-args");
    run_compat_warn(o);
    if (o->mpi)
        return run_by_mpirun(o);
    if (o->mpirun != NULL || o->mpi_arguments != NULL)
        return options_complain("run", "--mpirun and --mpi-args go with --mpi");
    if (o->dry_run)
        return launch_dry_run(&o->launch);
    return o->horovodrun ? run_compat_launch(o) : launch_job(&o->launch);
}

static bool is_job_file(const char *word)
{
    const char *end = strrchr(word, '.');
    return end != NULL && (strcmp(end, ".yaml") == 0 || strcmp(end, ".yml") == 0);
}

static int run_file(run_options *o, const char *path, int argc, char **argv, int next)
{
    if (next < argc)
        return options_complain("run", "a job file takes no arguments: what is %s?", argv[next]);
    if (o->mpi)
        return options_complain("run", "--mpi does not go with a job file yet; %s runs without it",
                                path);
    if (o->ranks > 0)
        return options_complain("run", "-np does not go with a job file: %s says how many workers",
                                path);
    run_compat_warn(o);
    return job_run(path, &o->launch, o->dry_run);
}

/* Options may also follow the name of a job file: it is taken out, and all are read again. */
static int run_words(run_options *o, int argc, char **argv, int next)
{
    if (next == argc || !is_job_file(argv[next]))
        return run(o, argc, argv, next);
    const char *file = argv[next];
    memmove(argv + next, argv + next + 1, (size_t)(argc - next) * sizeof *argv);
    run_options_free(o);
    const options_result parsed = run_options_parse(o, --argc, argv, &next);
    return parsed == OPTIONS_GO ? run_file(o, file, argc, argv, next) : options_exit_code(parsed);
}

/* Options of a file stand before those of the command line, so that the latter win. */
static int run_with_file(run_options *o, int argc, char **argv)
{
    options_file file;
    char **all = calloc((size_t)argc + OPTIONS_FILE_MAX + 1, sizeof *all);
    if (all == NULL)
        abort();
    int code = EXIT_USAGE, next;
    if (options_file_read(&file, o->config_file)) {
        all[0] = argv[0];
        memcpy(all + 1, file.words, file.count * sizeof *all);
        memcpy(all + 1 + file.count, argv + 1, (size_t)(argc - 1) * sizeof *all);
        run_options_free(o);
        argc += (int)file.count;
        const options_result parsed = run_options_parse(o, argc, all, &next);
        code = parsed == OPTIONS_GO ? run_words(o, argc, all, next) : options_exit_code(parsed);
    }
    options_file_free(&file);
    free(all);
    return code;
}

int run_command(int argc, char **argv)
{
    run_options o;
    int next;
    const options_result parsed = run_options_parse(&o, argc, argv, &next);
    int code = options_exit_code(parsed);
    if (parsed == OPTIONS_GO)
        code =
            o.config_file != NULL ? run_with_file(&o, argc, argv) : run_words(&o, argc, argv, next);
    run_options_free(&o);
    return code;
}
