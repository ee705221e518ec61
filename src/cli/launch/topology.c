/* topology.c: see topology.h. The build says whether there is hwloc. */
#include "cli/launch/topology.h"

#include "cli/launch/bytes.h"

#include <stdlib.h>

#ifdef RUEDA_HWLOC
#include <hwloc.h>

static cpu_set_t usable(hwloc_const_bitmap_t of, const cpu_set_t *allowed)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    for (int cpu = hwloc_bitmap_first(of); cpu >= 0 && cpu < CPU_SETSIZE;
         cpu = hwloc_bitmap_next(of, cpu)) {
        if (CPU_ISSET(cpu, allowed))
            CPU_SET(cpu, &set);
    }
    return set;
}

static int socket_of(hwloc_topology_t topology, hwloc_obj_t core)
{
    const hwloc_obj_t package = hwloc_get_ancestor_obj_by_type(topology, HWLOC_OBJ_PACKAGE, core);
    return package != NULL ? (int)package->logical_index : 0;
}

static int list_cores(hwloc_topology_t topology, const cpu_set_t *allowed, topology_core **cores)
{
    const int all = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE);
    if (all <= 0)
        return 0;
    *cores = bytes_new((size_t)all, sizeof **cores);
    int count = 0;
    for (int i = 0; i < all; i++) {
        const hwloc_obj_t core = hwloc_get_obj_by_type(topology, HWLOC_OBJ_CORE, (unsigned)i);
        const cpu_set_t set = usable(core->cpuset, allowed);
        if (CPU_COUNT(&set) > 0)
            (*cores)[count++] = (topology_core){set, socket_of(topology, core)};
    }
    return count;
}

bool topology_knows_cores(void)
{
    return true;
}

static int known_cores(const cpu_set_t *allowed, topology_core **cores)
{
    hwloc_topology_t topology;
    int count = 0;
    if (hwloc_topology_init(&topology) != 0)
        return 0;
    if (hwloc_topology_load(topology) == 0)
        count = list_cores(topology, allowed, cores);
    hwloc_topology_destroy(topology);
    return count;
}
#else
bool topology_knows_cores(void)
{
    return false;
}

static int known_cores(const cpu_set_t *allowed, topology_core **cores)
{
    (void)allowed;
    (void)cores;
    return 0;
}
#endif

int topology_cores(const cpu_set_t *allowed, topology_core **cores)
{
    *cores = NULL;
    int count = known_cores(allowed, cores);
    if (count > 0)
        return count;
    free(*cores);
    *cores = bytes_new((size_t)CPU_COUNT(allowed), sizeof **cores);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (CPU_ISSET(cpu, allowed))
            CPU_SET(cpu, &(*cores)[count++].set);
    }
    return count;
}
