/* run_options.c: see run_options.h. */
#include "cli/run_options.h"

#include "cli/launch/bytes.h"
#include "cli/launch/meet.h"
#include "cli/run_compat.h"
#include "plan/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECONDS_MAX 31536000 /* a year */
#define SILENCE_MIN 2

const char run_usage[] = "rueda run -np N [options] COMMAND [ARGUMENTS...]";

static const char about[] =
    "Starts N processes of COMMAND, the ranks 0 to N-1 of one job, here or on the hosts of -H, and\n"
    "passes their output on with the rank before every line. The first rank that fails ends the\n"
    "others, unless --min-np says how many are enough to go on; its exit code is passed on, its last\n"
    "lines and its fate end stderr. Ctrl-C and TERM end all ranks. Rank 0 gets the standard input if\n"
    "it runs here. Options after COMMAND belong to it; -- ends ours. horovodrun's options of the same\n"
    "meaning are understood too.\n\n"
    "With the name of a job file, rueda run [options] JOB.yaml, the file says what runs on how many\n"
    "workers (docs/job-files.md); hosts of the command line then replace the file's.";

/* ---- Parsing ---------------------------------------------------------------------------------- */

static options_result parse(run_options *o, int argc, char **argv, int *next)
{
    launch_options *l = &o->launch;
    launch_output *out = &l->output;
    option compatible[RUN_COMPAT_MAX];
    const option options[] = {
        {"-np", "N", "number of ranks, also as -n (with -H: all slots)", OPTION_NUMBER, &o->ranks,
         1, PLAN_MAX_RANKS},
        {"--min-np", "N", "an elastic job: go on while at least N ranks are left", OPTION_NUMBER,
         &o->min_ranks, 1, PLAN_MAX_RANKS},
        {"-H", "A:4,B:4", "hosts and their slots, filled in order; [fe80::1]:4 for IPv6",
         OPTION_TEXT, &o->hosts_text, 0, 0},
        {"--hostfile", "FILE", "the same from a file, lines \"host slots=4\"", OPTION_TEXT,
         &o->host_file, 0, 0},
        {"--timeout", "SECONDS", "end the job after this time, with exit code 124", OPTION_MS,
         &l->timeout_ms, 1, SECONDS_MAX * INT64_C(1000)},
        {"--start-timeout", "SECONDS", "for all hosts to answer and start (30)", OPTION_NUMBER,
         &l->start_timeout_s, 1, SECONDS_MAX},
        {"--host-timeout", "SECONDS", "a host that is silent so long is lost (60)", OPTION_NUMBER,
         &l->silence_s, SILENCE_MIN, SECONDS_MAX},
        {"--farewell", "SECONDS", "after a failure the others may end by themselves (1)",
         OPTION_NUMBER, &l->farewell_s, 1, SECONDS_MAX},
        {"-x", "NAME[=VALUE]", "pass a variable to all ranks; again for more", OPTION_LIST,
         o->variables, 0, 0},
        {"--directory", "DIR", "where the ranks run (here)", OPTION_TEXT, &l->directory, 0, 0},
        {"--bind", "HOW", "ranks to processors: auto, none, core or socket (auto)", OPTION_TEXT,
         &o->bind, 0, 0},
        {"--no-prefix", NULL, "pass output on as it is", OPTION_FLAG, &out->plain, 0, 0},
        {"--prefix-timestamp", NULL, "the time before every line", OPTION_FLAG, &out->timestamp, 0,
         0},
        {"--output-filename", "DIR", "output to DIR/rank.N/stdout and stderr", OPTION_TEXT,
         &out->directory, 0, 0},
        {"--json", NULL, "what happens, and the output, as JSON lines on stdout", OPTION_FLAG,
         &out->json, 0, 0},
        {"--json-file", "FILE", "what happens as JSON lines to a file", OPTION_TEXT,
         &out->json_file, 0, 0},
        {"--with-parent", NULL, "end the job with the process that has started this one",
         OPTION_FLAG, &l->with_parent, 0, 0},
        {"--input", "FILE", "what every rank reads from its standard input", OPTION_TEXT, &l->input,
         0, 0},
        {"--results", "FILE", "what ranks write to the descriptor $RUEDA_RESULTS_FD, by rank",
         OPTION_TEXT, &out->results, 0, 0},
        {"--dry-run", NULL, "show hosts, ranks and commands, and start nothing", OPTION_FLAG,
         &o->dry_run, 0, 0},
        {"--timeline", "FILE", "write a timeline, see docs/timeline.md", OPTION_TEXT, &o->timeline,
         0, 0},
        {"--verbose", NULL, "tell what the launcher does", OPTION_FLAG, &out->verbose, 0, 0},
        {"--nics", "NAMES", "interfaces where rank 0's host is met by the others", OPTION_TEXT,
         &l->interfaces, 0, 0},
        {"--meet", "HOST[:PORT]", "the same, said outright", OPTION_TEXT, &l->meet, 0, 0},
        {"-p", "PORT", "port of ssh", OPTION_NUMBER, &o->ssh_port, 1, UINT16_MAX},
        {"-i", "FILE", "identity file of ssh", OPTION_TEXT, &l->ssh.identity, 0, 0},
        {"--ssh-option", "NAME=VALUE", "passed to ssh as -o; again for more", OPTION_LIST,
         o->ssh_options, 0, 0},
        {"--mpi", NULL, "let mpirun start the ranks (docs/start/mpirun.md)", OPTION_FLAG, &o->mpi,
         0, 0},
        {"--mpirun", "PROGRAM", "with --mpi: this one (mpirun)", OPTION_TEXT, &o->mpirun, 0, 0},
        {"--mpi-args", "WORDS", "with --mpi: more options for it", OPTION_TEXT, &o->mpi_arguments,
         0, 0},
        {"--ssh-always", NULL, "ssh also to this machine", OPTION_FLAG, &l->ssh.always, 0, 0},
        {"--remote-program", "PATH", "rueda on the other hosts (the same path, or by PATH)",
         OPTION_TEXT, &l->ssh.program, 0, 0},
    };
    const command_line line = {.usage = run_usage,
                               .about = about,
                               .options = options,
                               .option_count = sizeof options / sizeof options[0],
                               .hidden = compatible,
                               .hidden_count = run_compat_options(o, compatible)};
    return options_parse(&line, argc, argv, next);
}

/* ---- What the words mean ---------------------------------------------------------------------- */

static bool complain(const char *text)
{
    options_complain("run", "%s", text);
    return false;
}

static bool take_hosts(run_options *o)
{
    char why[HOSTS_WHY_MAX];
    if (o->hosts_text != NULL && o->host_file != NULL)
        return complain("hosts come from -H or from --hostfile, not from both");
    if (o->hosts_text != NULL && !hosts_parse(&o->hosts, o->hosts_text, why))
        return complain(why);
    if (o->host_file != NULL && !hosts_read(&o->hosts, o->host_file, why))
        return complain(why);
    o->launch.hosts = o->hosts.hosts;
    o->launch.host_count = o->hosts.count;
    const int slots = hosts_slots(o->hosts.hosts, o->hosts.count);
    const int64_t ranks = o->hosts.count > 0 && o->ranks == 0 ? slots : o->ranks;
    if (o->hosts.count > 0 && ranks > slots) {
        options_complain("run",
                         "-np %lld is more than the %d slots of the hosts: name more, or "
                         "give them more slots",
                         (long long)ranks, slots);
        return false;
    }
    if (ranks > PLAN_MAX_RANKS) {
        options_complain("run", "%lld ranks are too many; at most %d", (long long)ranks,
                         PLAN_MAX_RANKS);
        return false;
    }
    o->launch.ranks = (int)ranks;
    o->launch.min_ranks = (int)o->min_ranks;
    return true;
}

static bool take_bind(run_options *o)
{
    static const char *const names[] = {[LAUNCH_BIND_AUTO] = "auto",
                                        [LAUNCH_BIND_NONE] = "none",
                                        [LAUNCH_BIND_CORE] = "core",
                                        [LAUNCH_BIND_SOCKET] = "socket"};
    for (size_t i = 0; o->bind != NULL && i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(o->bind, names[i]) == 0) {
            o->launch.bind = (launch_bind)i;
            return true;
        }
    }
    return o->bind == NULL || complain("--bind is auto, none, core or socket");
}

/* "NAME=VALUE" is set, "NAME" is taken along as it is here. */
static bool take_variables(run_options *o, int argc)
{
    o->environment = bytes_new((size_t)argc + RUN_VARIABLES_MAX, sizeof *o->environment);
    o->forwarded = bytes_new((size_t)argc, sizeof *o->forwarded);
    o->launch.environment = o->environment;
    o->launch.forwarded = o->forwarded;
    size_t set = o->own_variables = run_compat_variables(o, o->environment), forwarded = 0;
    for (const char **v = o->variables; *v != NULL; v++) {
        if (strchr(*v, '=') != NULL && **v != '=') {
            o->environment[set++] = (char *)*v;
        } else if (getenv(*v) != NULL) {
            o->forwarded[forwarded++] = (char *)*v;
        } else {
            options_complain("run", "-x %s: there is no such variable here; write -x NAME=VALUE",
                             *v);
            return false;
        }
    }
    return true;
}

static bool take_meeting(const run_options *o)
{
    char host[MEET_MAX];
    int port;
    return o->launch.meet == NULL || meet_parse(o->launch.meet, host, sizeof host, &port) ||
           complain("--meet is HOST, HOST:PORT or [IPv6]:PORT");
}

static bool take_ssh(run_options *o)
{
    o->launch.ssh.port = (int)o->ssh_port;
    o->launch.ssh.options = (char *const *)o->ssh_options;
    for (const char **option = o->ssh_options; *option != NULL; option++) {
        if (strchr(*option, '=') == NULL)
            return complain("--ssh-option is NAME=VALUE, as after ssh -o");
    }
    return true;
}

options_result run_options_parse(run_options *o, int argc, char **argv, int *next)
{
    *o = (run_options){0};
    o->variables = bytes_new((size_t)argc, sizeof *o->variables);
    o->ssh_options = bytes_new((size_t)argc, sizeof *o->ssh_options);
    o->idle = bytes_new((size_t)argc + 1, sizeof *o->idle);
    const options_result parsed = parse(o, argc, argv, next);
    if (parsed != OPTIONS_GO)
        return parsed;
    const bool good =
        take_hosts(o) && take_bind(o) && take_variables(o, argc) && take_meeting(o) && take_ssh(o);
    return good ? OPTIONS_GO : OPTIONS_BAD;
}

void run_options_free(run_options *o)
{
    for (size_t i = 0; i < o->own_variables; i++)
        free(o->environment[i]);
    free(o->environment);
    free(o->forwarded);
    free(o->variables);
    free(o->ssh_options);
    free(o->idle);
    hosts_free(&o->hosts);
}
