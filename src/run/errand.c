/* errand: a message and a timer. */
#include "run/errand.h"

#define AGAIN_MS 200 /* after a message that could not be carried */
#define AGAIN_MS_MAX 5000
#define PATH_BYTES_MAX 4096

static void on_again(struct loop_timer *timer)
{
    struct errand *errand = (struct errand *)((char *)timer - offsetof(struct errand, again));
    errand_send(errand, errand->message.method);
}

void errand_init(struct errand *errand, struct loop *loop, struct courier *courier,
                 void (*answered)(struct message *message), void *owner)
{
    *errand = (struct errand){.loop = loop, .courier = courier, .again = {.fire = on_again}};
    message_init(&errand->message, "", "", answered, owner);
    buf_init(&errand->path, PATH_BYTES_MAX);
}

void errand_release(struct errand *errand)
{
    errand_stay(errand);
    message_release(&errand->message);
    buf_release(&errand->path);
}

void errand_path(struct errand *errand, const char *before, struct slice name, const char *after)
{
    struct buf *path = &errand->path;
    buf_clear(&errand->message.body);
    buf_clear(path);
    buf_add_str(path, before);
    for (size_t i = 0; i < name.len; i++) {
        char c = name.ptr[i];
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (plain)
            buf_add_char(path, c);
        else
            buf_addf(path, "%%%02X", (unsigned)(unsigned char)c);
    }
    buf_add_str(path, after);
}

void errand_body(struct errand *errand, struct jsonw *w)
{
    buf_clear(&errand->message.body);
    jsonw_init(w, &errand->message.body);
}

void errand_send(struct errand *errand, const char *method)
{
    errand->message.method = method;
    errand->message.path = buf_str(&errand->path);
    courier_send(errand->courier, &errand->message);
}

void errand_later(struct errand *errand, const char *method, struct span after)
{
    errand->message.method = method;
    loop_timer_set(errand->loop, &errand->again, after);
}

bool errand_trouble(struct errand *errand)
{
    bool first = errand->again_ms == 0;
    errand->again_ms = first ? AGAIN_MS : errand->again_ms * 2;
    if (errand->again_ms > AGAIN_MS_MAX)
        errand->again_ms = AGAIN_MS_MAX;
    errand_later(errand, errand->message.method, span_ms(errand->again_ms));
    return first;
}

void errand_fine(struct errand *errand)
{
    errand->again_ms = 0;
}

bool errand_waits(const struct errand *errand)
{
    return errand->again.handle != 0;
}

void errand_stay(struct errand *errand)
{
    loop_timer_clear(errand->loop, &errand->again);
}

bool errand_text(struct json object, const char *name, struct buf *out)
{
    struct json value;
    struct arena arena = {0};
    if (!json_get(object, name, &value) || value.type != JSON_STRING)
        return false;
    buf_clear(out);
    buf_add_slice(out, json_text(value, &arena));
    arena_release(&arena);
    return true;
}
