/* key.c: the job's key, as text and from a file. */
#include "net/net.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define KEY_TEXT ((size_t)2 * NET_KEY_BYTES)
#define KEY_FILE_MAX (KEY_TEXT + 64) /* the digits, and room for white space around them */

void net_key_make(char text[2 * NET_KEY_BYTES + 1])
{
    uint8_t key[NET_KEY_BYTES];
    (void)!sodium_init(); /* fails only where there are no random bytes, and those end the program */
    world_random(key, sizeof key);
    sodium_bin2hex(text, KEY_TEXT + 1, key, sizeof key);
    sodium_memzero(key, sizeof key);
}

void net_instance_make(net_identity *me)
{
    (void)!sodium_init();
    world_random(me->instance, sizeof me->instance);
}

const char *net_key_parse(const char *text, uint8_t key[NET_KEY_BYTES])
{
    uint8_t parsed[NET_KEY_BYTES];
    const size_t length = strnlen(text, KEY_TEXT + 1);
    const char *wrong = NULL;
    size_t bytes = 0;
    if (length != KEY_TEXT ||
        sodium_hex2bin(parsed, sizeof parsed, text, length, NULL, &bytes, NULL) != 0 ||
        bytes != sizeof parsed)
        wrong = "it must be 64 hexadecimal digits and nothing else";
    else if (sodium_is_zero(parsed, sizeof parsed))
        wrong = "a key of zeros protects nothing";
    else
        memcpy(key, parsed, sizeof parsed);
    sodium_memzero(parsed, sizeof parsed);
    return wrong;
}

const char *net_key_distrust(int fd)
{
    struct stat file;
    if (fstat(fd, &file) != 0)
        return strerror(errno);
    if (!S_ISREG(file.st_mode))
        return "it is not a regular file";
    if (file.st_uid != geteuid())
        return "it belongs to another user";
    if ((file.st_mode & (S_IRWXG | S_IRWXO)) != 0)
        return "others may use it: chmod 600 it";
    return NULL;
}

/* Cuts white space from both ends. */
static char *trim(char *text, size_t length)
{
    static const char white[] = {' ', '\t', '\r', '\n'};
    while (length > 0 && memchr(white, text[length - 1], sizeof white) != NULL)
        length--;
    text[length] = '\0';
    while (length > 0 && memchr(white, *text, sizeof white) != NULL)
        text++, length--;
    return text;
}

/* Why there is no key in the file, or NULL. */
static const char *take_key(int fd, uint8_t key[NET_KEY_BYTES])
{
    char text[KEY_FILE_MAX + 1];
    const ssize_t length = read(fd, text, KEY_FILE_MAX);
    const char *wrong;
    if (length < 0)
        wrong = strerror(errno);
    else if (memchr(text, '\0', (size_t)length) != NULL)
        wrong = net_key_parse("", key);
    else
        wrong = net_key_parse(trim(text, (size_t)length), key);
    sodium_memzero(text, sizeof text);
    return wrong;
}

rueda_status net_key_read(const char *path, uint8_t key[NET_KEY_BYTES])
{
    /* non-blocking: a pipe of that name must not hold us */
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return status_fail_errno(RUEDA_ERR_CONFIG, "cannot read the key file %.200s", path);
    const char *wrong = net_key_distrust(fd);
    if (wrong == NULL)
        wrong = take_key(fd, key);
    close(fd);
    if (wrong != NULL)
        return status_fail(RUEDA_ERR_CONFIG, "the key file %.200s cannot be used: %s", path, wrong);
    return RUEDA_OK;
}
