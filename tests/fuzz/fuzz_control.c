/* fuzz_control.c: messages of the control links, as a neighbour that has the key but has lost its mind
 * would send them. Whatever comes, the parts of a round stay within their bounds. */
#include "fuzz.h"

#include "control/network_parts.h"

/* Nothing is sent on from here: there are no sockets. */
network_stream *streams_add(network *n, const network_stream *wanted)
{
    (void)n, (void)wanted;
    return NULL;
}
void network_stream_close(network_stream *s)
{
    (void)s;
}
net_link *network_stream_link(network_stream *s)
{
    (void)s;
    return NULL;
}
ssize_t net_link_send(net_link *link, const struct iovec *parts, int count)
{
    (void)link, (void)parts, (void)count;
    return 0;
}
ssize_t net_link_receive(net_link *link, void *to, size_t bytes)
{
    (void)link, (void)to, (void)bytes;
    return 0;
}
void network_lose(network *n, uint32_t rank, const char *why)
{
    (void)n, (void)rank, (void)why;
}

uint32_t network_host(const network *n, uint32_t rank)
{
    (void)n;
    return rank;
}

void network_suspect(network *n, uint32_t rank, uint64_t limit_ns)
{
    (void)n, (void)rank, (void)limit_ns;
}
bool streams_greet(net_link *link)
{
    (void)link;
    return false;
}
void streams_attach(network_stream *s, net_link *link)
{
    (void)s, (void)link;
}
const net_purpose *net_link_purpose(const net_link *link)
{
    (void)link;
    return NULL;
}

static const uint16_t ranks[] = {1};
static bool left[4];

static network *open_network(void)
{
    static network n;
    static segment s;
    static config settings;
    if (s.base != NULL)
        return &n;
    settings.channels = 1;
    settings.cache_capacity = 128;
    settings.slot_bytes = 4096;
    must(segment_create(&s, &settings, 4, 1) == RUEDA_OK);
    n = (network){.settings = &settings, .segment = &s, .rank = 1, .size = 4, .left = left};
    must(network_set_open(&n, 0, 7, ranks, 1) == RUEDA_OK);
    return &n;
}

static void check(const network *n)
{
    for (uint64_t round = 0; round < 2; round++) {
        const segment_contribution *c = network_part(n, 0, round, 0);
        must(c->words <= n->segment->header->cache_words);
        must(c->news_bytes <= segment_news_bytes(n->segment));
    }
    const segment_abort *heard = network_heard_abort(n);
    must(heard == NULL || memchr(heard->text, '\0', sizeof heard->text) != NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    network *n = open_network();
    tree_link from = {.rank = 0};
    n->has_heard = false;
    /* we play rank 2, whose part is kept: the set has been made with its rank */
    static const uint16_t other[] = {2};
    n->sets[0].ranks = other;
    if (bytes >= 8)
        tree_take(n, data, bytes, &from);
    check(n);
    return 0;
}
