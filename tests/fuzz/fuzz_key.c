/* fuzz_key.c: a key is 64 hexadecimal digits, not all zero, and nothing else. */
#include "fuzz.h"

#include "net/net.h"

#define TEXT_MAX (4 * NET_KEY_BYTES)

static int digit(char c)
{
    static const char digits[] = "0123456789abcdef0123456789ABCDEF";
    const char *found = c != '\0' ? strchr(digits, c) : NULL;
    return found != NULL ? (int)(found - digits) % 16 : -1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    char text[TEXT_MAX + 1];
    uint8_t key[NET_KEY_BYTES];
    fuzz_input in = {data, bytes};
    fuzz_bytes(&in, text, TEXT_MAX);
    text[TEXT_MAX] = '\0';
    size_t digits = 0;
    int sum = 0;
    for (; digit(text[digits]) >= 0; digits++)
        sum += digit(text[digits]);
    const bool good = digits == 64 && text[64] == '\0' && sum > 0;
    must((net_key_parse(text, key) == NULL) == good);
    for (size_t i = 0; i < NET_KEY_BYTES && good; i++)
        must(key[i] == digit(text[2 * i]) * 16 + digit(text[2 * i + 1]));
    return 0;
}
