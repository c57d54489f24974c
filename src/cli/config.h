/* config: the file of --config, YAML or JSON.
 *
 *     limits:
 *       live_jobs_max: 1000000     refuse new work past this many live jobs
 *     retention:                   purge what has ended after so many days; 0 keeps it for good
 *       done_days: 30
 *       recovered_days: 90
 *       discarded_days: 90
 *     lock_wait_seconds: 10        wait so long for another owner of the data directory
 */
#ifndef LAZARET_CLI_CONFIG_H
#define LAZARET_CLI_CONFIG_H

#include <stdint.h>

#include "base/status.h"
#include "base/time.h"

#define CONFIG_LOCK_WAIT_MS 10000 /* when nothing is said */

struct config {
    int64_t live_jobs_max;                                 /* 0: the engine's default */
    struct span keep_done, keep_recovered, keep_discarded; /* 0: for good */
    uint32_t lock_wait_ms;
};

/* config_init makes the configuration of nobody having said anything. */
void config_init(struct config *config);

/* config_read reads a file over what `config` has.  An unknown key, a wrong type and a value out of
 * range are errors that name the file and the key. */
enum status config_read(const char *path, struct config *config, struct err *err);

#endif
