/* commands.h: the commands of the `rueda` program. Each gets its own name as argv[0] and returns the
 * exit code: 0, 1 for a failure, 2 for bad usage. */
#ifndef RUEDA_CLI_COMMANDS_H
#define RUEDA_CLI_COMMANDS_H

int run_command(int argc, char **argv);
int agent_command(int argc, char **argv);
int lines_command(int argc, char **argv);
int environment_command(int argc, char **argv);
int submit_command(int argc, char **argv);
int part_command(int argc, char **argv);
int bench_command(int argc, char **argv) __attribute__((weak));
int plan_command(int argc, char **argv) __attribute__((weak));
int sim_command(int argc, char **argv);
int timeline_command(int argc, char **argv);
int doctor_command(int argc, char **argv);
int version_command(int argc, char **argv);

#endif
