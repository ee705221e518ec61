/* board.c: see board.h. */
#include "boot/board.h"
#include "world/world.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define BOARD_MAGIC 0x64616f62u /* "boad" */
#define BOARD_VERSION 2
#define BOARD_JOB 64

typedef struct board_rank {
    _Atomic uint64_t joined;  /* the last generation whose rueda_init was done there; 0: none */
    _Atomic uint32_t ended;   /* its process is gone */
    _Atomic uint32_t culprit; /* rank + 1 whom it names; 0: nobody */
    _Atomic uint32_t lost_timeline;
    uint32_t zero;
} board_rank;

typedef struct board_page {
    uint32_t magic, version;
    uint32_t ranks, zero;
    char job[BOARD_JOB];
    board_rank rank[];
} board_page;

struct board {
    int fd; /* the agent's; -1 for a rank */
    size_t bytes;
    board_page *page;
};

static size_t page_bytes(int ranks)
{
    return sizeof(board_page) + (size_t)ranks * sizeof(board_rank);
}

static board *map_page(int fd, size_t bytes)
{
    board *b = malloc(sizeof *b);
    void *page = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (b != NULL && page != MAP_FAILED) {
        *b = (board){.fd = -1, .bytes = bytes, .page = page};
        return b;
    }
    if (page != MAP_FAILED)
        munmap(page, bytes);
    free(b);
    return NULL;
}

/* Sealed, so that no rank can take the memory away under another. */
board *board_make(int ranks, const char *job, char path[BOARD_PATH])
{
    const size_t bytes = page_bytes(ranks);
    const int fd = memfd_create("rueda-board", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return NULL;
    board *b = ftruncate(fd, (off_t)bytes) == 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) == 0
                   ? map_page(fd, bytes)
                   : NULL;
    if (b == NULL) {
        close(fd);
        return NULL;
    }
    b->fd = fd;
    b->page->magic = BOARD_MAGIC;
    b->page->version = BOARD_VERSION;
    b->page->ranks = (uint32_t)ranks;
    snprintf(b->page->job, sizeof b->page->job, "%s", job);
    snprintf(path, BOARD_PATH, "/proc/%d/fd/%d", world_process(), fd);
    return b;
}

void board_note_end(board *b, int rank, uint64_t joined, int named)
{
    board_rank *r = &b->page->rank[rank];
    atomic_store(&r->joined, joined);
    atomic_store(&r->culprit, (uint32_t)(named + 1));
    atomic_store(&r->ended, 1);
}

uint64_t board_joined(const board *b, int rank)
{
    return atomic_load(&b->page->rank[rank].joined);
}

int board_named_by(const board *b, int rank)
{
    const uint32_t culprit = atomic_load(&b->page->rank[rank].culprit);
    return culprit <= b->page->ranks ? (int)culprit - 1 : -1;
}

void board_forget_ranks(board *b)
{
    for (uint32_t r = 0; r < b->page->ranks; r++) {
        atomic_store(&b->page->rank[r].joined, 0);
        atomic_store(&b->page->rank[r].ended, 0);
        atomic_store(&b->page->rank[r].culprit, 0);
        atomic_store(&b->page->rank[r].lost_timeline, 0);
    }
}

/* Whether it is the board of this very job; a program may also have given itself a new place. */
static bool is_ours(const board *b, const config *settings)
{
    const board_page *p = b->page;
    return p->magic == BOARD_MAGIC && p->version == BOARD_VERSION &&
           p->ranks == (uint32_t)settings->size &&
           strncmp(p->job, settings->job.text, sizeof p->job) == 0;
}

board *board_open(const config *settings)
{
    struct stat file;
    if (settings->board.text[0] == '\0' || settings->size < 2)
        return NULL;
    const int fd = open(settings->board.text, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return NULL;
    const size_t bytes = page_bytes((int)settings->size);
    const int seals = fcntl(fd, F_GET_SEALS); /* -1: it is a file of another kind */
    board *b = fstat(fd, &file) == 0 && file.st_size == (off_t)bytes && seals >= 0 &&
                       (seals & F_SEAL_SHRINK) != 0
                   ? map_page(fd, bytes)
                   : NULL;
    close(fd);
    if (b != NULL && !is_ours(b, settings)) {
        board_close(b);
        return NULL;
    }
    return b;
}

void board_note_joined(board *b, int rank, uint64_t generation)
{
    if (b != NULL)
        atomic_store(&b->page->rank[rank].joined, generation);
}

void board_name(board *b, int rank, int culprit)
{
    if (b != NULL && culprit >= 0 && culprit < (int)b->page->ranks && culprit != rank)
        atomic_store(&b->page->rank[rank].culprit, (uint32_t)culprit + 1);
}

void board_note_lost_timeline(board *b, int rank)
{
    if (b != NULL)
        atomic_store(&b->page->rank[rank].lost_timeline, 1);
}

bool board_lost_timeline(const board *b, int rank)
{
    return atomic_load(&b->page->rank[rank].lost_timeline) != 0;
}

static bool is_missing(const board *b, int rank, uint64_t generation)
{
    const board_rank *r = &b->page->rank[rank];
    return atomic_load(&r->ended) != 0 && atomic_load(&r->joined) < generation;
}

/* From a rank that is missing to the one it names, and so on: who names nobody, or, where they name each other, one of
 * those. -1: what the last one has to say is not known yet. */
static int follow(const board *b, int rank, uint64_t generation)
{
    for (uint32_t r = 0; r < b->page->ranks; r++) {
        const int named = board_named_by(b, rank);
        if (named < 0)
            break;
        if (!is_missing(b, named, generation))
            return -1;
        rank = named;
    }
    return rank;
}

int board_missing(const board *b, uint64_t generation)
{
    int found = -1;
    for (int r = 0; b != NULL && r < (int)b->page->ranks; r++) {
        if (!is_missing(b, r, generation))
            continue;
        if (board_named_by(b, r) < 0)
            return r;
        if (found < 0)
            found = follow(b, r, generation);
    }
    return found;
}

void board_close(board *b)
{
    if (b == NULL)
        return;
    munmap(b->page, b->bytes);
    if (b->fd >= 0)
        close(b->fd);
    free(b);
}
