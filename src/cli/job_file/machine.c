/* machine.c: see machine.h. */
#include "cli/job_file/machine.h"

#include "cli/launch/memory.h"
#include "world/world.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DRIVER_GPUS "/proc/driver/nvidia/gpus" /* one folder for each GPU */
#define BYTES_PER_MIB (INT64_C(1) << 20)

static const char *visible_devices(void)
{
    return getenv("CUDA_VISIBLE_DEVICES");
}

static int count_driver_gpus(void)
{
    int count = 0;
    DIR *folder = opendir(DRIVER_GPUS);
    if (folder == NULL)
        return 0;
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;)
        count += entry->d_name[0] != '.';
    closedir(folder);
    return count;
}

static int count_gpus(void)
{
    const char *list = visible_devices();
    if (list == NULL)
        return count_driver_gpus();
    int count = list[0] != '\0' && strcmp(list, "-1") != 0;
    for (; count > 0 && *list != '\0'; list++)
        count += *list == ',';
    return count;
}

const char *job_gpu_name(int index, char *buffer, size_t size)
{
    const char *entry = visible_devices();
    snprintf(buffer, size, "%d", index);
    for (; entry != NULL && index > 0; index--) {
        entry = strchr(entry, ',');
        entry = entry != NULL ? entry + 1 : NULL;
    }
    if (entry != NULL && entry[0] != '\0')
        snprintf(buffer, size, "%.*s", (int)strcspn(entry, ","), entry);
    return buffer;
}

job_capacity job_machine(void)
{
    return (job_capacity){.host = "localhost",
                          .local = true,
                          .slots = JOB_UNKNOWN,
                          .cpus = world_cpu_count(),
                          .mem_mib = memory_here_bytes() / BYTES_PER_MIB,
                          .gpus = count_gpus()};
}
