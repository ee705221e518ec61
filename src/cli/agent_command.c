/* agent_command.c: `rueda agent`, which `rueda run` starts on other hosts over ssh. */
#include "cli/commands.h"
#include "cli/launch/agent.h"
#include "cli/launch/loop.h"
#include "cli/options.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

/* Out of the way of what ranks get as their standard descriptors. */
static int move_away(int fd)
{
    const int moved = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    const int null = open("/dev/null", O_RDWR);
    if (moved < 0 || null < 0 || dup2(null, fd) < 0)
        exit(EXIT_FAILURE);
    close(null);
    return moved;
}

int agent_command(int argc, char **argv)
{
    const command_line line = {.usage = "rueda agent",
                               .about = "Started by rueda run on every other host; runs the ranks "
                                        "there.\nNot for typing."};
    int next;
    const options_result parsed = options_parse(&line, argc, argv, &next);
    if (parsed != OPTIONS_GO)
        return options_exit_code(parsed);
    if (next != argc || isatty(STDIN_FILENO))
        return options_complain("agent", "is started by rueda run on other hosts; write: rueda run "
                                         "-H host1:4,host2:4 COMMAND");
    agent_options options = {.in = move_away(STDIN_FILENO),
                             .out = move_away(STDOUT_FILENO),
                             .files = loop_raise_files()};
    sigprocmask(SIG_SETMASK, NULL, &options.mask);
    return agent_run(&options);
}
