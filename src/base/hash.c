/* hash: SHA-256 by OpenSSL.
 *
 * Several digests are taken for every job, and most inputs are short, so what counts is the cost of
 * beginning: the algorithm is fetched once for the process, and each thread keeps one context that
 * is begun anew for each digest and freed when the thread ends.  A digest has no way to fail: when
 * OpenSSL cannot make its two objects the program cannot keep its audit chain, and ends. */
#include "base/hash.h"

#include <openssl/evp.h>
#include <pthread.h>

#include "base/status.h"

#define GATHER_MAX 1024 /* an event is shorter: copying it costs less than a call for each part */

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t context_key; /* only for its destructor */
static EVP_MD *sha256;
static _Thread_local EVP_MD_CTX *thread_context;

static void context_free(void *context)
{
    EVP_MD_CTX_free(context);
    thread_context = NULL;
}

static void fetch(void)
{
    sha256 = EVP_MD_fetch(NULL, "SHA256", NULL);
    if (!sha256 || pthread_key_create(&context_key, context_free) != 0)
        BUG("OpenSSL has no SHA-256");
}

/* context_begin is this thread's context, at the beginning of a digest. */
static EVP_MD_CTX *context_begin(void)
{
    if (!thread_context) {
        pthread_once(&once, fetch);
        EVP_MD_CTX *context = EVP_MD_CTX_new();
        if (!context || pthread_setspecific(context_key, context) != 0)
            BUG("no memory for a digest");
        thread_context = context;
        if (!EVP_DigestInit_ex2(context, sha256, NULL))
            BUG("SHA-256 cannot begin");
    } else if (!EVP_DigestInit_ex2(thread_context, NULL, NULL)) {
        BUG("SHA-256 cannot begin again");
    }
    return thread_context;
}

/* gather puts short parts together, into a buffer of `size` bytes; false when they do not fit. */
static bool gather(const struct slice *parts, size_t count, char *out, size_t size,
                   struct slice *whole)
{
    size_t len = 0;
    for (size_t i = 0; i < count; i++) {
        if (parts[i].len > size - len)
            return false;
        if (parts[i].len)
            memcpy(out + len, parts[i].ptr, parts[i].len);
        len += parts[i].len;
    }
    *whole = (struct slice){out, len};
    return true;
}

struct hash hash_sha256(const struct slice *parts, size_t count)
{
    struct hash hash;
    struct slice whole;
    char bytes[GATHER_MAX];
    if (count > 1 && gather(parts, count, bytes, sizeof(bytes), &whole)) {
        parts = &whole;
        count = 1;
    }
    EVP_MD_CTX *context = context_begin();
    for (size_t i = 0; i < count; i++)
        if (parts[i].len && !EVP_DigestUpdate(context, parts[i].ptr, parts[i].len))
            BUG("SHA-256 cannot go on");
    if (!EVP_DigestFinal_ex(context, hash.bytes, NULL))
        BUG("SHA-256 cannot end");
    return hash;
}

uint64_t hash64(struct slice text)
{
    struct hash hash = hash_sha256(&text, 1);
    uint64_t number = 0;
    for (int i = 0; i < 8; i++)
        number = number << 8 | hash.bytes[i];
    return number ? number : 1;
}
