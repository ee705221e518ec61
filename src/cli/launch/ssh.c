/* ssh.c: see ssh.h. */
#include "cli/launch/ssh.h"

#include "cli/launch/bytes.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WORDS_FIXED 16

/* A growing list of words, each in memory of its own. */
typedef struct words {
    char **list;
    size_t count;
} words;

__attribute__((format(printf, 2, 3))) static void add(words *w, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    if (vasprintf(&w->list[w->count], format, args) < 0)
        w->list[w->count] = bytes_new(1, 1);
    va_end(args);
    w->count++;
}

static bool is_plain(const char *word)
{
    return *word != '\0' && word[strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                              "0123456789_@%+=:,./-")] == '\0';
}

char *ssh_quote(const char *word)
{
    bytes text = {0};
    const bool quotes = !is_plain(word);
    if (quotes)
        bytes_add(&text, "'", 1);
    for (; *word != '\0'; word++) {
        if (*word == '\'')
            bytes_add_text(&text, "'\\''");
        else
            bytes_add(&text, word, 1);
    }
    if (quotes)
        bytes_add(&text, "'", 1);
    bytes_add(&text, "", 1);
    return bytes_first(&text);
}

/* What the host's login shell, whichever it is, gets: the same program as here, or the one in PATH. */
static char *remote_script(const char *given)
{
    char own[PATH_MAX] = "";
    const ssize_t length = readlink("/proc/self/exe", own, sizeof own - 1);
    own[length > 0 ? length : 0] = '\0';
    char *program = ssh_quote(given != NULL ? given : own), *script = NULL, *word = NULL;
    if (asprintf(
            &script,
            "p=%s; command -v \"$p\" >/dev/null || p=rueda; command -v \"$p\" >/dev/null || { "
            "echo no rueda there, neither as %s nor in PATH: install it, or give its path with "
            "--remote-program >&2; exit 127; }; exec \"$p\" agent",
            program, program) >= 0)
        word = ssh_quote(script);
    free(program);
    free(script);
    return word;
}

char **ssh_command(const launch_ssh *ssh, const char *host, int64_t connect_s)
{
    size_t options = 0;
    while (ssh->options != NULL && ssh->options[options] != NULL)
        options++;
    words w = {.list = bytes_new(2 * options + WORDS_FIXED, sizeof(char *))};
    add(&w, "ssh");
    for (size_t i = 0; i < options; i++) { /* ssh takes the first of each name: the user's */
        add(&w, "-o");
        add(&w, "%s", ssh->options[i]);
    }
    add(&w, "-Tx");
    add(&w, "-oBatchMode=yes"); /* nobody is there to type a password */
    add(&w, "-oConnectTimeout=%lld", (long long)connect_s);
    if (ssh->port > 0)
        add(&w, "-p%d", ssh->port);
    if (ssh->identity != NULL)
        add(&w, "-i%s", ssh->identity);
    add(&w, "%s", host);
    char *script = remote_script(ssh->program);
    add(&w, "exec sh -c %s", script != NULL ? script : "");
    free(script);
    return w.list;
}

void ssh_command_free(char **command)
{
    for (char **word = command; *word != NULL; word++)
        free(*word);
    free(command);
}
