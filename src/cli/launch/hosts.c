/* hosts.c: see hosts.h. */
#include "cli/launch/hosts.h"

#include "cli/launch/address.h"
#include "cli/launch/bytes.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define NAME_MAX_BYTES 255

__attribute__((format(printf, 2, 3))) static bool complain(char why[HOSTS_WHY_MAX],
                                                           const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(why, HOSTS_WHY_MAX, format, args);
    va_end(args);
    return false;
}

/* ---- The list --------------------------------------------------------------------------------- */

void hosts_add(host_list *list, const char *name, size_t length, int slots)
{
    for (size_t i = 0; i < list->count; i++) {
        launch_host *known = &list->hosts[i];
        if (strlen(known->name) == length && strncmp(known->name, name, length) == 0) {
            known->slots += slots;
            return;
        }
    }
    launch_host *grown = bytes_new(list->count + 1, sizeof *grown);
    if (list->count > 0)
        memcpy(grown, list->hosts, list->count * sizeof *grown);
    free(list->hosts);
    list->hosts = grown;
    char *copy = bytes_new(length + 1, 1);
    memcpy(copy, name, length);
    list->hosts[list->count++] = (launch_host){copy, slots};
}

void hosts_free(host_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        free((char *)list->hosts[i].name);
    free(list->hosts);
    *list = (host_list){0};
}

int hosts_slots(const launch_host *hosts, size_t count)
{
    int64_t sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += hosts[i].slots;
    return sum < INT32_MAX ? (int)sum : INT32_MAX;
}

/* ---- Reading ---------------------------------------------------------------------------------- */

static bool parse_slots(const char *text, size_t length, int *slots)
{
    if (length == 0 || length > 5 || strspn(text, "0123456789") < length)
        return false;
    *slots = atoi(text);
    return *slots >= 1 && *slots <= HOSTS_SLOTS_MAX;
}

/* An address like fe80::1%eth0, perhaps after a user. */
static bool is_ipv6(const char *text, size_t length)
{
    char address[NAME_MAX_BYTES + 1];
    struct in6_addr number;
    const char *at = memchr(text, '@', length);
    const size_t user = at != NULL ? (size_t)(at + 1 - text) : 0;
    snprintf(address, sizeof address, "%.*s", (int)(length - user), text + user);
    address[strcspn(address, "%")] = '\0';
    return inet_pton(AF_INET6, address, &number) == 1;
}

/* Not a word that ssh would take for an option, or that no host is called. */
static bool is_name(const char *text, size_t length)
{
    if (length == 0 || length > NAME_MAX_BYTES || text[0] == '-' ||
        (memchr(text, ':', length) != NULL && !is_ipv6(text, length)))
        return false;
    for (size_t i = 0; i < length; i++) {
        const char c = text[i];
        const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        if (!letter && !(c >= '0' && c <= '9') && strchr("._-:@%", c) == NULL)
            return false;
    }
    return true;
}

/* "host", "host:4", "[fe80::1]:4", "fe80::1" (which takes no number). */
static bool parse_host(host_list *list, const char *text, size_t length, int slots)
{
    const char *name = text, *end = text + length, *colon;
    size_t name_length = length;
    if (length > 0 && text[0] == '[') {
        const char *bracket = memchr(text, ']', length);
        if (bracket == NULL || (bracket + 1 < end && bracket[1] != ':'))
            return false;
        name = text + 1;
        name_length = (size_t)(bracket - name);
        colon = bracket + 1 < end ? bracket + 1 : NULL;
    } else {
        colon = memchr(text, ':', length);
        if (colon != NULL && memchr(colon + 1, ':', (size_t)(end - colon - 1)) != NULL)
            colon = NULL; /* an IPv6 address */
        if (colon != NULL)
            name_length = (size_t)(colon - text);
    }
    if (colon != NULL && !parse_slots(colon + 1, (size_t)(end - colon - 1), &slots))
        return false;
    if (!is_name(name, name_length))
        return false;
    hosts_add(list, name, name_length, slots);
    return true;
}

bool hosts_parse(host_list *list, const char *text, char why[HOSTS_WHY_MAX])
{
    for (;;) {
        const size_t length = strcspn(text, ",");
        if (!parse_host(list, text, length, 1))
            return complain(why,
                            "\"%.*s\" is no host; write for example -H node1:4,node2:4 or "
                            "-H [fe80::1]:4, with 1 to %d slots",
                            (int)length, text, HOSTS_SLOTS_MAX);
        if (text[length] == '\0')
            return true;
        text += length + 1;
    }
}

/* One line of a host file. Several words after the host may say "slots=4" or "max_slots=4"; the
 * latter means nothing here, where ranks never exceed slots. */
static bool read_line(host_list *list, char *line)
{
    static const char blanks[] = " \t\r\n";
    char *rest, *host = strtok_r(line, blanks, &rest), *word;
    int slots = 1, unused;
    if (host == NULL)
        return true;
    while ((word = strtok_r(NULL, blanks, &rest)) != NULL) {
        const char *value = strchr(word, '=');
        const size_t length = value != NULL ? (size_t)(value - word) : 0;
        const bool is_slots = length == 5 && strncmp(word, "slots", length) == 0;
        const bool is_max = (length == 9 && strncmp(word, "max_slots", length) == 0) ||
                            (length == 9 && strncmp(word, "max-slots", length) == 0);
        if ((!is_slots && !is_max) ||
            !parse_slots(value + 1, strlen(value + 1), is_slots ? &slots : &unused))
            return false;
    }
    return parse_host(list, host, strlen(host), slots);
}

bool hosts_read(host_list *list, const char *path, char why[HOSTS_WHY_MAX])
{
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return complain(why, "cannot read the host file %s: %s", path, strerror(errno));
    char *line = NULL;
    size_t room = 0;
    int number = 0;
    bool good = true;
    while (good && getline(&line, &room, file) >= 0) {
        number++;
        line[strcspn(line, "#")] = '\0';
        good = read_line(list, line);
    }
    const bool broken = ferror(file) != 0;
    fclose(file);
    free(line);
    if (broken)
        return complain(why, "cannot read the host file %s: %s", path, strerror(EIO));
    if (!good)
        return complain(why, "%s:%d: write \"host slots=N\" or \"host:N\", with N from 1 to %d",
                        path, number, HOSTS_SLOTS_MAX);
    if (list->count == 0)
        return complain(why, "%s names no host", path);
    return true;
}

/* ---- Places ----------------------------------------------------------------------------------- */

bool hosts_is_here(const char *name)
{
    char own[NAME_MAX_BYTES + 1] = "";
    if (strcasecmp(name, "localhost") == 0 || address_is_ours(name))
        return true;
    if (gethostname(own, sizeof own - 1) != 0)
        return false;
    if (strcasecmp(name, own) == 0)
        return true;
    own[strcspn(own, ".")] = '\0'; /* the short form of a full name */
    return own[0] != '\0' && strcasecmp(name, own) == 0;
}

/* The hosts with their slots as counts. */
static host_share *list_hosts(const launch_options *options, size_t *count)
{
    host_share *shares = bytes_new(options->host_count + 1, sizeof *shares);
    *count = 0;
    if (options->host_count == 0)
        shares[(*count)++] = (host_share){"localhost", !options->ssh.always, 0, HOSTS_SLOTS_MAX};
    for (size_t i = 0; i < options->host_count; i++) {
        const launch_host *host = &options->hosts[i];
        const bool is_here = !options->ssh.always && hosts_is_here(host->name);
        shares[(*count)++] = (host_share){host->name, is_here, 0, host->slots};
    }
    return shares;
}

host_share *hosts_share_out(const launch_options *options, size_t *count)
{
    host_share *shares = list_hosts(options, count);
    size_t used = 0;
    int next = 0;
    for (size_t i = 0; i < *count && next < options->ranks; i++) {
        const int left = options->ranks - next;
        host_share share = shares[i];
        share.first = next;
        share.count = share.count < left ? share.count : left;
        next += share.count;
        if (share.count > 0)
            shares[used++] = share;
    }
    *count = used;
    return shares;
}

void hosts_cross(const host_share *shares, size_t count, size_t at, int local_rank, int *cross_rank,
                 int *cross_size)
{
    *cross_rank = *cross_size = 0;
    for (size_t i = 0; i < count; i++) {
        if (shares[i].count <= local_rank)
            continue;
        *cross_rank += i < at;
        (*cross_size)++;
    }
}
