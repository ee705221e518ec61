/* doctor_command.c: `rueda doctor`. */
#include "cli/commands.h"
#include "cli/doctor.h"
#include "cli/options.h"

static const char about[] =
    "Tells what this machine has, what is missing, and what that costs. With --config: every setting,\n"
    "its value now, default, bounds and meaning.";

int doctor_command(int argc, char **argv)
{
    bool config = false, markdown = false, json = false, build_mpi = false;
    const char *mpicc = NULL;
    const option options[] = {
        {"--config", NULL, "print the settings", OPTION_FLAG, &config, 0, 0},
        {"--markdown", NULL, "with --config: as the page docs/configuration.md", OPTION_FLAG,
         &markdown, 0, 0},
        {"--build-mpi", NULL, "make the plug-in for this machine's MPI", OPTION_FLAG, &build_mpi, 0,
         0},
        {"--mpicc", "PROGRAM", "with --build-mpi: the MPI's compiler (mpicc)", OPTION_TEXT, &mpicc,
         0, 0},
        {"--json", NULL, "one JSON object a line", OPTION_FLAG, &json, 0, 0},
    };
    const command_line line = {.usage =
                                   "rueda doctor [--config [--markdown]] [--build-mpi] [--json]",
                               .about = about,
                               .options = options,
                               .option_count = sizeof options / sizeof options[0]};
    int next;
    const options_result parsed = options_parse(&line, argc, argv, &next);
    if (parsed != OPTIONS_GO)
        return options_exit_code(parsed);
    if (next != argc)
        return options_complain("doctor", "takes no arguments; write: %s", line.usage);
    if (markdown && (json || !config))
        return options_complain("doctor", "--markdown goes with --config alone");
    if (mpicc != NULL && !build_mpi)
        return options_complain("doctor", "--mpicc goes with --build-mpi");
    if (build_mpi && (config || json))
        return options_complain("doctor", "--build-mpi stands alone, or with --mpicc");
    if (build_mpi)
        return doctor_build_mpi(mpicc == NULL ? "mpicc" : mpicc);
    if (!config)
        return doctor_check(json);
    return doctor_config(markdown ? DOCTOR_MARKDOWN : json ? DOCTOR_JSON : DOCTOR_TEXT);
}
