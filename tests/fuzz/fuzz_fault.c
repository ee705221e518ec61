/* fuzz_fault.c: what RUEDA_FAULT says is understood or refused, and what is understood is within bounds. */
#include "fuzz.h"

#include "exec/fault.h"

#define TEXT_MAX 127

void mesh_cut(mesh *m, uint32_t rank, mesh_links links)
{
    (void)m, (void)rank, (void)links;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    char text[TEXT_MAX + 1];
    fuzz_input in = {data, bytes};
    fuzz_bytes(&in, text, TEXT_MAX);
    text[TEXT_MAX] = '\0';
    fault f;
    const rueda_status status = fault_parse(text, &f);
    must(status == RUEDA_OK || (status == RUEDA_ERR_CONFIG && status_text()[0] != '\0'));
    if (status != RUEDA_OK)
        return 0;
    must((f.kind == FAULT_NONE) == (text[0] == '\0'));
    must(f.rank <= 65535 && f.peer <= 65535 && f.set <= RUEDA_MAX_SETS);
    must(f.operation <= UINT32_MAX && f.step <= UINT32_MAX && f.ms <= 86400000);
    must(!f.done);
    return 0;
}
