/* rank_list.h: the numbers of ranks in a sentence: " 1 4 7", and " …" where there is no room for all. */
#ifndef RUEDA_BASE_RANK_LIST_H
#define RUEDA_BASE_RANK_LIST_H

#include <stddef.h>
#include <stdint.h>

#define RANK_LIST_TEXT 200

/* Zero is an empty one. */
typedef struct rank_list {
    char text[RANK_LIST_TEXT]; /* each number after a blank */
    size_t used;
    uint32_t count; /* also those that had no room */
} rank_list;

void rank_list_add(rank_list *l, uint32_t rank);

#endif
