/* config_targets: the sections `targets` and `deliveries` of the configuration: config.h has how
 * they look.
 *
 * A configuration says where secrets are; they are read only by who needs them, as a command that
 * looks at letters may not be allowed to.  No sentence here repeats a secret, nor what may be one:
 * the value of a header, the name of an environment variable, an address with a password. */
#ifndef LAZARET_CLI_CONFIG_TARGETS_H
#define LAZARET_CLI_CONFIG_TARGETS_H

#include "cli/config.h"
#include "cli/config_keys.h"

/* config_targets_read and config_allow_read read the values of `targets` (into a struct config) and
 * of `deliveries.allow` (into a struct targets). */
config_own config_targets_read;
config_own config_allow_read;

/* config_targets_finish makes `targets` of what was read, once the whole file was: a target that
 * says no times has those of `deliveries`. */
enum status config_targets_finish(struct config *config, struct arena *arena, struct err *err);

/* config_targets_load reads the tokens and the secrets of all targets, into `arena`. STATUS_INVALID
 * names the file of the configuration and the key; `config` is then untouched. */
enum status config_targets_load(struct config *config, struct arena *arena, struct err *err);

/* config_target_load is target `name` alone, with its token and its secret.  STATUS_NOT_FOUND when
 * there is none, and the sentence says which are. */
enum status config_target_load(const struct config *config, struct slice name, struct arena *arena,
                               struct target *out, struct err *err);

/* config_header_check says whether a line, "Name: value", may be a header of a request. */
enum status config_header_check(struct slice line, struct err *err);

#endif
