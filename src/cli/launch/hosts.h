/* hosts.h: which hosts, from -H and host files, and which ranks go where. */
#ifndef RUEDA_CLI_LAUNCH_HOSTS_H
#define RUEDA_CLI_LAUNCH_HOSTS_H

#include "cli/launcher.h"

#define HOSTS_WHY_MAX 512
#define HOSTS_SLOTS_MAX 4096 /* of one host */

/* Hosts with distinct names, in the order in which they were named first. Owns the names. */
typedef struct host_list {
    launch_host *hosts;
    size_t count;
} host_list;

/* Adds slots to a host, which may be there already. */
void hosts_add(host_list *list, const char *name, size_t length, int slots);
/* "a:4,b,[fe80::1]:2": a host without a number has one slot. False: `why` says what is wrong where. */
bool hosts_parse(host_list *list, const char *text, char why[HOSTS_WHY_MAX]);
/* Lines "host", "host:4" or "host slots=4"; # starts a comment. */
bool hosts_read(host_list *list, const char *path, char why[HOSTS_WHY_MAX]);
int hosts_slots(const launch_host *hosts, size_t count); /* in all */
void hosts_free(host_list *list);

/* Whether a host is this machine: localhost, our own name or an own address. */
bool hosts_is_here(const char *name);

/* ---- Places ---------------------------------------------------------------------------------- */

/* The ranks that a host got: first … first + count − 1. */
typedef struct host_share {
    const char *name;
    bool here; /* needs no ssh */
    int first, count;
} host_share;

/* Fills hosts in order; hosts that are left empty do not appear. Without hosts all ranks are here. In memory that the caller frees; `*count` receives the
 * number. */
host_share *hosts_share_out(const launch_options *options, size_t *count);
/* Of the ranks with this local rank: how many hosts have one, and of how many before host `at`. */
void hosts_cross(const host_share *shares, size_t count, size_t at, int local_rank, int *cross_rank,
                 int *cross_size);

#endif
