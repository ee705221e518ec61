/* streams.c: links made when first used. The higher rank calls; the lower one says one byte when it
 * has a use for the link, and closes it when it has none yet: then the caller tries again. */
#include "control/network_parts.h"

#include <stdlib.h>
#include <sys/epoll.h>

#define CALL_LIMIT_NS UINT64_C(5000000000)
#define AGAIN_NS UINT64_C(10000000)    /* between two calls */
#define SUSPECT_NS UINT64_C(500000000) /* for the true reason to come through the tree */

network_stream *streams_add(network *n, const network_stream *wanted)
{
    network_stream *s = malloc(sizeof *s);
    if (s == NULL)
        return NULL;
    *s = *wanted;
    s->network = n;
    s->next = n->streams;
    n->streams = s;
    return s;
}

network_stream *network_stream_open(network *n, uint32_t set, uint64_t epoch, uint32_t channel,
                                    uint32_t peer)
{
    return streams_add(n, &(network_stream){.about = EVENT_STREAM,
                                            .role = BOOT_DATA,
                                            .set = set,
                                            .channel = channel,
                                            .peer = peer,
                                            .epoch = epoch});
}

/* It waits for its link from the first use until the link is there or it is given up. */
bool streams_is_connecting(const network_stream *s)
{
    return s->first_call_ns != 0 && !s->open && !s->broken;
}

void network_stream_close(network_stream *s)
{
    if (s == NULL)
        return;
    network_stream **link = &s->network->streams;
    while (*link != s)
        link = &(*link)->next;
    *link = s->next;
    s->network->connecting -= streams_is_connecting(s);
    net_link_close(s->link);
    free(s);
}

static bool is_caller(const network_stream *s)
{
    return s->again || s->network->rank > s->peer;
}

static void call(network_stream *s, uint64_t now_ns)
{
    network *n = s->network;
    const net_purpose purpose = {.role = s->role,
                                 .from = n->rank,
                                 .to = s->peer,
                                 .set = s->set,
                                 .channel = s->channel,
                                 .epoch = s->epoch};
    const net_address *own = n->meeting.own.family == 0 ? NULL : &n->meeting.own;
    if (now_ns < s->again_ns)
        return;
    s->again_ns = now_ns + AGAIN_NS;
    if (net_link_call(&n->meeting.identity, &purpose, &n->meeting.places[s->peer].address, own,
                      CALL_LIMIT_NS, &s->link) != RUEDA_OK) {
        s->link = NULL;
        if (!n->told_no_call)
            log_line(&n->log, LOG_WARN, "%s; trying again", status_text());
        n->told_no_call = true;
    } else
        network_watch(n, net_link_fd(s->link), EPOLLIN | EPOLLOUT | EPOLLET, s->about);
}

net_link *network_stream_link(network_stream *s)
{
    if (s->open)
        return s->broken ? NULL : s->link;
    if (s->first_call_ns == 0 && !s->broken) {
        s->first_call_ns = os_now_ns();
        s->network->connecting++;
        if (is_caller(s))
            call(s, s->first_call_ns);
    }
    return NULL;
}

static void give_up(network_stream *s)
{
    network *n = s->network;
    n->connecting--;
    s->broken = true;
    if (!s->again)
        network_lose(n, s->peer, "no connection to it can be made");
}

static bool progress(network_stream *s, uint64_t now_ns)
{
    const uint64_t limit = (uint64_t)s->network->settings->start_timeout * 1000000000u;
    /* only one of the two gives up, or they would accuse each other; the one who waits may have come
     * much earlier, too */
    if (!is_caller(s))
        return false;
    if (now_ns > s->first_call_ns + limit) /* `now` may be a little older than the call */
        return give_up(s), true;
    if (s->link == NULL)
        call(s, now_ns);
    if (s->link == NULL)
        return false;
    const net_state state = net_link_progress(s->link, now_ns);
    uint8_t welcome;
    const ssize_t got = state == NET_OPEN ? net_link_receive(s->link, &welcome, 1) : 0;
    if (got == 1) {
        s->open = true;
        network_watch_again(s->network, net_link_fd(s->link), s->about);
        s->network->connecting--;
        return true;
    }
    if (got < 0 || (state != NET_WAITS && state != NET_OPEN)) {
        net_link_close(s->link);
        s->link = NULL;
        if (s->again)
            give_up(s);
    }
    return false;
}

bool streams_progress(network *n, uint64_t now_ns)
{
    bool moved = false;
    for (network_stream *s = n->streams; s != NULL; s = s->next) {
        if (streams_is_connecting(s))
            moved |= progress(s, now_ns);
    }
    return moved;
}

void streams_attach(network_stream *s, net_link *link)
{
    s->network->connecting -= streams_is_connecting(s);
    s->link = link;
    s->open = true;
    network_watch(s->network, net_link_fd(link), EPOLLIN | EPOLLOUT | EPOLLET, s->about);
}

/* The first byte of a connection always has room. */
bool streams_greet(net_link *link)
{
    return net_link_send(link, &(struct iovec){"\1", 1}, 1) == 1;
}

bool streams_adopt(network *n, net_link *link)
{
    const net_purpose *p = net_link_purpose(link);
    for (network_stream *s = n->streams; s != NULL; s = s->next) {
        if (s->role != p->role || s->set != p->set || s->channel != p->channel ||
            s->epoch != p->epoch || s->peer != p->from || is_caller(s) || s->open)
            continue;
        if (!streams_greet(link))
            return false;
        streams_attach(s, link);
        return true;
    }
    return p->role == BOOT_TREE && tree_adopt_again(n, link);
}

/* Both ends see it: the lower rank is to say so, and if it cannot, the higher one. */
void network_stream_broke(network_stream *s)
{
    network *n = s->network;
    s->broken = true;
    if (n->suspect < 0)
        network_suspect(n, s->peer, n->rank < s->peer ? SUSPECT_NS : 2 * SUSPECT_NS);
}

void network_cut(network *n, uint32_t rank, network_links links)
{
    for (network_stream *s = n->streams; s != NULL; s = s->next) {
        const network_links own = s->role == BOOT_TREE ? NETWORK_TREE : NETWORK_DATA;
        if (s->peer == rank && s->link != NULL && (links == NETWORK_ALL || links == own))
            shutdown(net_link_fd(s->link), SHUT_RDWR);
    }
}

bool network_stream_ended(const network_stream *s)
{
    return s->broken || !s->open;
}

bool network_set_sent(const network *n, uint32_t set)
{
    for (const network_stream *s = n->streams; s != NULL; s = s->next) {
        if (s->role == BOOT_DATA && s->set == set && s->open && !s->broken &&
            net_link_wants_write(s->link))
            return false;
    }
    return true;
}
