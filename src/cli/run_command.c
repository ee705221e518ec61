/* run_command.c: `rueda run`. */
#include "cli/commands.h"
#include "cli/launcher.h"
#include "cli/options.h"
#include "plan/plan.h"

#include <stdlib.h>

#define TIMEOUT_MAX_S 31536000 /* a year */

static const char about[] =
    "Starts N processes of COMMAND on this machine, the ranks 0 to N-1 of one job, and passes their\n"
    "output on with the rank before every line. The first rank that fails ends the others; its exit\n"
    "code is passed on and its fate is the last line on stderr. Ctrl-C and TERM end all ranks.\n"
    "Rank 0 gets the standard input. Options after COMMAND belong to it; -- ends ours.";

int run_command(int argc, char **argv)
{
    int64_t ranks = 0, timeout_s = 0;
    const char *timeline = NULL;
    bool no_prefix = false;
    const option options[] = {
        {"-np", "N", "number of ranks", OPTION_NUMBER, &ranks, 1, PLAN_MAX_RANKS},
        {"--timeout", "SECONDS", "end the job after this time, with exit code 124", OPTION_NUMBER,
         &timeout_s, 1, TIMEOUT_MAX_S},
        {"--timeline", "FILE", "write a timeline, see docs/timeline.md", OPTION_TEXT, &timeline, 0,
         0},
        {"--no-prefix", NULL, "pass output on as it is", OPTION_FLAG, &no_prefix, 0, 0},
    };
    const command_line line = {.usage = "rueda run -np N [options] COMMAND [ARGUMENTS...]",
                               .about = about,
                               .options = options,
                               .option_count = sizeof options / sizeof options[0]};
    int next;
    const options_result parsed = options_parse(&line, argc, argv, &next);
    if (parsed != OPTIONS_GO)
        return options_exit_code(parsed);
    if (ranks == 0)
        return options_complain("run", "how many ranks? write: %s", line.usage);
    if (next == argc)
        return options_complain("run", "which command? write: %s", line.usage);
    if (timeline != NULL)
        setenv("RUEDA_TIMELINE", timeline, true);
    return launch_job(&(launch_options){
        .ranks = (int)ranks, .prefix = !no_prefix, .timeout_s = timeout_s, .command = argv + next});
}
