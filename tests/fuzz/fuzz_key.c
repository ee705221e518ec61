/* fuzz_key.c: a key is 64 hexadecimal digits and nothing else. */
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
    while (digit(text[digits]) >= 0)
        digits++;
    must(net_key_parse(text, key) == (digits == 64 && text[64] == '\0'));
    for (size_t i = 0; i < NET_KEY_BYTES && digits == 64 && text[64] == '\0'; i++)
        must(key[i] == digit(text[2 * i]) * 16 + digit(text[2 * i + 1]));
    return 0;
}
