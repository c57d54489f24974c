/* fuzz_yaml: any bytes as YAML.  What is accepted must be JSON; what is
 * refused must say why, with a place, and leave nothing behind. */
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/yaml.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define OUTPUT_MAX (1 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buf out;
    struct err err = {0};
    struct json value;

    buf_init(&out, OUTPUT_MAX);
    enum status status = yaml_to_json((struct slice){(const char *)data, size}, &out, &err);
    if (status == STATUS_OK) {
        if (json_parse(buf_slice(&out), &value, &err) != STATUS_OK)
            BUG("%s", err.text);
    } else {
        BUG_ON(out.len != 0);
        BUG_ON(status == STATUS_INVALID && !strstr(err.text, "column"));
        BUG_ON(err.text[0] == '\0');
    }
    buf_release(&out);
    return 0;
}
