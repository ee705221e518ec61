/* hash.h: the one hash of names and lists, for tables and for numbers that all ranks find alike. No protection
 * against those who choose the names: what must withstand them is libsodium's. */
#ifndef RUEDA_BASE_HASH_H
#define RUEDA_BASE_HASH_H

#include <stdint.h>
#include <string.h>

/* Of these bytes behind what `before` stands for; 0: nothing. Eight at a time: names are long, and looked up for
 * every tensor. The lower half depends on all bits: take what is needed of it as it is. */
static inline uint64_t hash_bytes(uint64_t before, const void *bytes, size_t count)
{
    const uint8_t *at = bytes;
    uint64_t hash = before ^ count * UINT64_C(0x9E3779B97F4A7C15);
    while (count > 0) {
        uint64_t word = 0;
        const size_t part = count < sizeof word ? count : sizeof word;
        memcpy(&word, at, part);
        hash = (hash ^ word) * UINT64_C(0xD6E8FEB86659FD93);
        hash ^= hash >> 32;
        at += part;
        count -= part;
    }
    return hash;
}

#endif
