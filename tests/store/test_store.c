/* test_store: the embedded store, held to the contracts of store.h. */
#include "store/suite.h"

#include <stdio.h>

#include "base/seams.h"

static enum status sqlite_open(const char *directory, struct store **out, struct err *err)
{
    char path[128];
    snprintf(path, sizeof(path), "%s/store.db", directory);
    return store_sqlite_open(&(struct store_config){path, seams_real()}, out, err);
}

int main(void)
{
    static const struct store_kind sqlite = {"sqlite", sqlite_open, NULL, false};
    return suite_run(&sqlite);
}
