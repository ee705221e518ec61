/* meeting.c: all ranks meet at rank 0, get the table of places, and link up as a tree.
 *
 * Rank 0 collects a card from everybody, checks the settings, and answers each with a verdict: either
 * why the job cannot start, the same sentence for all, or the table, and an instance that it has drawn:
 * connections made from then on belong to this meeting and no other of the same name. Then every rank
 * calls its parent in the tree; the children of rank 0 stay on the connection they came by. A rank that
 * dies meanwhile is seen by rank 0, which tells all others: see attendance.h.
 * Invariant: nothing here blocks longer than a poll, so that a slow or hostile guest holds nobody up.
 */
#include "boot/boot.h"
#include "boot/parcel.h"
#include "world/sockets.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CALL_LIMIT_NS UINT64_C(1000000000) /* a call that is not answered is tried again */
#define WELCOME_NS UINT64_C(300000000)     /* for those who were invited in the last moment */
#define RETURN_NS UINT64_C(500000000)      /* for one who was cut off before its card came */
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
    int32_t culprit; /* rank because of which it cannot start; -1: none */
    uint32_t zero;
    uint8_t
        instance[NET_INSTANCE_BYTES]; /* of the job: all connections from now on are bound to it */
    char text[STATUS_TEXT_MAX];
} verdict;

static void pause_for(const boot_meeting *m, net_link *const *links, int count)
{
    struct pollfd fds[] = {
        {net_door_fd(m->door), POLLIN, 0}, {attendance_fd(m->there), POLLIN, 0}, {-1, POLLIN, 0}};
    if (count == 1 && links[0] != NULL)
        fds[2].fd = net_link_fd(links[0]);
    world_poll(fds, 3, PAUSE_MS);
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
    uint64_t cut_ns; /* when it was cut off before its card came; 0: it was not */
} guest;

static rank_list list_missing(const guest *guests, int size)
{
    rank_list missing = {.count = 0};
    for (int r = 1; r < size; r++) {
        if (!guests[r].has_card)
            rank_list_add(&missing, (uint32_t)r);
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
    m->there->met = true;
    g->link = link;
    g->in = (parcel){(uint8_t *)&g->card, sizeof g->card, 0};
}

static bool is_proper(const card *c, uint32_t rank)
{
    return c->rank == rank && memchr(c->host, '\0', sizeof c->host) != NULL &&
           memchr(c->machine, '\0', sizeof c->machine) != NULL && config_is_sound(&c->settings);
}

static void read_card(guest *g, uint32_t rank, uint64_t now)
{
    const int done = parcel_receive(&g->in, g->link);
    g->has_card = done == 1 && is_proper(&g->card, rank);
    if (done == 0 || g->has_card)
        return;
    net_link_close(g->link);
    g->link = NULL;
    g->cut_ns = now;
}

/* Who has sent its card says nothing more until it is answered. */
static bool is_gone(const guest *g, uint64_t now)
{
    uint8_t byte;
    if (g->has_card)
        return net_link_receive(g->link, &byte, 1) != 0;
    return g->link == NULL && g->cut_ns != 0 && now > g->cut_ns + RETURN_NS;
}

/* Who was sent away for want of memory when it had proved itself takes its link for open: it would be waited
 * for in vain, and then for dead. */
static rueda_status check_door(const boot_identity *who, const boot_meeting *m)
{
    return net_door_ran_short(m->door)
               ? status_fail(RUEDA_ERR_MEMORY,
                             "rank %d: out of memory for a connection in rueda_init", who->rank)
               : RUEDA_OK;
}

static rueda_status read_cards(const boot_meeting *m, guest *guests, int size, uint64_t now)
{
    for (int r = 1; r < size; r++) {
        guest *g = &guests[r];
        if (g->link != NULL && !g->has_card)
            read_card(g, (uint32_t)r, now);
        if (is_gone(g, now))
            return attendance_lose(m->there, r);
    }
    return attendance_look(m->there);
}

static bool all_called(const guest *guests, int size)
{
    int r = 1;
    while (r < size && guests[r].link != NULL)
        r++;
    return r == size;
}

static rueda_status fail_missing(const config *settings, const boot_meeting *m,
                                 const rank_list *missing)
{
    const int trouble = net_door_trouble(m->door);
    char why[160];
    if (trouble != 0)
        snprintf(why, sizeof why, "it could not accept connections: %s%s", strerror(trouble),
                 trouble == EMFILE ? "; raise `ulimit -n`" : "");
    return attendance_fail_missing(settings, 0, missing, trouble != 0 ? why : NULL);
}

static rueda_status collect_cards(const config *settings, const boot_identity *who,
                                  uint64_t deadline_ns, boot_meeting *m, guest *guests)
{
    const uint64_t least_ns = world_now_ns() + WELCOME_NS;
    deadline_ns = deadline_ns > least_ns ? deadline_ns : least_ns;
    for (rank_list missing; (missing = list_missing(guests, who->size)).count > 0;) {
        const uint64_t now = world_now_ns();
        if (now > deadline_ns)
            return fail_missing(settings, m, &missing);
        bool moved = false;
        for (net_link *link; (link = net_door_progress(m->door, now)) != NULL; moved = true)
            welcome(m, guests, who->size, link);
        rueda_status status = check_door(who, m);
        if (status == RUEDA_OK)
            status = read_cards(m, guests, who->size, now);
        if (status != RUEDA_OK)
            return status;
        if (all_called(guests, who->size))
            attendance_pass(m->there, BOOT_PHASE_CALLED);
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

/* The rank because of which the job cannot start: also ourselves, rank 0, where the system has refused us something. */
static int culprit_of(const boot_meeting *m, rueda_status status)
{
    const int culprit = attendance_culprit(m->there);
    return culprit < 0 && (status == RUEDA_ERR_MEMORY || status == RUEDA_ERR_SYSTEM) ? 0 : culprit;
}

/* Sends the verdict to all who are there; nobody is waited for longer than the deadline. */
static void answer_all(const boot_meeting *m, guest *guests, int size, rueda_status status,
                       uint64_t deadline_ns)
{
    uint8_t *answer = (uint8_t *)(guests + size); /* room taken while there was time to fail */
    verdict v = {
        .status = (uint32_t)status, .ranks = (uint32_t)size, .culprit = culprit_of(m, status)};
    memcpy(v.instance, m->identity.instance, sizeof v.instance);
    snprintf(v.text, sizeof v.text, "%s", status == RUEDA_OK ? "" : status_text());
    const size_t places = status == RUEDA_OK ? (size_t)size * sizeof *m->places : 0;
    memcpy(answer, &v, sizeof v);
    memcpy(answer + sizeof v, m->places, places);
    for (int r = 1; r < size; r++)
        guests[r].out = (parcel){answer, sizeof v + places, 0};
    for (bool busy = true; busy && world_now_ns() < deadline_ns;) {
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
}

/* Those who come later hear it, too. */
static void answer_late(boot_meeting *m, guest *guests, int size, rueda_status status)
{
    const uint64_t until = attendance_late_until_ns(m->there);
    for (uint64_t now; (now = world_now_ns()) < until && !all_called(guests, size);) {
        net_link *link = net_door_progress(m->door, now);
        if (link == NULL) {
            pause_for(m, NULL, 0);
            continue;
        }
        welcome(m, guests, size, link);
        answer_all(m, guests, size, status, now + CALL_LIMIT_NS);
    }
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
    world_machine_name(c->machine, sizeof c->machine);
    world_cpus_allowed(&c->cpus);
    if (settings->host.text[0] != '\0')
        snprintf(c->host, sizeof c->host, "%.63s", settings->host.text);
    else
        memcpy(c->host, c->machine, sizeof c->host);
}

/* A link of the meeting, with rank `r`, when that is over: it belongs to the tree, or it may be a seat
 * until all are done. */
static void place_link(boot_meeting *m, const boot_identity *who, int r, net_link *link, bool met)
{
    const int child = who->rank == 0 ? r : who->rank;
    const bool in_tree = met && boot_parent(child) == 0 && keep_link(m, link);
    if (met && !attendance_is_seated(m->there, r))
        attendance_seat_link(m->there, r, link, !in_tree);
    else if (!in_tree)
        net_link_close(link);
}

static rueda_status hold_as_first(const config *settings, const boot_identity *who,
                                  const boot_host *host, uint64_t deadline_ns, boot_meeting *m)
{
    const size_t each = sizeof(guest) + sizeof(boot_place);
    guest *guests = calloc(1, sizeof(verdict) + (size_t)who->size * each);
    if (guests == NULL)
        return status_fail(RUEDA_ERR_MEMORY, "rank 0: out of memory in rueda_init");
    own_card(settings, who, m, &(net_address){0}, host->port, &guests[0].card);
    rueda_status status = collect_cards(settings, who, deadline_ns, m, guests);
    attendance_pass(m->there, BOOT_PHASE_CARD);
    if (status == RUEDA_OK)
        status = compare_cards(settings, guests, who->size);
    if (status == RUEDA_OK) {
        fill_places(m, guests, who->size);
        net_instance_make(&m->identity);
        net_door_set_identity(m->door, &m->identity);
    }
    const uint64_t limit = world_now_ns() + CALL_LIMIT_NS;
    answer_all(m, guests, who->size, status, deadline_ns > limit ? deadline_ns : limit);
    if (status != RUEDA_OK)
        answer_late(m, guests, who->size, status);
    attendance_pass(m->there, BOOT_PHASE_VERDICT);
    for (int r = 1; r < who->size; r++) {
        if (guests[r].link != NULL)
            place_link(m, who, r, guests[r].link, status == RUEDA_OK);
    }
    free(guests);
    return status;
}

/* ---- The others ------------------------------------------------------------------------------ */

/* A call that is repeated until it is answered. The next port is tried only where a stranger answers at
 * this one: while nobody does, rank 0 has not come yet, and who holds a later port is somebody else. */
typedef struct caller {
    net_link *link;
    net_purpose purpose;
    net_address where;
    uint16_t ports, tried;
    uint64_t again_ns;
    char why[160];      /* the last call did not succeed */
    uint64_t unable_ns; /* since when not even a call could be made; 0: it could */
} caller;

/* That nobody is at one of the ports tells less than an answer from another. */
static void note_why(caller *c)
{
    const char *why = c->link == NULL ? status_text() : net_link_why(c->link);
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
        if (c->link != NULL)
            c->unable_ns = 0;
        else if (c->unable_ns == 0)
            c->unable_ns = now;
    }
    const net_state state = c->link == NULL ? NET_REFUSED : net_link_progress(c->link, now);
    if (state == NET_OPEN)
        return true;
    if (state != NET_WAITS) {
        note_why(c);
        const bool stranger = c->link != NULL && net_link_met_stranger(c->link);
        net_link_close(c->link);
        c->link = NULL;
        c->tried = (uint16_t)(stranger ? (c->tried + 1) % c->ports : 0);
        c->again_ns = c->tried == 0 ? now + AGAIN_NS : now;
    }
    return false;
}

/* Without descriptors, say, waiting does not help. */
static bool is_unable(const caller *c, uint64_t now)
{
    return c->unable_ns != 0 && now > c->unable_ns + CALL_LIMIT_NS;
}

static rueda_status call_first(const config *settings, const boot_identity *who,
                               const boot_host *host, uint64_t deadline_ns, boot_meeting *m,
                               net_link **link)
{
    caller c = {.purpose = {.role = BOOT_MEET, .from = (uint32_t)who->rank},
                .where = *host->where,
                .ports = host->ports};
    while (!caller_progress(&c, m, world_now_ns())) {
        if (c.link == NULL && meet_file_of(settings) != NULL) /* it may be old; a new one counts */
            (void)meet_file_find(settings, &m->identity, &c.where);
        const rueda_status status = attendance_look(m->there);
        if (status != RUEDA_OK)
            return net_link_close(c.link), status;
        const uint64_t now = world_now_ns();
        if (is_unable(&c, now))
            return status_fail(RUEDA_ERR_SYSTEM, "rank %d: %s", who->rank, c.why);
        if (now > deadline_ns + CALL_LIMIT_NS) {
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
    m->there->met = true;
    *link = c.link;
    return RUEDA_OK;
}

/* Rank 0 has closed the link. It may have told why by another way before. */
static rueda_status lose_first(const boot_meeting *m)
{
    const rueda_status status = attendance_look(m->there);
    return status != RUEDA_OK ? status : attendance_lose(m->there, 0);
}

static rueda_status move_parcel(parcel *p, int (*move)(parcel *, net_link *), net_link *link,
                                const boot_identity *who, const boot_meeting *m,
                                uint64_t deadline_ns)
{
    int done;
    while ((done = move(p, link)) == 0 && world_now_ns() < deadline_ns) {
        const rueda_status status = attendance_look(m->there);
        if (status != RUEDA_OK)
            return status;
        pause_for(m, &link, 1);
    }
    if (done == 1)
        return RUEDA_OK;
    if (done < 0)
        return lose_first(m);
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
    attendance_pass(m->there, BOOT_PHASE_CALLED);
    const uint64_t limit = deadline_ns + CALL_LIMIT_NS;
    rueda_status status =
        move_parcel(&(parcel){(uint8_t *)&mine, sizeof mine, 0}, parcel_send, link, who, m, limit);
    attendance_pass(m->there, BOOT_PHASE_CARD);
    if (status == RUEDA_OK)
        status =
            move_parcel(&(parcel){(uint8_t *)&v, sizeof v, 0}, parcel_receive, link, who, m, limit);
    if (status != RUEDA_OK)
        return status;
    v.text[sizeof v.text - 1] = '\0';
    if (v.status != RUEDA_OK || v.ranks != (uint32_t)who->size)
        return attendance_end(
            m->there, v.status == RUEDA_OK ? RUEDA_ERR_CONFIG : (rueda_status)v.status, v.culprit,
            v.text[0] == '\0' ? "RUEDA_SIZE differs between ranks" : v.text);
    const size_t bytes = (size_t)who->size * sizeof *m->places;
    status =
        move_parcel(&(parcel){(uint8_t *)m->places, bytes, 0}, parcel_receive, link, who, m, limit);
    memcpy(m->identity.instance, v.instance, sizeof v.instance);
    net_door_set_identity(m->door, &m->identity);
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
        const uint64_t now = world_now_ns();
        if (now > deadline_ns + CALL_LIMIT_NS) {
            net_link_close(c.link);
            return fail_tree(who, missing, has_parent);
        }
        rueda_status status = attendance_look(m->there);
        if (status == RUEDA_OK)
            status = check_door(who, m);
        if (status != RUEDA_OK) {
            if (!has_parent)
                net_link_close(c.link);
            return status;
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

/* Rank 0 knows who is missing, and may have begun to wait long after us: once it is reached we wait as long as it
 * may, and a little longer, since who gives up before it would be taken for the one that is lost. */
static rueda_status hold_as_other(const config *settings, const boot_identity *who,
                                  const boot_host *host, uint64_t deadline_ns, boot_meeting *m)
{
    net_link *link = NULL;
    rueda_status status = call_first(settings, who, host, deadline_ns, m, &link);
    if (status != RUEDA_OK)
        return status;
    deadline_ns = m->deadline_ns = attendance_deadline(settings);
    status = get_places(settings, who, host, deadline_ns, m, link);
    attendance_pass(m->there, BOOT_PHASE_VERDICT);
    place_link(m, who, 0, link, status == RUEDA_OK);
    if (status == RUEDA_OK)
        status = link_up(who, deadline_ns, m, boot_parent(who->rank) == 0);
    attendance_pass(m->there, BOOT_PHASE_LINKED);
    return status;
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
