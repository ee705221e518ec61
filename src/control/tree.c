/* tree.c: the messages between control neighbours: contributions, aborts, departures and beats.
 *
 * A message is a header with its length, then its body; little-endian as everything of ours. Each is
 * checked before it is believed: a neighbour that says something impossible counts as lost.
 */
#include "control/network_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define READ_BYTES 65536              /* room for one read */
#define BEATS_IN_LIMIT 4              /* beats sent in the time that makes silence a death */
#define NOTICE_NS UINT64_C(300000000) /* for a lower rank to say why it has given us up */
#define SECOND_NS UINT64_C(1000000000)

enum tree_kind { TREE_CONTRIBUTION = 1, TREE_ABORT, TREE_LEFT, TREE_BEAT, TREE_TIME };

typedef struct tree_header {
    uint32_t bytes; /* of the whole message */
    uint32_t kind;
} tree_header;

typedef struct tree_contribution {
    tree_header header;
    uint32_t set, rank;
    uint64_t epoch, round, digest;
    uint32_t flags, words, news_bytes, news_count;
} tree_contribution;

typedef struct tree_abort {
    tree_header header;
    uint32_t status;
    int32_t rank;
    char text[SEGMENT_ABORT_TEXT];
} tree_abort;

typedef struct tree_left {
    tree_header header;
    uint32_t rank, zero;
} tree_left;

/* Asked with root_ns 0, answered with the time on rank 0. */
typedef struct tree_time {
    tree_header header;
    uint64_t asked_ns, root_ns;
} tree_time;

/* ---- Queues ---------------------------------------------------------------------------------- */

/* Makes room for `more` bytes at the end; NULL: out of memory. */
static uint8_t *queue_room(byte_queue *q, size_t more)
{
    if (q->start == q->end)
        q->start = q->end = 0;
    if (q->end + more > q->capacity && q->start > 0) {
        memmove(q->bytes, q->bytes + q->start, q->end - q->start);
        q->end -= q->start;
        q->start = 0;
    }
    if (q->end + more > q->capacity) {
        const size_t capacity = 2 * q->capacity + more;
        uint8_t *grown = realloc(q->bytes, capacity);
        if (grown == NULL)
            return NULL;
        q->bytes = grown;
        q->capacity = capacity;
    }
    return q->bytes + q->end;
}

static bool open_stream(network *n, tree_link *l, bool again)
{
    l->stream = streams_add(n, &(network_stream){.about = EVENT_TREE + (uint64_t)(l - n->links),
                                                 .role = BOOT_TREE,
                                                 .peer = l->rank,
                                                 .again = again});
    return l->stream != NULL;
}

tree_link *tree_link_to(network *n, uint32_t rank)
{
    for (uint32_t i = 0; i < n->link_count; i++) {
        if (n->links[i].rank == rank)
            return &n->links[i];
    }
    tree_link *grown = realloc(n->links, (n->link_count + 1) * sizeof *grown);
    if (grown == NULL)
        return NULL;
    n->links = grown;
    tree_link *l = &n->links[n->link_count];
    *l = (tree_link){.rank = rank};
    if (!open_stream(n, l, false))
        return NULL;
    n->link_count++;
    return l;
}

/* The open link; NULL: not yet, or not any more. */
static net_link *open_link(const tree_link *l)
{
    return l->stream == NULL ? NULL : network_stream_link(l->stream);
}

/* At once as far as the socket takes it; the rest waits. */
static void say(network *n, tree_link *l, const struct iovec *parts, int count)
{
    size_t total = 0, skip = 0;
    if (l->stream == NULL)
        return;
    for (int i = 0; i < count; i++)
        total += parts[i].iov_len;
    net_link *link = open_link(l);
    if (link != NULL && l->out.start == l->out.end) {
        const ssize_t sent = net_link_send(link, parts, count);
        if (sent < 0)
            return; /* reading will find out why */
        skip = (size_t)sent;
    }
    l->spoke = true;
    if (skip == total)
        return;
    uint8_t *to = queue_room(&l->out, total - skip);
    if (to == NULL) {
        network_lose(n, l->rank, "there is no memory for what it should be told");
        return;
    }
    for (int i = 0; i < count; i++) {
        const size_t passed = skip < parts[i].iov_len ? skip : parts[i].iov_len;
        memcpy(to, (const uint8_t *)parts[i].iov_base + passed, parts[i].iov_len - passed);
        to += parts[i].iov_len - passed;
        skip -= passed;
    }
    l->out.end = (size_t)(to - l->out.bytes);
}

static void say_to_all(network *n, const struct iovec *parts, int count, const tree_link *but)
{
    for (uint32_t i = 0; i < n->link_count; i++) {
        if (&n->links[i] != but)
            say(n, &n->links[i], parts, count);
    }
}

static void say_to_set(network *n, const network_set *s, const struct iovec *parts, int count,
                       const tree_link *but)
{
    for (int i = 0; i < s->neighbour_count; i++) {
        if (&n->links[s->neighbours[i]] != but)
            say(n, &n->links[s->neighbours[i]], parts, count);
    }
}

bool tree_write(network *n, tree_link *l)
{
    (void)n;
    const size_t waits = l->out.end - l->out.start;
    net_link *link = waits == 0 ? NULL : open_link(l);
    if (link == NULL)
        return false;
    const struct iovec part = {l->out.bytes + l->out.start, waits};
    const ssize_t sent = net_link_send(link, &part, 1);
    if (sent > 0)
        l->out.start += (size_t)sent;
    return sent > 0;
}

/* ---- Rounds ---------------------------------------------------------------------------------- */

/* In the tree over the members' indices. */
static rueda_status find_neighbours(network *n, network_set *s)
{
    int index = 0;
    while (s->ranks[index] != n->rank)
        index++;
    for (int i = 0; i < s->size; i++) {
        const bool is_parent = index > 0 && i == boot_parent(index);
        const bool is_child = i > 0 && boot_parent(i) == index;
        if (!is_parent && !is_child)
            continue;
        const tree_link *l = tree_link_to(n, s->ranks[i]);
        if (l == NULL)
            return status_fail(RUEDA_ERR_MEMORY, "out of memory for a process set");
        open_link(
            l); /* if it is ours to call, it must be before the other side has to say something */
        s->neighbours[s->neighbour_count++] = (uint32_t)(l - n->links);
    }
    return RUEDA_OK;
}

rueda_status network_set_open(network *n, uint32_t set, uint64_t epoch, const uint16_t *ranks,
                              uint16_t size)
{
    network_set *s = &n->sets[set];
    const size_t bytes = n->segment->contribution_bytes; /* a multiple of the line */
    s->parts = aligned_alloc(OS_CACHE_LINE, (size_t)size * 2 * bytes);
    if (s->parts == NULL)
        return status_fail(RUEDA_ERR_MEMORY, "out of memory for a process set");
    for (size_t i = 0; i < (size_t)size * 2; i++)
        memset(s->parts + i * bytes, 0, sizeof(segment_contribution));
    s->epoch = epoch;
    s->size = size;
    s->ranks = ranks;
    s->used = true;
    return find_neighbours(n, s);
}

void network_set_close(network *n, uint32_t set)
{
    free(n->sets[set].parts);
    n->sets[set] = (network_set){0};
}

segment_contribution *network_part(const network *n, uint32_t set, uint64_t round, uint16_t index)
{
    const size_t number = (size_t)index * 2 + (round & 1);
    return (segment_contribution *)(n->sets[set].parts + number * n->segment->contribution_bytes);
}

static uint8_t *news_of(const network *n, segment_contribution *c)
{
    return (uint8_t *)(c->ready + n->segment->header->cache_words);
}

void network_contribute(network *n, uint32_t set, uint64_t round, uint16_t index)
{
    segment_contribution *c = network_part(n, set, round, index);
    const size_t bits = c->words * sizeof c->ready[0];
    tree_contribution message = {
        .header = {(uint32_t)(sizeof message + bits + c->news_bytes), TREE_CONTRIBUTION},
        .set = set,
        .rank = n->rank,
        .epoch = n->sets[set].epoch,
        .round = round,
        .digest = c->digest,
        .flags = c->flags,
        .words = c->words,
        .news_bytes = c->news_bytes,
        .news_count = c->news_count};
    const struct iovec parts[] = {
        {&message, sizeof message}, {c->ready, bits}, {news_of(n, c), c->news_bytes}};
    atomic_store_explicit(&c->round, round, memory_order_release);
    say_to_set(n, &n->sets[set], parts, 3, NULL);
}

static int index_of(const network_set *s, uint32_t rank)
{
    int low = 0, high = s->size - 1; /* ranks ascend */
    while (low < high) {
        const int middle = (low + high) / 2;
        if (s->ranks[middle] < rank)
            low = middle + 1;
        else
            high = middle;
    }
    return s->ranks[low] == rank ? low : -1;
}

/* What belongs to a set that is gone is dropped. */
static bool take_contribution(network *n, const uint8_t *bytes, size_t size, const tree_link *from)
{
    tree_contribution m;
    if (size < sizeof m)
        return false;
    memcpy(&m, bytes, sizeof m);
    if (m.set >= RUEDA_MAX_SETS || m.rank >= n->size || m.words > n->segment->header->cache_words ||
        m.news_bytes > segment_news_bytes(n->segment) ||
        size != sizeof m + m.words * sizeof(uint64_t) + m.news_bytes)
        return false;
    const network_set *s = &n->sets[m.set];
    const int index = s->used && s->epoch == m.epoch ? index_of(s, m.rank) : -1;
    if (index < 0 || m.rank == n->rank)
        return true;
    segment_contribution *c = network_part(n, m.set, m.round, (uint16_t)index);
    c->flags = m.flags;
    c->words = m.words;
    c->digest = m.digest;
    c->news_bytes = m.news_bytes;
    c->news_count = m.news_count;
    const uint8_t *bits = bytes + sizeof m;
    memcpy(c->ready, bits, m.words * sizeof(uint64_t));
    memcpy(news_of(n, c), bits + m.words * sizeof(uint64_t), m.news_bytes);
    atomic_store_explicit(&c->round, m.round, memory_order_release);
    say_to_set(n, s, &(struct iovec){(void *)bytes, size}, 1, from);
    return true;
}

/* ---- Aborts and departures ------------------------------------------------------------------- */

void network_tell_abort(network *n, const segment_abort *a)
{
    if (n->told_abort)
        return;
    n->told_abort = true;
    tree_abort message = {
        .header = {sizeof message, TREE_ABORT}, .status = a->status, .rank = a->rank};
    snprintf(message.text, sizeof message.text, "%s", a->text);
    say_to_all(n, &(struct iovec){&message, sizeof message}, 1, NULL);
}

const segment_abort *network_heard_abort(const network *n)
{
    return n->has_heard ? &n->heard : NULL;
}

static bool take_abort(network *n, const uint8_t *bytes, size_t size)
{
    tree_abort m;
    if (size != sizeof m)
        return false;
    memcpy(&m, bytes, sizeof m);
    if (memchr(m.text, '\0', sizeof m.text) == NULL || m.status > RUEDA_ERR_INTERNAL ||
        m.status < RUEDA_ERR_ARGUMENT)
        return false;
    if (n->has_heard)
        return true;
    n->heard.status = m.status;
    n->heard.rank = m.rank;
    memcpy(n->heard.text, m.text, sizeof m.text);
    n->has_heard = true;
    return true;
}

void tree_tell_left(network *n)
{
    const tree_left message = {.header = {sizeof message, TREE_LEFT}, .rank = n->rank};
    say_to_all(n, &(struct iovec){(void *)&message, sizeof message}, 1, NULL);
}

static bool take_left(network *n, const uint8_t *bytes, size_t size, const tree_link *from)
{
    tree_left m;
    if (size != sizeof m)
        return false;
    memcpy(&m, bytes, sizeof m);
    if (m.rank >= n->size)
        return false;
    if (!n->left[m.rank])
        say_to_all(n, &(struct iovec){(void *)bytes, size}, 1, from);
    n->left[m.rank] = true;
    return true;
}

static void close_link(tree_link *l)
{
    network_stream_close(l->stream);
    l->stream = NULL;
    l->in.start = l->in.end;
    l->out.start = l->out.end;
}

/* Both ends of a broken connection may live, and all must name the same rank: it is the higher one.
 * The lower one calls it once more to tell it; one that is not told believes that the lower is dead. */
static void lose_link(network *n, tree_link *l)
{
    close_link(l);
    if (n->left[l->rank] || n->told_abort)
        return;
    if (l->rank < n->rank) {
        network_suspect(n, l->rank, NOTICE_NS);
        return;
    }
    network_lose(n, l->rank, "it died or was cut off");
    if (n->lost == (int)l->rank && open_stream(n, l, true))
        open_link(l);
}

bool tree_adopt_again(network *n, net_link *link)
{
    const net_purpose *p = net_link_purpose(link);
    for (uint32_t i = 0; i < n->link_count; i++) {
        tree_link *l = &n->links[i];
        if (l->rank != p->from || l->rank > n->rank)
            continue;
        close_link(l);
        if (!streams_greet(link) || !open_stream(n, l, false))
            return false;
        streams_attach(l->stream, link);
        return true;
    }
    return false;
}

/* ---- The time -------------------------------------------------------------------------------- */

void tree_ask_time(network *n, uint64_t now_ns)
{
    const uint32_t parent = (uint32_t)boot_parent((int)n->rank);
    tree_time m = {.header = {sizeof m, TREE_TIME}, .asked_ns = now_ns};
    for (uint32_t i = 0; i < n->link_count; i++) {
        if (n->links[i].rank == parent)
            say(n, &n->links[i], &(struct iovec){&m, sizeof m}, 1);
    }
}

/* A question is answered as soon as we know it ourselves; until then it is asked again. */
static bool take_time(network *n, const uint8_t *bytes, size_t size, tree_link *from)
{
    tree_time m;
    if (size != sizeof m)
        return false;
    memcpy(&m, bytes, sizeof m);
    const uint64_t now = os_now_ns();
    if (m.root_ns != 0) {
        clock_take(n, m.asked_ns, m.root_ns, now);
    } else if (clock_is_known(n)) {
        m.root_ns = now + (uint64_t)network_clock_offset(n);
        say(n, from, &(struct iovec){&m, sizeof m}, 1);
    }
    return true;
}

/* ---- Reading --------------------------------------------------------------------------------- */

bool tree_take(network *n, const uint8_t *bytes, size_t size, tree_link *from)
{
    tree_header header;
    memcpy(&header, bytes, sizeof header);
    switch ((enum tree_kind)header.kind) {
    case TREE_CONTRIBUTION:
        return take_contribution(n, bytes, size, from);
    case TREE_ABORT: /* passed on when this rank itself ends, see control_abort */
        return take_abort(n, bytes, size);
    case TREE_LEFT:
        return take_left(n, bytes, size, from);
    case TREE_BEAT:
        return size == sizeof header;
    case TREE_TIME:
        return take_time(n, bytes, size, from);
    }
    return false;
}

static size_t longest_message(const network *n)
{
    return sizeof(tree_contribution) + n->segment->contribution_bytes;
}

/* All complete messages; false: something else. */
static bool take_messages(network *n, tree_link *l)
{
    while (l->in.end - l->in.start >= sizeof(tree_header)) {
        tree_header header;
        memcpy(&header, l->in.bytes + l->in.start, sizeof header);
        if (header.bytes < sizeof header || header.bytes > longest_message(n))
            return false;
        if (l->in.end - l->in.start < header.bytes)
            return true;
        if (!tree_take(n, l->in.bytes + l->in.start, header.bytes, l))
            return false;
        l->in.start += header.bytes;
    }
    return true;
}

bool tree_read(network *n, tree_link *l)
{
    bool moved = false;
    for (net_link *link; (link = open_link(l)) != NULL;) {
        uint8_t *to = queue_room(&l->in, READ_BYTES);
        const ssize_t got = to == NULL ? -1 : net_link_receive(link, to, READ_BYTES);
        if (got == 0)
            break;
        moved = true;
        l->silence_ns = 0;
        if (got < 0) {
            lose_link(n, l);
            break;
        }
        l->in.end += (size_t)got;
        if (!take_messages(n, l)) {
            network_lose(n, l->rank, "it sent what is not understood");
            close_link(l);
        }
    }
    return moved;
}

/* ---- Beats ----------------------------------------------------------------------------------- */

/* Names also the ranks that are probably lost with it: a host that is cut off is more likely than a
 * single rank that is stopped. */
static const char *silence_of(network *n, uint32_t rank)
{
    const size_t room = sizeof n->silence;
    size_t used =
        (size_t)snprintf(n->silence, room, "it has not answered for RUEDA_HEARTBEAT seconds");
    bool alone = true;
    for (uint32_t r = 0; r < n->size && used < room; r++) {
        if (r == rank || network_host(n, r) != network_host(n, rank) || n->left[r])
            continue;
        used +=
            (size_t)snprintf(n->silence + used, room - used, alone ? " (also there: %u" : " %u", r);
        alone = false;
    }
    if (!alone && used < room)
        snprintf(n->silence + used, room - used, ")");
    return n->silence;
}

/* Silence is counted only as far as we were awake ourselves: after a machine has slept nobody is
 * accused. */
void tree_beat(network *n, uint64_t now_ns)
{
    if (n->settings->heartbeat == 0 || now_ns < n->next_beat_ns)
        return;
    const uint64_t limit = (uint64_t)n->settings->heartbeat * SECOND_NS;
    const uint64_t period = limit / BEATS_IN_LIMIT;
    const uint64_t since = n->last_pump_ns == 0 ? 0 : now_ns - n->last_pump_ns;
    n->last_pump_ns = now_ns;
    n->next_beat_ns = now_ns + period;
    for (uint32_t i = 0; i < n->link_count; i++) {
        tree_link *l = &n->links[i];
        if (open_link(l) == NULL)
            continue;
        l->silence_ns += since < 2 * period ? since : 2 * period;
        if (l->silence_ns > limit && n->lost < 0)
            network_lose(n, l->rank, silence_of(n, l->rank));
        if (!l->spoke)
            say(n, l,
                &(struct iovec){&(tree_header){sizeof(tree_header), TREE_BEAT},
                                sizeof(tree_header)},
                1);
        l->spoke = false;
    }
}
