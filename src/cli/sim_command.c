/* sim_command.c: `rueda sim`: a program of its own, since it holds the library compiled for another world. It lies
 * beside ours. */
#include "cli/commands.h"
#include "cli/launch/child.h"
#include "cli/options.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

int sim_command(int argc, char **argv)
{
    char path[PATH_MAX];
    (void)argc;
    if (!child_beside("rueda-sim", path))
        return options_complain("sim", "cannot find this program: %s", strerror(errno));
    execv(path, argv);
    return options_complain("sim",
                            "cannot start %s: %s; it is built from the source tree (make build)",
                            path, strerror(errno));
}
