/* structs.c: see structs.h. */
#include "api/structs.h"

#include <stdint.h>
#include <string.h>

rueda_status struct_read_size(const char *call, const struct_kind *kind, const void *given,
                              size_t *bytes)
{
    if (given == NULL)
        return status_fail(RUEDA_ERR_ARGUMENT, "%s: the %s is NULL", call, kind->name);
    memcpy(bytes, given, sizeof *bytes);
    if (*bytes < kind->least || *bytes > STRUCT_MOST)
        return status_fail(RUEDA_ERR_ARGUMENT, "%s: struct_size is %zu; set it to sizeof(%s)", call,
                           *bytes, kind->name);
    return RUEDA_OK;
}

static rueda_status check_unknown(const char *call, const struct_kind *kind, const uint8_t *given,
                                  size_t bytes)
{
    for (size_t i = kind->bytes; i < bytes; i++) {
        if (given[i] != 0)
            return status_fail(
                RUEDA_ERR_ARGUMENT,
                "%s: the program was built with a newer rueda.h and sets a field of "
                "%s, at byte %zu, that librueda %s does not know: update librueda, or "
                "leave the field 0",
                call, kind->name, i, rueda_version());
    }
    return RUEDA_OK;
}

rueda_status struct_read(const char *call, const struct_kind *kind, const void *given, void *own)
{
    size_t bytes = 0;
    rueda_status status = struct_read_size(call, kind, given, &bytes);
    if (status == RUEDA_OK)
        status = check_unknown(call, kind, given, bytes);
    if (status != RUEDA_OK)
        return status;
    const size_t common = bytes < kind->bytes ? bytes : kind->bytes;
    memcpy(own, given, common);
    memcpy((uint8_t *)own + common, (const uint8_t *)kind->defaults + common, kind->bytes - common);
    memcpy(own, &kind->bytes, sizeof kind->bytes);
    return RUEDA_OK;
}

rueda_status struct_write(const char *call, const struct_kind *kind, const void *own, void *given)
{
    size_t bytes = 0;
    const rueda_status status = struct_read_size(call, kind, given, &bytes);
    if (status != RUEDA_OK)
        return status;
    const size_t common = bytes < kind->bytes ? bytes : kind->bytes;
    memcpy(given, own, common);
    memset((uint8_t *)given + common, 0, bytes - common);
    memcpy(given, &bytes, sizeof bytes);
    return RUEDA_OK;
}
