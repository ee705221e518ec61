/* find.c: what a rank needs before the meeting: the job's key, a door of its own, and the way to
 * rank 0. */
#include "boot/boot.h"
#include "boot/handover.h"
#include "world/sockets.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MEET_PORTS 16 /* rank 0 takes the next where somebody else has the first, up to so many */

/* What rank 0 hands to the ranks of its host where nothing else says where to meet. */
typedef struct invitation {
    net_address where;
    uint8_t key[NET_KEY_BYTES];
} invitation;

_Static_assert(sizeof(invitation) <= HANDOVER_BYTES, "an invitation is handed over in one piece");

/* ---- The key --------------------------------------------------------------------------------- */

static rueda_status find_key(const config *settings, const boot_identity *who, net_identity *me)
{
    if (settings->key.text[0] != '\0') {
        const char *wrong = net_key_parse(settings->key.text, me->key);
        return wrong == NULL
                   ? RUEDA_OK
                   : status_fail(RUEDA_ERR_CONFIG, "rank %d: RUEDA_KEY cannot be used: %s",
                                 who->rank, wrong);
    }
    if (settings->key_file.text[0] != '\0')
        return net_key_read(settings->key_file.text, me->key);
    if (settings->insecure || settings->meet.text[0] == '\0' || meet_file_brings_key(settings))
        return RUEDA_OK; /* on one host the invitation brings it, else the file */
    return status_fail(RUEDA_ERR_CONFIG,
                       "rank %d: several hosts need a secret: start with `rueda run`, or give all "
                       "ranks the same RUEDA_KEY_FILE (mode 600), or let them meet by a file "
                       "(RUEDA_MEET=file:PATH), or say RUEDA_INSECURE=1",
                       who->rank);
}

/* ---- The door -------------------------------------------------------------------------------- */

static rueda_status parse_ports(const config *settings, uint16_t *first, uint16_t *last)
{
    const char *text = settings->ports.text;
    unsigned from = 0, to = 0;
    char rest;
    *first = *last = 0;
    if (text[0] == '\0')
        return RUEDA_OK;
    const int found = sscanf(text, "%u-%u%c", &from, &to, &rest);
    if (found == 1 && strchr(text, '-') == NULL)
        to = from;
    else if (found != 2)
        from = 0;
    if (from == 0 || to < from || to > 65535)
        return status_fail(RUEDA_ERR_CONFIG,
                           "RUEDA_PORTS=%s is not FIRST-LAST, such as 30000-30100", text);
    *first = (uint16_t)from;
    *last = (uint16_t)to;
    return RUEDA_OK;
}

/* Rank 0 listens where the others were told to look. They look further only where somebody else answers
 * there: that the port is in use at another address of this host must not make it move on. */
static rueda_status listen_as_told(const net_address *told, const logger *log,
                                   const boot_meeting *m, int *listener, uint16_t *port)
{
    const uint16_t first = told->port,
                   last = (uint16_t)(first > 65535 - MEET_PORTS ? 65535 : first + MEET_PORTS - 1);
    const net_address *where = m->own.family == 0 ? NULL : &m->own;
    rueda_status status = net_listen(where, first, first, listener, port);
    if (status != RUEDA_OK && where == NULL)
        status = net_listen(told, first, first, listener, port);
    if (status != RUEDA_OK)
        status = net_listen(where, first, last, listener, port);
    if (status == RUEDA_OK && *port != first)
        log_line(log, LOG_WARN, "port %u, where the ranks were to meet, is in use: they meet at %u",
                 first, *port);
    return status;
}

/* Rank 0 listens where the others were told to look, everybody else anywhere. */
static rueda_status open_door(const config *settings, const boot_identity *who,
                              const net_address *told, const logger *log, boot_meeting *m,
                              uint16_t *port)
{
    uint16_t first, last;
    int listener;
    rueda_status status = parse_ports(settings, &first, &last);
    if (status == RUEDA_OK && settings->interface.text[0] != '\0')
        status = net_interface(settings->interface.text, &m->own);
    if (status != RUEDA_OK)
        return status;
    if (who->rank == 0 && told->port != 0)
        status = listen_as_told(told, log, m, &listener, port);
    else
        status = net_listen(m->own.family == 0 ? NULL : &m->own, first, last, &listener, port);
    if (status != RUEDA_OK)
        return status;
    status = net_door_open(&m->identity, listener, log, &m->door);
    if (status != RUEDA_OK)
        world_close(listener);
    return status;
}

/* ---- The way to rank 0 ----------------------------------------------------------------------- */

/* One host: rank 0 tells the others, and gives them a key if there is none. */
static rueda_status invite(const config *settings, const boot_identity *who, uint16_t port,
                           const net_identity *known, const logger *log, boot_meeting *m)
{
    const handover h = {settings, {known, "meeting", 0}, m->there};
    handover_gift gift = {.bytes = sizeof(invitation)};
    invitation card = {.where = m->own};
    if (card.where.family == 0)
        card.where = (net_address){.family = 4, .ip = {127, 0, 0, 1}};
    card.where.port = port;
    memcpy(card.key, m->identity.key, sizeof card.key);
    memcpy(gift.data, &card, sizeof card);
    bool *takes = malloc((size_t)who->size * sizeof *takes);
    if (takes == NULL)
        return status_fail(RUEDA_ERR_MEMORY, "rank 0: out of memory in rueda_init");
    for (int r = 0; r < who->size; r++)
        takes[r] = r != 0;
    const rueda_status status = handover_give(&h, takes, who->size, &gift, NULL, log);
    explicit_bzero(&gift, sizeof gift);
    explicit_bzero(&card, sizeof card);
    free(takes);
    return status;
}

static rueda_status accept_invitation(const config *settings, const boot_identity *who,
                                      boot_meeting *m, net_address *where)
{
    const handover h = {settings, {&m->identity, "meeting", 0}, m->there};
    handover_gift gift = {.fd_count = 0};
    invitation card;
    const rueda_status status = handover_take(&h, who->rank, who->size, NULL, &gift);
    if (status != RUEDA_OK)
        return status;
    memcpy(&card, gift.data, sizeof card);
    memcpy(m->identity.key, card.key, sizeof card.key);
    *where = card.where;
    explicit_bzero(&gift, sizeof gift);
    explicit_bzero(&card, sizeof card);
    attendance_pass(m->there, BOOT_PHASE_INVITED);
    return RUEDA_OK;
}

static void make_key(net_identity *me)
{
    char text[2 * NET_KEY_BYTES + 1];
    net_key_make(text);
    net_key_parse(text, me->key);
}

/* ---- All together ---------------------------------------------------------------------------- */

static rueda_status find_as_first(const config *settings, const boot_identity *who,
                                  const net_address *told, const logger *log, boot_meeting *m,
                                  boot_host *host)
{
    const bool invites = settings->meet.text[0] == '\0';
    net_identity known = m->identity; /* by those who come for the key, too */
    if ((invites && settings->key.text[0] == '\0' && settings->key_file.text[0] == '\0') ||
        meet_file_brings_key(settings))
        make_key(&m->identity);
    rueda_status status = open_door(settings, who, told, log, m, &host->port);
    if (status == RUEDA_OK && meet_file_of(settings) != NULL)
        status = meet_file_write(settings, host->port, m);
    if (status == RUEDA_OK && invites) {
        status = invite(settings, who, host->port, &known, log, m);
        attendance_pass(m->there, BOOT_PHASE_INVITED);
    }
    explicit_bzero(&known, sizeof known);
    /* whom the invitation did not reach the meeting will miss, too, and tell those who came */
    return status == RUEDA_ERR_TIMEOUT ? RUEDA_OK : status;
}

static rueda_status find_as_other(const config *settings, const boot_identity *who,
                                  uint64_t deadline_ns, net_address *where, const logger *log,
                                  boot_meeting *m, boot_host *host)
{
    rueda_status status = RUEDA_OK;
    if (settings->meet.text[0] == '\0')
        status = accept_invitation(settings, who, m, where);
    else if (meet_file_of(settings) != NULL)
        status = meet_file_await(settings, m->there, &m->identity, deadline_ns, where);
    else
        host->ports = MEET_PORTS;
    return status == RUEDA_OK ? open_door(settings, who, where, log, m, &host->port) : status;
}

rueda_status find_identity(const config *settings, const boot_identity *who, uint64_t generation,
                           net_identity *me)
{
    *me = (net_identity){
        .generation = generation, .rank = (uint32_t)who->rank, .encrypt = settings->encrypt != 0};
    snprintf(me->job, sizeof me->job, "%.63s", settings->job.text);
    return find_key(settings, who, me);
}

rueda_status find_meeting(const config *settings, const boot_identity *who, uint64_t deadline_ns,
                          const logger *log, boot_meeting *m)
{
    net_address where = {0};
    boot_host host = {.where = &where, .ports = 1};
    rueda_status status = RUEDA_OK;
    if (settings->meet.text[0] != '\0' && meet_file_of(settings) == NULL) {
        status = net_resolve(settings->meet.text, 0, &where);
        if (status == RUEDA_OK && where.port == 0)
            status = status_fail(RUEDA_ERR_CONFIG, "RUEDA_MEET=%s has no port: write HOST:PORT",
                                 settings->meet.text);
    }
    if (status == RUEDA_OK)
        status = who->rank == 0 ? find_as_first(settings, who, &where, log, m, &host)
                                : find_as_other(settings, who, deadline_ns, &where, log, m, &host);
    if (status == RUEDA_OK)
        status = meeting_hold(settings, who, &host, deadline_ns, m);
    if (who->rank == 0 && meet_file_of(settings) != NULL)
        meet_file_remove(settings);
    return status;
}
