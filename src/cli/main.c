/* main.c: the `rueda` program: finds the command and hands over. */
#include "base/text.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "rueda.h"

#include <stdio.h>
#include <string.h>

#define TEXT_OF_(x) #x
#define TEXT_OF(x) TEXT_OF_(x)
#define VERSION_TEXT                                                                               \
    TEXT_OF(RUEDA_VERSION_MAJOR) "." TEXT_OF(RUEDA_VERSION_MINOR) "." TEXT_OF(RUEDA_VERSION_PATCH)

typedef struct command {
    const char *name, *help; /* without help: for other commands, not for typing */
    int (*function)(int argc, char **argv);
} command;

static const command commands[] = {
    {"run", "start the ranks of a job, here or on many hosts", run_command},
    {"submit", "hand a job file to Slurm, Kubernetes or Azure ML", submit_command},
    {"bench", "measure a collective, alone or against another engine", bench_command},
    {"plan", "print a collective's plan, or prove it", plan_command},
    {"sim", "let jobs live and fail in a simulated world", sim_command},
    {"timeline", "check timelines, add them up, put several into one", timeline_command},
    {"doctor", "what is here, what is missing, what that costs; all settings", doctor_command},
    {"version", "print the version", version_command},
    {"agent", NULL, agent_command}, /* these four for rueda run and submit */
    {"lines", NULL, lines_command},
    {"part", NULL, part_command},
    {"environment", NULL, environment_command},
};
static const size_t command_count = sizeof commands / sizeof commands[0];

int version_command(int argc, char **argv)
{
    const command_line line = {.usage = "rueda version", .about = "Prints the version."};
    int next;
    const options_result parsed = options_parse(&line, argc, argv, &next);
    if (parsed != OPTIONS_GO)
        return options_exit_code(parsed);
    if (next != argc)
        return options_complain("version", "takes no arguments; write: rueda version");
    puts("rueda " VERSION_TEXT);
    return 0;
}

static void print_help(FILE *to)
{
    fputs("usage: rueda COMMAND [options]\n\n", to);
    for (size_t i = 0; i < command_count; i++) {
        if (commands[i].help != NULL)
            fprintf(to, "  %-9s %s\n", commands[i].name, commands[i].help);
    }
    fputs("\nrueda COMMAND --help tells more.\n", to);
}

static int complain_unknown(const char *name)
{
    text_nearest nearest = text_nearest_to(name);
    for (size_t i = 0; i < command_count; i++) {
        if (commands[i].help != NULL)
            text_nearest_offer(&nearest, commands[i].name);
    }
    if (nearest.best != NULL)
        fprintf(stderr, "rueda: unknown command %s; did you mean rueda %s?\n", name, nearest.best);
    else
        fprintf(stderr, "rueda: unknown command %s; see rueda --help\n", name);
    return EXIT_USAGE;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        print_help(stderr);
        return EXIT_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0) {
        print_help(stdout);
        return 0;
    }
    if (strcmp(argv[1], "--version") == 0)
        return version_command(1, argv + 1);
    for (size_t i = 0; i < command_count; i++) {
        if (strcmp(argv[1], commands[i].name) == 0 && commands[i].function != NULL)
            return commands[i].function(argc - 1, argv + 1);
    }
    return complain_unknown(argv[1]);
}
