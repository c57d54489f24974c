/* sign: the signature of Standard Webhooks: HMAC-SHA256 over "id.timestamp.body". */
#ifndef LAZARET_BRIDGE_SIGN_H
#define LAZARET_BRIDGE_SIGN_H

#include "base/buf.h"
#include "base/time.h"

#define SIGN_SECRET_MIN 16 /* bytes of a key */
#define SIGN_SECRET_MAX 64

/* sign_secret reads a secret as it is handed around: "whsec_" and base64, or any other text, whose
 * bytes are the key.  The key is appended to `out`.  STATUS_INVALID when it is no base64, or too
 * short or too long, and `out` is as it was. */
enum status sign_secret(struct slice text, struct buf *out, struct err *err);

/* sign_webhook appends the value of webhook-signature: "v1,BASE64".  `id` is the value of
 * webhook-id, `now` in whole seconds that of webhook-timestamp. */
void sign_webhook(struct slice secret, struct slice id, struct instant now, struct slice body,
                  struct buf *out);

#endif
