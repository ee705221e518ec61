/* doctor_command.c: `rueda doctor`. */
#include "cli/commands.h"
#include "cli/doctor.h"
#include "cli/options.h"

static const char about[] =
    "Tells what this machine has, what is missing, and what that costs. With --config: every setting,\n"
    "its value now, default, bounds and meaning.";

int doctor_command(int argc, char **argv)
{
    bool config = false, markdown = false, json = false;
    const option options[] = {
        {"--config", NULL, "print the settings", OPTION_FLAG, &config, 0, 0},
        {"--markdown", NULL, "with --config: as the page docs/configuration.md", OPTION_FLAG,
         &markdown, 0, 0},
        {"--json", NULL, "one JSON object a line", OPTION_FLAG, &json, 0, 0},
    };
    const command_line line = {.usage = "rueda doctor [--config [--markdown]] [--json]",
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
    if (!config)
        return doctor_check(json);
    return doctor_config(markdown ? DOCTOR_MARKDOWN : json ? DOCTOR_JSON : DOCTOR_TEXT);
}
