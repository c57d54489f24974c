/* list: dead letters as a table, as rows or as JSON. */
#include <inttypes.h>

#include "base/mem.h"
#include "cli/grid.h"
#include "cli/letters.h"
#include "cli/request.h"
#include "cli/say.h"
#include "cli/view.h"

#define LIST_LIMIT 50
#define LIST_LIMIT_MAX 10000000

/* struct row: one letter of the table; texts lie in the command's arena. */
struct row {
    struct slice id, age, reason, queue, attempts, signature, state;
    struct row *next;
};

struct listing {
    struct cli *cli;
    struct row *first, **last; /* of a table */
    int64_t count;
};

static int json_row(void *ctx, struct json letter)
{
    struct listing *listing = ctx;
    struct out *out = &listing->cli->out;

    out_str(out, listing->count++ > 0 ? ",\n" : "[");
    out_raw(out, letter.raw);
    return 0;
}

static int plain_row(void *ctx, struct json letter)
{
    static const char *const members[] = {"dlq_id",        "failed_at",       "reason", "queue",
                                          "failure_count", "error_signature", "state"};
    struct listing *listing = ctx;
    struct out *out = &listing->cli->out;
    struct arena arena = {0};

    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        struct slice text = view_text(letter, members[i], &arena);
        out_str(out, i > 0 ? "\t" : "");
        out_clean(out, text.len > 0 ? text : SLICE("-"));
    }
    out_str(out, "\n");
    arena_release(&arena);
    return 0;
}

static struct slice keep(struct cli *cli, struct json letter, const char *member)
{
    return arena_dup(&cli->arena, view_text(letter, member, &cli->arena));
}

static int table_row(void *ctx, struct json letter)
{
    struct listing *listing = ctx;
    struct cli *cli = listing->cli;
    struct row *row = arena_alloc(&cli->arena, sizeof *row);

    if (!row)
        return say_no_memory();
    *row = (struct row){
        .id = keep(cli, letter, "dlq_id"),
        .age = view_age(view_time(letter, "failed_at"), cli->out.now, &cli->arena),
        .reason = keep(cli, letter, "reason"),
        .queue = keep(cli, letter, "queue"),
        .attempts = keep(cli, letter, "failure_count"),
        .signature = keep(cli, letter, "error_signature"),
        .state = keep(cli, letter, "state"),
    };
    if (view_true(letter, "escalated"))
        row->state = SLICE("escalated");
    *listing->last = row;
    listing->last = &row->next;
    listing->count++;
    return 0;
}

static size_t shared_prefix(struct slice a, struct slice b)
{
    size_t i = 0;
    while (i < a.len && i < b.len && a.ptr[i] == b.ptr[i])
        i++;
    return i;
}

/* short_len is how many characters of an id tell the rows apart, and most likely from those that
 * are not shown.  Ids begin with a time, so those that share most stand near each other: each is
 * compared with the next few. */
static size_t short_len(const struct listing *listing)
{
    size_t len = LETTERS_SHORT_ID;
    for (const struct row *a = listing->first; a; a = a->next) {
        size_t near = 0;
        for (const struct row *b = a->next; b && near < 1000; b = b->next, near++) {
            size_t shared = shared_prefix(a->id, b->id);
            if (shared + 1 > len)
                len = shared + 1;
        }
    }
    return len;
}

/* short_id is the first `len` bytes of an id, and the rest of the character that they end in. */
static struct slice short_id(struct slice id, size_t len)
{
    while (len < id.len && ((unsigned char)id.ptr[len] & 0xc0) == 0x80)
        len++;
    return (struct slice){id.ptr, id.len < len ? id.len : len};
}

static int print_table(struct listing *listing, bool states)
{
    static const struct grid_column columns[] = {{.name = "ID"},
                                                 {.name = "AGE", .right = true},
                                                 {.name = "REASON"},
                                                 {.name = "QUEUE"},
                                                 {.name = "ATTEMPTS", .right = true},
                                                 {.name = "STATE"},
                                                 {.name = "SIGNATURE", .cut = true}};
    static const struct grid_column open_columns[] = {
        {.name = "ID"},    {.name = "AGE", .right = true},      {.name = "REASON"},
        {.name = "QUEUE"}, {.name = "ATTEMPTS", .right = true}, {.name = "SIGNATURE", .cut = true}};
    size_t len = short_len(listing);
    struct grid *grid =
        grid_new(&listing->cli->out, states ? columns : open_columns, states ? 7 : 6);

    for (const struct row *row = listing->first; row; row = row->next) {
        struct slice id = short_id(row->id, len);
        struct slice all[] = {id,         row->age,      row->reason, row->queue, row->attempts,
                              row->state, row->signature};
        if (!states)
            all[5] = row->signature;
        grid_add(grid, all);
    }
    return grid_print(grid);
}

/* closing_note says how many letters the listing does not show. */
static int closing_note(struct listing *listing, bool more, bool plain_open)
{
    struct cli *cli = listing->cli;
    struct reply reply;

    if (listing->count == 0)
        out_str(&cli->out, plain_open ? "No dead letters.\n" : "No dead letter matches.\n");
    if (more)
        out_format(&cli->out, "The first %" PRId64 "; --limit shows more.\n", listing->count);
    if (!plain_open)
        return 0;
    int code =
        request_send(cli, "GET", "/api/v1/dlq/stats", (struct slice){0}, (struct slice){0}, &reply);
    if (code == 0) {
        struct json states = view_get(reply.value, "by_state");
        int64_t settled = view_int(states, "recovered") + view_int(states, "discarded") +
                          view_int(states, "rolled_back");
        if (settled > 0)
            out_format(&cli->out,
                       "%" PRId64 " more %s recovered, discarded or rolled back; --state all "
                       "shows them.\n",
                       settled, settled == 1 ? "is" : "are");
    }
    reply_release(&reply);
    return code;
}

static int list_json(struct listing *listing, struct slice query, int64_t limit)
{
    int code = letters_each(listing->cli, query, limit, json_row, listing, NULL);
    if (code == 0 || listing->count > 0)
        out_str(&listing->cli->out, listing->count > 0 ? "]\n" : "[]\n");
    return code;
}

static int list_table(struct listing *listing, struct slice query, int64_t limit)
{
    struct cli *cli = listing->cli;
    const char *state = args_value(&cli->args, "state");
    bool open = state ? strcmp(state, "open") == 0 : !args_has(&cli->args, "recovered");
    bool more = false;
    int code = letters_each(cli, query, limit, table_row, listing, &more);

    if (code == 0)
        code = print_table(listing, !open);
    if (code == 0)
        code = closing_note(listing, more, open && !letters_filtered(&cli->args));
    return code;
}

int cmd_list(struct cli *cli)
{
    struct listing listing = {.cli = cli, .last = &listing.first};
    int64_t limit = LIST_LIMIT;
    struct buf query;
    int code = args_int(&cli->args, "limit", 1, LIST_LIMIT_MAX, &limit);

    buf_init(&query, 64 << 10);
    if (code == 0)
        code = letters_query(cli, &query);
    if (code == 0 && cli->json)
        code = list_json(&listing, buf_slice(&query), limit);
    else if (code == 0 && cli->out.terminal)
        code = list_table(&listing, buf_slice(&query), limit);
    else if (code == 0)
        code = letters_each(cli, buf_slice(&query), limit, plain_row, &listing, NULL);
    buf_release(&query);
    return code;
}
