/* fuzz_natsurl: a text as the servers of NATS, and as a file with a seed.
 *
 * What is refused must say why, without repeating it.  What is accepted is shown to people without
 * user and password, in a form that is read as itself; and what libnats gets, which it writes into
 * JSON and takes apart at ":" and "@", has no quotes and at most one "@". */
#include <stddef.h>
#include <stdint.h>

#include "bridge/natsurl.h"
#include "bridge/nkey.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_url(const char *text, size_t len)
{
    struct arena arena = {0};
    struct natsurl url, again;
    struct err err = {0};
    if (natsurl_read(text, &arena, &url, &err) != STATUS_OK) {
        BUG_ON(err.text[0] == '\0');
        BUG_ON(len >= 32 && strstr(err.text, text));
    } else {
        BUG_ON(url.count < 1 || url.count > NATSURL_SERVERS_MAX || strchr(url.place, '@'));
        BUG_ON(natsurl_read(url.place, &arena, &again, &err) != STATUS_OK);
        BUG_ON(strcmp(again.place, url.place) != 0 || again.count != url.count);
        BUG_ON(again.secret || again.tls != url.tls);
        for (int i = 0; i < url.count; i++) {
            const char *at = strchr(url.servers[i], '@');
            BUG_ON(strchr(url.servers[i], '"') || (at && strchr(at + 1, '@')));
        }
    }
    arena_release(&arena);
}

static void check_seed(struct slice text)
{
    char public[NKEY_PUBLIC_LEN + 1];
    struct err err = {0};
    struct slice seed = nkey_find(text);
    BUG_ON(seed.len != 0 && seed.len != NKEY_SEED_LEN);
    if (nkey_public(seed, public, &err) == STATUS_OK)
        BUG_ON(public[0] != 'U' || strlen(public) != NKEY_PUBLIC_LEN);
    else
        BUG_ON(err.text[0] == '\0');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena arena = {0};
    struct slice text = arena_dup(&arena, (struct slice){(const char *)data, size});
    check_url(text.ptr, strlen(text.ptr));
    check_seed(text);
    arena_release(&arena);
    return 0;
}
