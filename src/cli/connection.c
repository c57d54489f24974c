/* connection: this process as the owner of the data directory; see connection.h. */
#include "cli/connection.h"

#include "base/mem.h"
#include "engine/station.h"

struct connection {
    struct station *station;
};

enum status connection_open(const char *data, const struct config *config, struct connection **out,
                            struct err *err)
{
    struct station_config station = {
        .data = data,
        .lock_wait_ms = config->lock_wait_ms,
        .engine = {.live_max = (size_t)config->live_jobs_max,
                   .retention = {.done = config->keep_done,
                                 .recovered = config->keep_recovered,
                                 .discarded = config->keep_discarded}}};
    struct connection *connection = mem_zalloc(sizeof *connection);

    if (!connection)
        return err_no_memory(err);
    enum status status = station_open(&station, &connection->station, err);
    if (status != STATUS_OK) {
        mem_free(connection);
        return status;
    }
    *out = connection;
    return STATUS_OK;
}

void connection_close(struct connection *connection)
{
    if (!connection)
        return;
    station_close(connection->station);
    mem_free(connection);
}

void connection_call(struct connection *connection, const struct api_request *request,
                     struct api_answer *answer)
{
    api_call(station_engine(connection->station), request, answer);
}
