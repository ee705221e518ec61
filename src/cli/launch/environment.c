/* environment.c: see environment.h. */
#include "cli/launch/environment.h"

#include "cli/launch/bytes.h"

#include <string.h>
#include <unistd.h>

static const char *const prefixes[] = {"RUEDA_", "HOROVOD_", "OMP_"};
static const char *const names[] = {"PATH", "PYTHONPATH", "LD_LIBRARY_PATH"};

static size_t count_of(char *const *list)
{
    size_t count = 0;
    while (list != NULL && list[count] != NULL)
        count++;
    return count;
}

static bool is_called(const char *variable, const char *name)
{
    const size_t length = strlen(name);
    return strncmp(variable, name, length) == 0 && variable[length] == '=';
}

static bool always_goes(const char *variable)
{
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++) {
        if (strncmp(variable, prefixes[i], strlen(prefixes[i])) == 0)
            return true;
    }
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (is_called(variable, names[i]))
            return true;
    }
    return false;
}

static bool is_wanted(const char *variable, char *const *forwarded)
{
    for (; forwarded != NULL && *forwarded != NULL; forwarded++) {
        if (is_called(variable, *forwarded))
            return true;
    }
    return false;
}

char **environment_for(const launch_options *options, bool here, const char *own_host)
{
    const size_t own = here ? 0 : count_of(environ), set = count_of(options->environment);
    char **list = bytes_new(own + set + 3, sizeof *list);
    size_t used = 0;
    for (size_t i = 0; i < own; i++) {
        if (always_goes(environ[i]) || is_wanted(environ[i], options->forwarded))
            list[used++] = environ[i];
    }
    if (own_host != NULL)
        list[used++] = (char *)own_host;
    for (size_t i = 0; i < set; i++)
        list[used++] = options->environment[i];
    if (options->min_ranks > 0)
        list[used++] = "RUEDA_ELASTIC=1";
    return list;
}
