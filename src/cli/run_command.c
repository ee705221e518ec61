/* run_command.c: `rueda run`. */
#include "cli/commands.h"
#include "cli/run_options.h"

static int run(run_options *o, int argc, char **argv, int next)
{
    if (o->check_build)
        return doctor_command(1, (char *[]){"doctor", NULL});
    if (o->launch.ranks == 0)
        return options_complain("run", "how many ranks? write: %s", run_usage);
    if (next == argc)
        return options_complain("run", "which command? write: %s", run_usage);
    const launch_step step = {.command = argv + next};
    o->launch.steps = &step;
    o->launch.step_count = 1;
    return o->dry_run ? launch_dry_run(&o->launch) : launch_job(&o->launch);
}

int run_command(int argc, char **argv)
{
    run_options o;
    int next;
    const options_result parsed = run_options_parse(&o, argc, argv, &next);
    const int code =
        parsed == OPTIONS_GO ? run(&o, argc, argv, next) : options_exit_code(parsed);
    run_options_free(&o);
    return code;
}
