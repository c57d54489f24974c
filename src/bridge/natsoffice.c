/* natsoffice: three desks. */
#include "bridge/natsoffice.h"

#include "base/mem.h"
#include "bridge/announce.h"
#include "bridge/ingest.h"
#include "bridge/republish.h"

struct natsoffice {
    struct natsoffice_config config; /* its texts are in `arena` */
    struct arena arena;
    struct natstally tally;
    struct ingest *ingest;
    struct republish *republish;
    struct announce *announce;
};

/* copy_config copies the texts that the office or a desk's connection goes on using. */
static enum status copy_config(struct natsoffice *office, const struct natsoffice_config *config,
                               struct err *err)
{
    office->config = *config;
    office->config.server_name = arena_dup(&office->arena, slice_of(config->server_name)).ptr;
    return office->config.server_name ? STATUS_OK : err_no_memory(err);
}

enum status natsoffice_open(const struct natsoffice_config *config, struct natsoffice **out,
                            struct err *err)
{
    struct natsoffice *office = mem_zalloc(sizeof(*office));
    if (!office)
        return err_no_memory(err);
    enum status status = copy_config(office, config, err);
    if (status == STATUS_OK)
        status = ingest_open(&office->config, &office->tally, &office->ingest, err);
    if (status == STATUS_OK)
        status = republish_open(&office->config, &office->tally, &office->republish, err);
    if (status == STATUS_OK)
        status = announce_open(&office->config, &office->tally, &office->announce, err);
    if (status != STATUS_OK) {
        natsoffice_close(office);
        return status;
    }
    *out = office;
    return STATUS_OK;
}

void natsoffice_drain(struct natsoffice *office)
{
    if (office->ingest)
        natsdesk_stop(ingest_desk(office->ingest));
    if (office->republish)
        republish_stop(office->republish);
    if (office->announce)
        natsdesk_stop(announce_desk(office->announce));
}

void natsoffice_close(struct natsoffice *office)
{
    if (!office)
        return;
    natsoffice_drain(office);
    ingest_close(office->ingest);
    republish_close(office->republish);
    announce_close(office->announce);
    arena_release(&office->arena);
    mem_free(office);
}

bool natsoffice_publish(struct natsoffice *office, struct slice subject, struct slice body)
{
    struct natsdesk *desk = announce_desk(office->announce);
    char name[256];
    bool sent = false;
    if (subject.len >= sizeof(name) || body.len > INT32_MAX)
        return false;
    memcpy(name, subject.ptr, subject.len);
    name[subject.len] = '\0';
    pthread_mutex_lock(&desk->link_lock);
    if (natslink_connected(desk->link))
        sent = natsConnection_Publish(natslink_connection(desk->link), name, body.ptr,
                                      (int)body.len) == NATS_OK;
    pthread_mutex_unlock(&desk->link_lock);
    return sent;
}

/* is_connected looks at one desk. */
static bool is_connected(struct natsdesk *desk)
{
    pthread_mutex_lock(&desk->link_lock);
    bool connected = natslink_connected(desk->link);
    pthread_mutex_unlock(&desk->link_lock);
    return connected;
}

void natsoffice_counts(struct natsoffice *office, struct natsoffice_counts *out)
{
    struct natstally *tally = &office->tally;
    *out = (struct natsoffice_counts){
        .ingested = atomic_load(&tally->ingested),
        .malformed = atomic_load(&tally->malformed),
        .duplicates = atomic_load(&tally->duplicates),
        .replayed = atomic_load(&tally->replayed),
        .refused = atomic_load(&tally->refused),
        .announced = atomic_load(&tally->announced),
        .announce_skipped = atomic_load(&tally->announce_skipped),
        .reconnects = atomic_load(&tally->reconnects),
        .connected = is_connected(ingest_desk(office->ingest)) &&
                     is_connected(republish_desk(office->republish)) &&
                     is_connected(announce_desk(office->announce)),
    };
}
