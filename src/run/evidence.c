/* evidence: see evidence.h. */
#include "run/evidence.h"

#include "core/failure.h"

#define ESCAPE_MAX 6 /* bytes that one byte becomes at most: \u0001 */
#define KEEP_MIN 64  /* bytes below which no text is cut further */
#define MARK_MAX 48  /* bytes of the mark between head and tail */

/* json_limit is how long a text of `max` bytes may be as JSON. */
static size_t json_limit(size_t max)
{
    return max + max / 4;
}

size_t evidence_put(struct jsonw *out, const char *key, struct slice text, size_t max)
{
    struct buf kept, json;
    struct jsonw w;
    size_t cut = 0;

    if (text.len <= json_limit(max) / ESCAPE_MAX) {
        jsonw_put_string(out, key, text);
        return 0;
    }
    buf_init(&kept, max + MARK_MAX);
    buf_init(&json, (max + MARK_MAX) * ESCAPE_MAX + 2);
    for (size_t keep = max;; keep /= 2) {
        buf_clear(&kept);
        buf_clear(&json);
        cut = text_truncate(text, keep, &kept);
        jsonw_init(&w, &json);
        jsonw_string(&w, buf_slice(&kept));
        if (json.len <= json_limit(max) || keep < KEEP_MIN)
            break;
    }
    jsonw_put_raw(out, key, buf_slice(&json));
    if (out->buf->status == STATUS_OK)
        out->buf->status = kept.status != STATUS_OK ? kept.status : json.status;
    buf_release(&kept);
    buf_release(&json);
    return cut;
}
