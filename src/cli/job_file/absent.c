/* absent.c: what the program says of job files where it was built without libyaml. */
#include "cli/commands.h"
#include "cli/job_file/job_run.h"
#include "cli/job_file/options_file.h"
#include "cli/options.h"

static int complain(const char *what)
{
    return options_complain("run",
                            "%s: this program was built without libyaml, so it reads no "
                            "YAML",
                            what);
}

int job_run(const char *path, const launch_options *base, bool dry)
{
    (void)base;
    (void)dry;
    return complain(path);
}

int submit_command(int argc, char **argv)
{
    return environment_command(argc, argv);
}

int environment_command(int argc, char **argv)
{
    (void)argc;
    return complain(argv[0]);
}

bool options_file_read(options_file *file, const char *path)
{
    file->count = 0;
    complain(path);
    return false;
}

void options_file_free(options_file *file)
{
    (void)file;
}
