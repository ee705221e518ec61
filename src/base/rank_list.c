/* rank_list.c: see rank_list.h. */
#include "base/rank_list.h"

#include <stdio.h>

#define NUMBER_MAX 12 /* bytes of a blank, a number and the zero; and of " …" */

void rank_list_add(rank_list *l, uint32_t rank)
{
    const size_t room = sizeof l->text - l->used;
    l->count++;
    if (room >= 2 * NUMBER_MAX)
        l->used += (size_t)snprintf(l->text + l->used, room, " %u", rank);
    else if (room >= NUMBER_MAX && l->text[l->used - 1] >= '0' && l->text[l->used - 1] <= '9')
        l->used += (size_t)snprintf(l->text + l->used, room, " …");
}
