/* fuzz_signature.c: the description of a tensor, as another rank sends it. What is understood can be said
 * again with the same bytes. */
#include "fuzz.h"

#include "queue/signature.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    signature said;
    const char *name;
    size_t length, taken, taken_again;
    if (signature_decode(&said, &name, &length, data, bytes, &taken) != RUEDA_OK)
        return 0;
    must(taken <= bytes && length <= RUEDA_MAX_NAME);
    must(signature_encoded_bytes(&said, length) == taken);
    uint8_t *again = malloc(taken);
    must(again != NULL);
    signature_encode(&said, name, length, again);
    signature twice;
    must(signature_decode(&twice, &name, &length, again, taken, &taken_again) == RUEDA_OK);
    must(taken_again == taken);
    must(signature_elements(&said) == signature_elements(&twice));
    signature_conflict("a", &said, 0, &twice, 1);
    signature_fini(&twice);
    signature_fini(&said);
    free(again);
    return 0;
}
