/* fuzz_control.c: messages of the control links, as a neighbour that has the key but has lost its mind
 * would send them. Whatever comes, the parts of a round stay within their bounds. */
#include "fuzz.h"

#include "control/network_parts.h"
#include "mesh/mesh_parts.h"

/* Nothing is sent on from here: there are no sockets. */
mesh_stream *mesh_stream_open(mesh *m, const mesh_purpose *purpose)
{
    (void)m, (void)purpose;
    return NULL;
}
void mesh_stream_close(mesh_stream *s)
{
    (void)s;
}
net_link *mesh_stream_link(mesh_stream *s)
{
    (void)s;
    return NULL;
}
void mesh_stream_attach(mesh_stream *s, net_link *link)
{
    (void)s, (void)link;
}
bool mesh_greet(net_link *link)
{
    (void)link;
    return false;
}
uint32_t mesh_host(const mesh *m, uint32_t rank)
{
    (void)m;
    return rank;
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
int net_link_fd(const net_link *link)
{
    (void)link;
    return -1;
}
bool net_link_altered(const net_link *link)
{
    (void)link;
    return false;
}
const char *net_link_why(const net_link *link)
{
    (void)link;
    return "";
}
void net_link_close(net_link *link)
{
    (void)link;
}

rueda_status streams_call(const mesh *m, const mesh_purpose *wanted, uint64_t limit_ns,
                          net_link **link)
{
    (void)m, (void)wanted, (void)limit_ns;
    *link = NULL;
    return RUEDA_ERR_SYSTEM;
}

const net_purpose *net_link_purpose(const net_link *link)
{
    (void)link;
    return NULL;
}

static const uint16_t ranks[] = {1};
static uint32_t left[4];
static segment_answer answers[4];

static network *open_network(void)
{
    static network n;
    static mesh m;
    static segment s;
    static config settings;
    if (s.base != NULL)
        return &n;
    settings.channels = 1;
    settings.cache_capacity = 128;
    settings.slot_bytes = 4096;
    must(segment_create(&s, &settings, 4, 1) == RUEDA_OK);
    m.trouble = (mesh_trouble){.lost = -1, .suspect = -1, .left = left};
    n = (network){.mesh = &m, .segment = &s, .rank = 1, .size = 4, .answers = answers};
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
