/* meeting.c: all ranks meet at rank 0, get the table of places, and link up as a tree.
 *
 * Rank 0 collects a card from everybody, checks the settings, and answers each with a verdict: either
 * why the job cannot start, the same sentence for all, or the table. Then every rank calls its parent
 * in the tree; the children of rank 0 stay on the connection they came by.
 * Invariant: nothing here blocks longer than a poll, so that a slow or hostile guest holds nobody up.
 */
#include "boot/boot.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CALL_LIMIT_NS UINT64_C(1000000000) /* a call that is not answered is tried again */
#define WELCOME_NS UINT64_C(300000000)     /* for those who were invited in the last moment */
#define PAUSE_MS 1                         /* between two looks while something is under way */
#define AGAIN_NS UINT64_C(5000000)         /* between two calls of a place that refuses */

typedef struct card {
    uint32_t rank, zero;
    char host[64], machine[64];
    os_cpus cpus;
    net_address address; /* of the rank's door; family 0: as its caller sees it */
    config settings;
} card;

typedef struct verdict {
    uint32_t status; /* rueda_status; OK: the places follow */
    uint32_t ranks;
    char text[STATUS_TEXT_MAX];
} verdict;

/* Bytes on their way through a link. */
typedef struct parcel {
    uint8_t *bytes;
    size_t size, moved;
} parcel;

/* 1: all moved, 0: later, -1: the link broke. */
static int parcel_send(parcel *p, net_link *link)
{
    const struct iovec part = {p->bytes + p->moved, p->size - p->moved};
    const ssize_t moved = p->moved < p->size ? net_link_send(link, &part, 1) : 0;
    if (moved < 0)
        return -1;
    p->moved += (size_t)moved;
    return p->moved == p->size;
}

static int parcel_receive(parcel *p, net_link *link)
{
    const ssize_t moved =
        p->moved < p->size ? net_link_receive(link, p->bytes + p->moved, p->size - p->moved) : 0;
    if (moved < 0)
        return -1;
    p->moved += (size_t)moved;
    return p->moved == p->size;
}

static void pause_for(const boot_meeting *m, net_link *const *links, int count)
{
    struct pollfd fds[2] = {{net_door_fd(m->door), POLLIN, 0}, {-1, POLLIN, 0}};
    if (count == 1 && links[0] != NULL)
        fds[1].fd = net_link_fd(links[0]);
    poll(fds, 2, PAUSE_MS);
}

static bool keep_link(boot_meeting *m, net_link *link)
{
    if (m->link_count == BOOT_LINKS)
        return false;
    m->links[m->link_count++] = link;
    return true;
}

static uint32_t child_count(const boot_identity *who)
{
    const int first = who->rank * BOOT_FANOUT + 1, end = first + BOOT_FANOUT;
    return first >= who->size ? 0 : (uint32_t)((end < who->size ? end : who->size) - first);
}

/* ---- Rank 0 ---------------------------------------------------------------------------------- */

typedef struct guest {
    net_link *link;
    card card;
    parcel in, out;
    bool has_card, answered;
} guest;

static int count_missing(const guest *guests, int size, char *list, size_t room)
{
    int missing = 0;
    size_t used = 0;
    list[0] = '\0';
    for (int r = 1; r < size; r++) {
        if (guests[r].has_card)
            continue;
        missing++;
        if (used + 16 < room)
            used += (size_t)snprintf(list + used, room - used, " %d", r);
    }
    return missing;
}

/* A second process of the same rank is turned away; one that was cut off may come again. */
static void welcome(boot_meeting *m, guest *guests, int size, net_link *link)
{
    const net_purpose *p = net_link_purpose(link);
    if (p->role != BOOT_MEET || p->from == 0 || p->from >= (uint32_t)size ||
        guests[p->from].link != NULL) {
        net_door_refuse(m->door, link);
        return;
    }
    guest *g = &guests[p->from];
    g->link = link;
    g->in = (parcel){(uint8_t *)&g->card, sizeof g->card, 0};
}

static bool is_proper(const card *c, uint32_t rank)
{
    return c->rank == rank && memchr(c->host, '\0', sizeof c->host) != NULL &&
           memchr(c->machine, '\0', sizeof c->machine) != NULL && config_is_sound(&c->settings);
}

static void read_cards(guest *guests, int size)
{
    for (int r = 1; r < size; r++) {
        guest *g = &guests[r];
        if (g->link == NULL || g->has_card)
            continue;
        const int done = parcel_receive(&g->in, g->link);
        if (done < 0 || (done == 1 && !is_proper(&g->card, (uint32_t)r))) {
            net_link_close(g->link);
            g->link = NULL;
        }
        g->has_card = done == 1 && g->link != NULL;
    }
}

static rueda_status collect_cards(const config *settings, const boot_identity *who,
                                  uint64_t deadline_ns, boot_meeting *m, guest *guests)
{
    char list[200];
    const uint64_t least_ns = os_now_ns() + WELCOME_NS;
    deadline_ns = deadline_ns > least_ns ? deadline_ns : least_ns;
    while (count_missing(guests, who->size, list, sizeof list) > 0) {
        const uint64_t now = os_now_ns();
        if (now > deadline_ns)
            return status_fail(
                RUEDA_ERR_TIMEOUT,
                "rank 0 waited %lld s in rueda_init for rank%s; see why they did not "
                "start or cannot reach it, or raise RUEDA_START_TIMEOUT",
                (long long)settings->start_timeout, list);
        bool moved = false;
        for (net_link *link; (link = net_door_progress(m->door, now)) != NULL; moved = true)
            welcome(m, guests, who->size, link);
        read_cards(guests, who->size);
        if (!moved)
            pause_for(m, NULL, 0);
    }
    return RUEDA_OK;
}

static rueda_status compare_cards(const config *settings, const guest *guests, int size)
{
    rueda_status status = RUEDA_OK;
    for (int r = 1; r < size && status == RUEDA_OK; r++)
        status = config_compare(settings, &guests[r].card.settings, 0, r);
    return status;
}

static void find_crowds(boot_meeting *m, const guest *guests, int size)
{
    for (int r = 0; r < size; r++) {
        boot_crowd crowd = {0};
        for (int q = 0; q < size; q++) {
            if (m->places[q].machine == m->places[r].machine)
                crowd_add(&crowd, &guests[q].card.cpus);
        }
        m->places[r].crowded = crowd_is_dense(&crowd);
    }
}

/* Hosts and machines get their numbers in the order of their lowest ranks. */
static void fill_places(boot_meeting *m, const guest *guests, int size)
{
    uint32_t hosts = 0, machines = 0;
    for (int r = 0; r < size; r++) {
        const card *c = &guests[r].card;
        int q = 0, p = 0;
        while (q < r && strcmp(guests[q].card.host, c->host) != 0)
            q++;
        while (p < r && strcmp(guests[p].card.machine, c->machine) != 0)
            p++;
        m->places[r] = (boot_place){.address = c->address,
                                    .host = q < r ? m->places[q].host : hosts++,
                                    .machine = p < r ? m->places[p].machine : machines++};
    }
    find_crowds(m, guests, size);
}

/* Sends the verdict to all who are there; nobody is waited for longer than the deadline. */
static void answer_all(const boot_meeting *m, guest *guests, int size, rueda_status status,
                       uint64_t deadline_ns)
{
    verdict v = {.status = (uint32_t)status, .ranks = (uint32_t)size};
    snprintf(v.text, sizeof v.text, "%s", status == RUEDA_OK ? "" : status_text());
    const size_t places = status == RUEDA_OK ? (size_t)size * sizeof *m->places : 0;
    uint8_t *bytes = malloc(sizeof v + places);
    if (bytes == NULL)
        return;
    memcpy(bytes, &v, sizeof v);
    memcpy(bytes + sizeof v, m->places, places);
    for (int r = 1; r < size; r++)
        guests[r].out = (parcel){bytes, sizeof v + places, 0};
    for (bool busy = true; busy && os_now_ns() < deadline_ns;) {
        busy = false;
        for (int r = 1; r < size; r++) {
            guest *g = &guests[r];
            if (g->link == NULL || g->answered)
                continue;
            const int done = parcel_send(&g->out, g->link);
            g->answered = done != 0 && (done < 0 || net_link_flushed(g->link));
            busy |= !g->answered;
        }
        if (busy)
            pause_for(m, NULL, 0);
    }
    free(bytes);
}

static void own_card(const config *settings, const boot_identity *who, const boot_meeting *m,
                     const net_address *reached, uint16_t port, card *c)
{
    memset(c, 0, sizeof *c);
    c->rank = (uint32_t)who->rank;
    c->settings = *settings;
    c->settings.key = (config_text){""};
    c->address = m->own.family != 0 ? m->own : *reached;
    c->address.port = port;
    os_machine_name(c->machine, sizeof c->machine);
    os_cpus_allowed(&c->cpus);
    if (settings->host.text[0] != '\0')
        snprintf(c->host, sizeof c->host, "%.63s", settings->host.text);
    else
        memcpy(c->host, c->machine, sizeof c->host);
}

static rueda_status hold_as_first(const config *settings, const boot_identity *who,
                                  const boot_host *host, uint64_t deadline_ns, boot_meeting *m)
{
    guest *guests = calloc((size_t)who->size, sizeof *guests);
    if (guests == NULL)
        return status_fail(RUEDA_ERR_MEMORY, "rank 0: out of memory in rueda_init");
    own_card(settings, who, m, &(net_address){0}, host->port, &guests[0].card);
    rueda_status status = collect_cards(settings, who, deadline_ns, m, guests);
    if (status == RUEDA_OK)
        status = compare_cards(settings, guests, who->size);
    if (status == RUEDA_OK)
        fill_places(m, guests, who->size);
    const uint64_t limit = os_now_ns() + CALL_LIMIT_NS;
    answer_all(m, guests, who->size, status, deadline_ns > limit ? deadline_ns : limit);
    for (int r = 1; r < who->size; r++) {
        if (status != RUEDA_OK || boot_parent(r) != 0 || !keep_link(m, guests[r].link))
            net_link_close(guests[r].link);
    }
    free(guests);
    return status;
}

/* ---- The others ------------------------------------------------------------------------------ */

/* A call that is repeated until it is answered, at one port after the other. */
typedef struct caller {
    net_link *link;
    net_purpose purpose;
    net_address where;
    uint16_t ports, tried;
    uint64_t again_ns;
    char why[160]; /* the last call did not succeed */
} caller;

/* That nobody is at one of the ports tells less than an answer from another. */
static void note_why(caller *c)
{
    const char *why = c->link == NULL ? "" : net_link_why(c->link);
    if (c->why[0] == '\0' || strstr(why, "not reached") == NULL)
        snprintf(c->why, sizeof c->why, "%s", why);
}

/* True when the link is open. */
static bool caller_progress(caller *c, const boot_meeting *m, uint64_t now)
{
    if (c->link == NULL) {
        if (now < c->again_ns)
            return false;
        net_address to = c->where;
        to.port = (uint16_t)(to.port > UINT16_MAX - c->tried ? UINT16_MAX : to.port + c->tried);
        if (net_link_call(&m->identity, &c->purpose, &to, m->own.family == 0 ? NULL : &m->own,
                          CALL_LIMIT_NS, &c->link) != RUEDA_OK)
            c->link = NULL;
    }
    const net_state state = c->link == NULL ? NET_REFUSED : net_link_progress(c->link, now);
    if (state == NET_OPEN)
        return true;
    if (state != NET_WAITS) {
        note_why(c);
        net_link_close(c->link);
        c->link = NULL;
        c->tried = (uint16_t)((c->tried + 1) % c->ports);
        c->again_ns = c->tried == 0 ? now + AGAIN_NS : now;
    }
    return false;
}

static rueda_status call_first(const config *settings, const boot_identity *who,
                               const boot_host *host, uint64_t deadline_ns, boot_meeting *m,
                               net_link **link)
{
    caller c = {.purpose = {.role = BOOT_MEET, .from = (uint32_t)who->rank},
                .where = *host->where,
                .ports = host->ports};
    while (!caller_progress(&c, m, os_now_ns())) {
        if (c.link == NULL && meet_file_of(settings) != NULL) /* it may be old; a new one counts */
            (void)meet_file_find(settings, &m->identity, &c.where);
        if (os_now_ns() > deadline_ns + CALL_LIMIT_NS) {
            char text[NET_TEXT];
            net_link_close(c.link);
            return status_fail(RUEDA_ERR_TIMEOUT,
                               "rank %d waited %lld s in rueda_init for rank 0 at %s (%s); see why "
                               "it did not start or cannot be reached, or raise "
                               "RUEDA_START_TIMEOUT",
                               who->rank, (long long)settings->start_timeout,
                               net_format(host->where, text), c.why);
        }
        pause_for(m, &c.link, 1);
    }
    *link = c.link;
    return RUEDA_OK;
}

static rueda_status move_parcel(parcel *p, int (*move)(parcel *, net_link *), net_link *link,
                                const boot_identity *who, const boot_meeting *m,
                                uint64_t deadline_ns)
{
    int done;
    while ((done = move(p, link)) == 0 && os_now_ns() < deadline_ns)
        pause_for(m, &link, 1);
    if (done == 1)
        return RUEDA_OK;
    return status_fail(RUEDA_ERR_TIMEOUT,
                       "rank %d: rank 0 ended the meeting in rueda_init before all ranks were "
                       "there; see what it says",
                       who->rank);
}

static bool is_loopback(const net_address *a)
{
    static const uint8_t six[16] = {[15] = 1};
    return a->family == 4 ? a->ip[0] == 127 : memcmp(a->ip, six, sizeof six) == 0;
}

/* Ranks beside rank 0 may have reached it by loopback: seen from another machine they are where it is. */
static void correct_loopback(boot_meeting *m, const boot_identity *who, const net_address *first)
{
    for (int r = 1; r < who->size; r++) {
        boot_place *p = &m->places[r];
        if (p->machine != m->places[0].machine || p->machine == m->places[who->rank].machine ||
            !is_loopback(&p->address))
            continue;
        const uint16_t port = p->address.port;
        p->address = *first;
        p->address.port = port;
    }
}

/* Our card for the table. The verdict comes when rank 0 has everybody's, so a little later than its
 * deadline at most. */
static rueda_status get_places(const config *settings, const boot_identity *who,
                               const boot_host *host, uint64_t deadline_ns, boot_meeting *m,
                               net_link *link)
{
    card mine;
    verdict v;
    net_address here = {0}, there = {0};
    net_link_local(link, &here);
    net_link_peer(link, &there);
    own_card(settings, who, m, &here, host->port, &mine);
    const uint64_t limit = deadline_ns + CALL_LIMIT_NS;
    rueda_status status =
        move_parcel(&(parcel){(uint8_t *)&mine, sizeof mine, 0}, parcel_send, link, who, m, limit);
    if (status == RUEDA_OK)
        status =
            move_parcel(&(parcel){(uint8_t *)&v, sizeof v, 0}, parcel_receive, link, who, m, limit);
    if (status != RUEDA_OK)
        return status;
    v.text[sizeof v.text - 1] = '\0';
    if (v.status != RUEDA_OK || v.ranks != (uint32_t)who->size)
        return status_restore(v.status == RUEDA_OK ? RUEDA_ERR_CONFIG : (rueda_status)v.status,
                              v.text[0] == '\0' ? "RUEDA_SIZE differs between ranks" : v.text);
    const size_t bytes = (size_t)who->size * sizeof *m->places;
    status =
        move_parcel(&(parcel){(uint8_t *)m->places, bytes, 0}, parcel_receive, link, who, m, limit);
    m->places[0].address = there;
    correct_loopback(m, who, &there);
    return status;
}

static rueda_status fail_tree(const boot_identity *who, uint64_t children, bool parent)
{
    return status_fail(RUEDA_ERR_TIMEOUT,
                       "rank %d: all ranks have met, but %llu children in the control tree did not "
                       "call%s; is a port blocked between the hosts? (RUEDA_PORTS)",
                       who->rank, (unsigned long long)children,
                       parent ? "" : " and its parent did not answer");
}

/* The door may bring connections of the next layer before we are done; they are too early to be
 * honest only while the tree is not complete anywhere. */
static bool is_child(const boot_identity *who, const net_purpose *p)
{
    return p->role == BOOT_TREE && p->from > 0 && p->from < (uint32_t)who->size &&
           boot_parent((int)p->from) == who->rank;
}

static rueda_status link_up(const boot_identity *who, uint64_t deadline_ns, boot_meeting *m,
                            bool has_parent)
{
    uint32_t missing = who->rank == 0 ? 0 : child_count(who);
    const int parent = has_parent ? 0 : boot_parent(who->rank);
    caller c = {.purpose = {.role = BOOT_TREE, .from = (uint32_t)who->rank, .to = (uint32_t)parent},
                .where = m->places[parent].address,
                .ports = 1};
    while (missing > 0 || !has_parent) {
        const uint64_t now = os_now_ns();
        if (now > deadline_ns + CALL_LIMIT_NS) {
            net_link_close(c.link);
            return fail_tree(who, missing, has_parent);
        }
        if (!has_parent && caller_progress(&c, m, now))
            has_parent = keep_link(m, c.link);
        net_link *link = missing > 0 ? net_door_progress(m->door, now) : NULL;
        if (link == NULL)
            pause_for(m, &c.link, has_parent ? 0 : 1);
        else if (is_child(who, net_link_purpose(link)) && keep_link(m, link))
            missing--;
        else
            net_door_refuse(m->door, link);
    }
    return RUEDA_OK;
}

static rueda_status hold_as_other(const config *settings, const boot_identity *who,
                                  const boot_host *host, uint64_t deadline_ns, boot_meeting *m)
{
    net_link *link = NULL;
    rueda_status status = call_first(settings, who, host, deadline_ns, m, &link);
    if (status != RUEDA_OK)
        return status;
    status = get_places(settings, who, host, deadline_ns, m, link);
    const bool is_parent = status == RUEDA_OK && boot_parent(who->rank) == 0;
    if (!is_parent || !keep_link(m, link))
        net_link_close(link);
    return status == RUEDA_OK ? link_up(who, deadline_ns, m, is_parent) : status;
}

rueda_status meeting_hold(const config *settings, const boot_identity *who, const boot_host *host,
                          uint64_t deadline_ns, boot_meeting *m)
{
    m->places = calloc((size_t)who->size, sizeof *m->places);
    if (m->places == NULL)
        return status_fail(RUEDA_ERR_MEMORY, "rank %d: out of memory in rueda_init", who->rank);
    return who->rank == 0 ? hold_as_first(settings, who, host, deadline_ns, m)
                          : hold_as_other(settings, who, host, deadline_ns, m);
}
