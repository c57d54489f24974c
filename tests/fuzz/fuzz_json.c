/* fuzz_json: any bytes, put to our reader, to our writer and to jansson.  It stops on the first
 * text on which they disagree. */
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "unit/json_oracle.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* fuzz_prefixes reads the bytes as a row of values, as NDJSON is read: each must make progress. */
static void fuzz_prefixes(struct slice text)
{
    struct json value;
    struct slice rest;
    while (json_parse_prefix(text, &value, &rest, NULL) == STATUS_OK) {
        BUG_ON(rest.len >= text.len);
        BUG_ON(value.raw.ptr < text.ptr || value.raw.ptr + value.raw.len > rest.ptr);
        text = rest;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice text = {(const char *)data, size};
    const char *trouble = oracle_disagrees(text);
    if (trouble)
        BUG("%s", trouble);
    fuzz_prefixes(text);
    return 0;
}
