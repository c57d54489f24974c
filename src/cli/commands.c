/* commands: the table.  To add a flag or a command, add its line here; everything else follows. */
#include "cli/commands.h"

#include "cli/cli.h"

#define SWITCH(NAME, HELP)                                                                         \
    {                                                                                              \
        .name = (NAME), .help = (HELP)                                                             \
    }
#define VALUE(NAME, WHAT, HELP)                                                                    \
    {                                                                                              \
        .name = (NAME), .value = (WHAT), .help = (HELP)                                            \
    }
#define MANY(NAME, WHAT, HELP)                                                                     \
    {                                                                                              \
        .name = (NAME), .value = (WHAT), .many = true, .help = (HELP)                              \
    }
#define ONE_OF(NAME, WHAT, WORDS, HELP)                                                            \
    {                                                                                              \
        .name = (NAME), .value = (WHAT), .words = (WORDS), .closed = true, .help = (HELP)          \
    }
#define OFFER(NAME, WHAT, WORDS, HELP)                                                             \
    {                                                                                              \
        .name = (NAME), .value = (WHAT), .words = (WORDS), .help = (HELP)                          \
    }
#define PATH(NAME, WHAT, HINT, HELP)                                                               \
    {                                                                                              \
        .name = (NAME), .value = (WHAT), .hint = (HINT), .help = (HELP)                            \
    }
#define END_FLAGS                                                                                  \
    {                                                                                              \
        .name = NULL                                                                               \
    }
#define END_EXAMPLES                                                                               \
    {                                                                                              \
        .why = NULL                                                                                \
    }

#define POLICIES "default receipts dispatch governed map background post-adjudication replay"
#define CLASSES                                                                                    \
    "timeout unavailable server_error network congestion rate_limited crashed unknown "            \
    "permission_denied policy_violation invalid_input malformed_payload forbidden_tool "           \
    "scope_mismatch client_error"
#define REASONS                                                                                    \
    "retries_exhausted not_retryable dependency_down not_idempotent undeliverable malformed "      \
    "no_capable_agent all_agents_unavailable policy_denied timeout_assigned timeout_in_progress "  \
    "agent_crashed boot_failure pull_failure crash_loop"

const struct cli_flag cli_common_flags[] = {
    PATH("data", "DIR", HINT_DIR,
         "the data directory (default $LAZARET_DATA, else $XDG_DATA_HOME/lazaret, else "
         "~/.local/share/lazaret)"),
    VALUE("server", "URL",
          "ask the server at this address instead of using a data directory (default $LAZARET_URL; "
          "SSL_CERT_FILE names the authorities that https trusts)"),
    VALUE("token", "TOKEN",
          "who asks the server (default $LAZARET_TOKEN, which other users cannot see)"),
    PATH("config", "FILE", HINT_FILE,
         "limits, retention, targets of deliveries and what serve needs, as YAML or JSON"),
    {.name = "output",
     .letter = 'o',
     .value = "FORMAT",
     .words = "table json",
     .closed = true,
     .help = "table for a person (plain rows without a terminal) or json for a program"},
    {.name = "yes", .letter = 'y', .help = "do it without asking"},
    SWITCH("no-color", "no colour on a terminal (also: NO_COLOR in the environment)"),
    VALUE("actor", "NAME", "who asks, for the evidence (default human:$USER)"),
    {.name = "help", .letter = 'h', .help = "explain the command, with examples"},
    {.name = "version", .letter = 'V', .help = "print the version"},
    END_FLAGS};

static const struct cli_flag no_flags[] = {END_FLAGS};

/* Which letters: the filters of the API, for every command that selects some. */
#define FILTER_FLAGS                                                                               \
    ONE_OF("state", "STATE", "open all dead recovering recovered discarded rolled_back",           \
           "only letters in this state (default open: dead or recovering)"),                       \
        ONE_OF("recovered", "BOOL", "true false",                                                  \
               "only letters that were, or were not, recovered"),                                  \
        VALUE("job-id", "RUN", "only this job, or the jobs of this run"),                          \
        OFFER("reason", "REASON", REASONS, "only letters that died for this reason"),              \
        VALUE("source", "SOURCE", "only letters from this source"),                                \
        VALUE("queue", "QUEUE", "only letters of this queue"),                                     \
        VALUE("signature", "TEXT", "only letters with this error signature"),                      \
        VALUE("fingerprint", "FP", "only letters of this group"),                                  \
        VALUE("error-type", "TYPE", "only letters with this error type"),                          \
        VALUE("q", "WORDS", "only letters in whose error, ids or payload all the words occur"),    \
        VALUE("trace-id", "ID", "only letters of this trace"),                                     \
        VALUE("agent", "ID", "only letters whose last attempt this agent made"),                   \
        VALUE("actor", "NAME", "only letters that this actor brought back or gave up"),            \
        SWITCH("eligible", "only letters whose kind of failure may pass by itself"),               \
        VALUE("after", "TIME", "only letters that died at this time (RFC 3339) or later"),         \
        VALUE("before", "TIME", "only letters that died before this time"),                        \
        VALUE("attempts-min", "N", "only letters with at least N failed attempts"),                \
        VALUE("attempts-max", "N", "only letters with at most N failed attempts"),                 \
        VALUE("filter", "EXPR", "only letters that EXPR is true for: item.size > 9")

static const struct cli_flag push_flags[] = {
    VALUE("action", "NAME", "what is to be done: the one member that an envelope must have"),
    VALUE("inputs", "JSON|@FILE", "the inputs, as JSON or from a file"),
    VALUE("queue", "QUEUE", "the queue (default: default)"),
    VALUE("priority", "N", "0 to 9, 9 first (default 4)"),
    OFFER("policy", "NAME", POLICIES, "the retry policy (default: default)"),
    VALUE("job-id", "ID", "the job's id, up to 200 bytes (default: a UUID)"),
    VALUE("idempotency-key", "KEY", "while a live job has this key, that one is the answer"),
    VALUE("retry-key", "KEY", "likewise, for the background system's key"),
    VALUE("run-at", "TIME", "not before this time (RFC 3339)"),
    VALUE("delay", "SPAN", "not before so long from here: 90s, 10m, 2h, 7d"),
    VALUE("trace-id", "ID", "the trace that it belongs to"),
    MANY("capability", "NAME", "what a worker must be able to do"),
    VALUE("source", "NAME", "where it comes from"),
    VALUE("requested-by", "NAME", "who wants it"),
    END_FLAGS};

static const struct cli_example push_examples[] = {
    {"Push a job from flags.",
     "lazaret push --action send_invoice --inputs '{\"id\": 7}' --queue billing"},
    {"Push the envelope in a file, or every one of an array or of NDJSON.",
     "lazaret push jobs.ndjson"},
    {"At most one live job with a key: pushing again answers with the job that is there.",
     "lazaret push --action sync --idempotency-key sync-42 --policy governed"},
    {"Push from another program and read its id.",
     "make-envelope | lazaret push - -o json | jq -r .job_id"},
    END_EXAMPLES};

/* Where receipts go: of send and dlq recover. */
#define ENDPOINT_FLAGS                                                                             \
    VALUE("to", "URL",                                                                             \
          "the endpoint: an address, or the name of a target of --config (required)"),             \
        SWITCH("mcp", "call a tool over MCP; /mcp is added to the address when it is missing"),    \
        OFFER("tool", "NAME", "asyncgate.complete asyncgate.fail asyncgate.report_progress",       \
              "the tool (default: by the status of the receipt)"),                                 \
        VALUE("token", "TOKEN",                                                                    \
              "Authorization: Bearer for the endpoint; a Lazaret server is told who asks by "      \
              "$LAZARET_TOKEN"),                                                                   \
        PATH("token-file", "FILE", HINT_FILE,                                                      \
             "likewise, from a file, so that no other user can see it"),                           \
        MANY("header", "LINE", "one more header: 'X-Team: billing'"),                              \
        VALUE("timeout", "SPAN", "for a whole request (default 30s)"),                             \
        VALUE("connect-timeout", "SPAN", "to connect (default 10s)"),                              \
        SWITCH("follow", "follow redirects on the same host, up to five (default: a failure)"),    \
        PATH("receipts-file", "FILE", HINT_FILE,                                                   \
             "the file of dead receipts (default DIR/dlq/receipts.json)")

static const struct cli_flag send_flags[] = {
    ENDPOINT_FLAGS,
    PATH("receipt", "FILE", HINT_FILE, "the receipt, as JSON (default \"-\": standard input)"),
    OFFER("policy", "NAME", POLICIES, "the retry policy (default receipts: 5 runs in 30 s)"),
    END_FLAGS};

static const struct cli_example send_examples[] = {
    {"Send a receipt; on exhaustion it waits in the quarantine.",
     "lazaret send --to https://hooks.example.org/receipts --receipt receipt.json"},
    {"Call asyncgate.complete, or asyncgate.fail for a receipt whose status is failed.",
     "lazaret send --to https://asyncgate.example.org --mcp --token-file token < receipt.json"},
    END_EXAMPLES};

static const struct cli_flag recover_flags[] = {
    ENDPOINT_FLAGS,
    PATH("file", "FILE", HINT_FILE,
         "recover the entries of this file (default: all dead receipts, and what was added to "
         "their file by hand)"),
    SWITCH("wait", "when the endpoint does not answer, wait until it does"),
    VALUE("parallel", "N", "send so many at once (default 8)"), END_FLAGS};

static const struct cli_example recover_examples[] = {
    {"The endpoint is back: bring every dead receipt there.",
     "lazaret dlq recover --to https://asyncgate.example.org --mcp"},
    {"The file of another machine, as soon as the endpoint answers.",
     "lazaret dlq recover --file receipts.json --to https://hooks.example.org/receipts --wait"},
    END_EXAMPLES};

/* Where NATS is, and who asks: of serve and dlq publish. */
#define NATS_FLAGS(HELP)                                                                           \
    VALUE("nats", "URL", HELP),                                                                    \
        PATH("nats-creds", "FILE", HINT_FILE, "a credentials file of NATS: a JWT and its seed"),   \
        PATH("nats-nkey", "FILE", HINT_FILE, "a file with the seed of an nkey"),                   \
        VALUE("nats-user", "NAME", "a user of NATS, with --nats-password-file"),                   \
        PATH("nats-password-file", "FILE", HINT_FILE, "the user's password, on one line"),         \
        PATH("nats-token-file", "FILE", HINT_FILE, "a token for NATS, on one line"),               \
        PATH("nats-tls-ca", "FILE", HINT_FILE,                                                     \
             "the authorities that TLS with NATS trusts, as PEM (default: the system's)"),         \
        PATH("nats-tls-cert", "FILE", HINT_FILE, "the certificate to show to NATS, as PEM"),       \
        PATH("nats-tls-key", "FILE", HINT_FILE, "its private key, as PEM")

static const struct cli_flag publish_flags[] = {
    NATS_FLAGS("the NATS servers: nats://HOST:PORT or tls://HOST:PORT, several with commas between "
               "(default $NATS_URL)"),
    VALUE("subject", "SUBJECT",
          "the subject that the payload was meant for, and is replayed to (required)"),
    OFFER("reason", "REASON", REASONS, "why it is dead; decides the subject it goes to (required)"),
    VALUE("detail", "TEXT", "why, in a sentence for people"),
    VALUE("source", "NAME", "who gave it up (default cli)"),
    VALUE("retry-count", "N", "how often it was tried (default: the entries of --history)"),
    VALUE("max-retries", "N", "how often it might have been (default: the same)"),
    PATH("history", "FILE", HINT_FILE,
         "the attempts: a JSON array of {attempt, attempted_at, agent, failure_reason}"),
    SWITCH("not-recoverable", "no machine may replay it: a person has to look at it"),
    VALUE("dlq-id", "UUID", "the letter's id; the same id is stored once (default: a new one)"),
    VALUE("failed-at", "TIME", "when it died (RFC 3339; default: now)"),
    VALUE("timeout", "SPAN", "how long to wait for the stream to have it (default 5s)"),
    END_FLAGS};

static const struct cli_example publish_examples[] = {
    {"Give a task up that nobody can do, and print the letter's id.",
     "lazaret dlq publish --nats nats://127.0.0.1:4222 --subject swarm.task.request --reason "
     "no_capable_agent --detail 'nobody can research' task.json"},
    {"From another program, with its attempts; $NATS_URL says where NATS is.",
     "make-task | lazaret dlq publish --subject swarm.task.request --reason agent_crashed "
     "--history attempts.json -"},
    END_EXAMPLES};

static const struct cli_flag map_flags[] = {
    PATH("input", "FILE", HINT_FILE,
         "the items: a JSON array, NDJSON, or one string a line; \"-\" is standard input"),
    ONE_OF("input-format", "FORMAT", "json ndjson lines",
           "what the input is (default: by its name, then by its first character)"),
    VALUE("json-path", "PATH", "which values of a JSON document are items: '$.items[*]'"),
    VALUE("id-field", "PATH", "the field that is an item's id (default: a hash of the item)"),
    VALUE("filter", "EXPR", "only items that match: item.size > 10 && item.kind == 'a'"),
    VALUE("sort-by", "KEYS", "run them in this order: 'item.priority DESC, item.name'"),
    VALUE("distinct", "PATH", "only the first item with each value of this field"),
    VALUE("offset", "N", "leave the first N items out"),
    VALUE("max-items", "N", "run at most N items"),
    {.name = "workflow",
     .letter = 'f',
     .value = "FILE",
     .hint = HINT_FILE,
     .help = "setup, map, reduce and error policy from a file (docs/workflows.md)"},
    VALUE("parallel", "N", "so many at a time (default: the number of processors)"),
    VALUE("retry", "N", "allow N runs of an item in all (default 3, 1 and 2 seconds apart)"),
    OFFER("policy", "NAME", POLICIES, "the retry policy (default: map)"),
    ONE_OF("on-item-failure", "WHAT", "dlq retry skip stop custom",
           "what follows when an item has failed for good: quarantine and go on (dlq, the "
           "default), the same with retries at once (retry), give it up (skip), stop the run "
           "(stop), or ask --custom after each failure (custom)"),
    VALUE("custom", "CMD",
          "a shell command that gets the failure as JSON on its standard input; its exit code "
          "decides: 0 handled, 75 retry, else quarantine"),
    VALUE("timeout", "SPAN", "end a command, and all it started, after this time: 90s, 10m"),
    VALUE("grace", "SPAN", "between TERM and KILL (default 5s)"),
    VALUE("validate", "CMD", "a shell command that must succeed after the item's command"),
    SWITCH("worktree", "give each item a git worktree and branch, and merge them back"),
    SWITCH("commit-required", "an item that made no commit has failed (with --worktree)"),
    VALUE("max-failures", "N", "stop the run when N items have failed"),
    VALUE("failure-threshold", "SHARE",
          "stop the run when more than this share of at least 10 items has failed: 0.2"),
    VALUE("job-id", "RUN", "the run's id (default: made from the time)"),
    SWITCH("resume",
           "go on with a run: pending, due and cut-off items; done ones do not run again"),
    SWITCH("dry-run", "print the commands that would be run, and change nothing"),
    END_FLAGS};

static const struct cli_example map_examples[] = {
    {"Run a command for each line of a file, four at a time.",
     "lazaret map --input files.txt --parallel 4 -- gzip -k {}"},
    {"Items from JSON, with fields of each in the command.",
     "lazaret map --input users.json --json-path '$.users[*]' --id-field id -- ./greet {name} "
     "{mail}"},
    {"Go on with a run that was interrupted.", "lazaret map --resume --job-id nightly"},
    {"Look at what failed, and run one group of it again.",
     "lazaret dlq analyze --job-id nightly; lazaret dlq retry --group 3f2a9c41d0e7b865"},
    END_EXAMPLES};

static const struct cli_flag work_flags[] = {
    MANY("queue", "QUEUE", "only jobs of this queue (default: any)"),
    VALUE("parallel", "N", "so many at a time (default 1)"),
    MANY("capabilities", "A,B", "what this worker can do"),
    MANY("scopes", "A,B", "the scopes that it may work in (default: any)"),
    MANY("permissions", "A,B", "the permissions that it has (default: any)"),
    VALUE("worker-id", "ID", "its name (default: the host's and the process id)"),
    VALUE("timeout", "SPAN", "end a command, and all it started, after this time"),
    VALUE("grace", "SPAN", "between TERM and KILL (default 5s)"),
    VALUE("lease", "SPAN", "how long a job stays ours without a heartbeat (default 30s)"),
    VALUE("drain-timeout", "SPAN",
          "after SIGTERM, end what still runs after this time (default: let it finish)"),
    PATH("artifacts", "DIR", HINT_DIR, "where the whole output of commands is kept"),
    SWITCH("until-empty", "end when there is nothing to do"),
    SWITCH("supervise", "keep COMMAND, an agent, running, instead of running it for each job"),
    VALUE("health", "CMD",
          "with --supervise: a shell command that succeeds while the agent is well"),
    VALUE("health-interval", "SPAN", "between two of these, and what each may take (default 10s)"),
    VALUE("pull", "CMD", "with --supervise: a shell command before each start of the agent"),
    VALUE("restart-delay", "SPAN",
          "with --supervise: before the first restart; doubled for each that follows, up to 1m "
          "(default 1s)"),
    VALUE("restart-window", "SPAN",
          "with --supervise: 5 restarts within this time are a crash loop (default 10m)"),
    END_FLAGS};

static const struct cli_example work_examples[] = {
    {"Run a script for each job of a queue, two at a time. The job is on its standard input.",
     "lazaret work --queue billing --parallel 2 -- ./send-invoice"},
    {"Take what is there, and end.", "lazaret work --queue nightly --until-empty -- ./step {id}"},
    {"A worker of a server's, with what it can do.",
     "lazaret work --server http://127.0.0.1:8700 --capabilities research,summarize -- ./agent"},
    {"Keep an agent up; give up, with a dead letter, when it crashes again and again.",
     "lazaret work --supervise --health 'curl -fs localhost:9000/health' -- ./agent 9000"},
    END_EXAMPLES};

static const struct cli_flag list_flags[] = {
    FILTER_FLAGS, VALUE("limit", "N", "at most N letters (default 50)"),
    ONE_OF("sort", "ORDER", "newest oldest", "which come first (default newest)"), END_FLAGS};

static const struct cli_example list_examples[] = {
    {"What needs attention, the newest first.", "lazaret dlq list"},
    {"Those that timed out in one queue.", "lazaret dlq list --queue billing --q 'timed out'"},
    {"Everything that ever died of it, also what was brought back.",
     "lazaret dlq list --reason retries_exhausted --state all"},
    {"Items of a run, by what is in them.",
     "lazaret dlq list --job-id nightly-42 --filter 'item.size > 1000 && failure_count >= 3'"},
    {"The ids, for a script.", "lazaret dlq list --eligible -o json | jq -r '.[].dlq_id'"},
    END_EXAMPLES};

static const struct cli_example show_examples[] = {
    {"Why it is dead, every attempt, and what to do next.", "lazaret dlq show 0192f3a4"},
    {"One letter, for a program.", "lazaret dlq show 0192f3a4 -o json"},
    END_EXAMPLES};

static const struct cli_flag analyze_flags[] = {
    VALUE("job-id", "RUN", "only the letters of this run"),
    PATH("export", "FILE", HINT_FILE, "also write the analysis to FILE as JSON"),
    SWITCH("force", "replace FILE when it exists"), END_FLAGS};

static const struct cli_example analyze_examples[] = {
    {"What fails, how often and when.", "lazaret dlq analyze"},
    {"One run's failures, kept as a file.",
     "lazaret dlq analyze --job-id nightly-42 --export nightly-42.json"},
    END_EXAMPLES};

static const struct cli_flag groups_flags[] = {
    VALUE("job-id", "RUN", "only the groups of this run's letters, the largest first"),
    VALUE("limit", "N", "at most N groups (default 50)"), END_FLAGS};

static const struct cli_example groups_examples[] = {
    {"Which errors there are, with a count each.", "lazaret dlq groups"},
    {"Then the letters of one, and all of them back.",
     "lazaret dlq list --fingerprint 3f2a9c41d0e7b865"},
    END_EXAMPLES};

static const struct cli_example stats_examples[] = {{"The counts.", "lazaret dlq stats"},
                                                    END_EXAMPLES};

#define SELECT_FLAGS                                                                               \
    VALUE("group", "FP", "the open letters of this group"), SWITCH("all", "every open letter"),    \
        VALUE("filter", "EXPR", "of those, only the ones that EXPR is true for"),                  \
        VALUE("note", "TEXT", "why, in your words: it stands in the evidence")

static const struct cli_flag retry_flags[] = {
    SELECT_FLAGS,
    VALUE("max-retries", "N", "allow N runs in this round instead of the policy's"),
    PATH("patch", "FILE", HINT_FILE,
         "edit first: a JSON Patch (an array) or a merge patch (an object)"),
    VALUE("queue", "QUEUE", "into this queue"),
    OFFER("policy", "NAME", POLICIES, "under this policy"),
    SWITCH("force", "also letters of the selection that need review or are not eligible"),
    VALUE("parallel", "N", "of items of a map run: so many at a time (default: as the run was)"),
    SWITCH("wait", "wait until each has succeeded or died again"),
    END_FLAGS};

static const struct cli_example retry_examples[] = {
    {"Try one.", "lazaret dlq retry 0192f3a4"},
    {"See it succeed, then the rest of its group.",
     "lazaret dlq retry --group 3f2a9c41d0e7b865 --note 'disk is back'"},
    {"The items of a run that may pass by themselves.",
     "lazaret dlq retry nightly-42 --filter 'reprocess_eligible == true'"},
    {"Repair the payload and retry.",
     "echo '{\"inputs\": {\"currency\": \"EUR\"}}' | lazaret dlq retry 0192f3a4 --patch -"},
    END_EXAMPLES};

static const struct cli_flag discard_flags[] = {SELECT_FLAGS, END_FLAGS};

static const struct cli_example discard_examples[] = {
    {"Give one up; \"dlq restore\" takes it back.",
     "lazaret dlq discard 0192f3a4 --note 'customer cancelled'"},
    {"Give a whole group up.", "lazaret dlq discard --group 3f2a9c41d0e7b865"},
    END_EXAMPLES};

static const struct cli_flag serve_flags[] = {
    VALUE("listen", "HOST:PORT", "where the API is (default 127.0.0.1:8700; port 0: any free one)"),
    VALUE("store", "STORE",
          "sqlite:PATH, a file (default DIR/lazaret.db), or postgres://USER@HOST/DATABASE, which "
          "many servers may share"),
    SWITCH("postgres-pooled",
           "PostgreSQL is reached through a pooler in transaction mode, such as pgbouncer"),
    VALUE("server-name", "NAME",
          "what this server is called among those of one store (default: the host and the data "
          "directory)"),
    PATH("tokens", "FILE", HINT_FILE, "who may ask (default DIR/tokens.json; see \"token\")"),
    PATH("tls-cert", "FILE", HINT_FILE, "the certificate for TLS, with its chain, as PEM"),
    PATH("tls-key", "FILE", HINT_FILE, "its private key, as PEM"),
    PATH("access-log", "FILE", HINT_FILE, "a JSON line for each request; - is standard error"),
    PATH("receipts-file", "FILE", HINT_FILE,
         "the file that mirrors dead receipts (default DIR/dlq/receipts.json)"),
    SWITCH("metrics", "answer /metrics (the default)"),
    SWITCH("no-metrics", "do not"),
    NATS_FLAGS("take dead letters in from the stream DLQ of these NATS servers, publish own ones "
               "there, and replay: nats://HOST:PORT or tls://HOST:PORT, several with commas "
               "between"),
    VALUE("scan-interval", "SPAN",
          "look so often for letters that a machine may replay, and replay them (default 5m with "
          "--nats, else never)"),
    VALUE("slack-webhook", "URL|@FILE",
          "tell a Slack channel of dead letters: the first of a group at once, then digests"),
    VALUE("alert-webhook", "URL|@FILE", "tell any other endpoint likewise, as JSON"),
    END_FLAGS};

static const struct cli_example serve_examples[] = {
    {"On this machine.", "lazaret serve"},
    {"For others, who show tokens, over TLS.",
     "lazaret serve --listen 0.0.0.0:8700 --tls-cert cert.pem --tls-key key.pem"},
    {"From another program: a free port, read from the line that says ready.",
     "lazaret serve --data ./lazaret --listen 127.0.0.1:0"},
    END_EXAMPLES};

static const struct cli_flag note_flags[] = {
    VALUE("note", "TEXT", "why, in your words: it stands in the evidence"), END_FLAGS};

static const struct cli_example rollback_examples[] = {
    {"Undo what a half-done job did.", "lazaret dlq rollback 0192f3a4"}, END_EXAMPLES};
static const struct cli_example escalate_examples[] = {
    {"Hand it to a person.", "lazaret dlq escalate 0192f3a4 --note 'needs finance'"}, END_EXAMPLES};
static const struct cli_example restore_examples[] = {
    {"Take a discard back.", "lazaret dlq restore 0192f3a4"}, END_EXAMPLES};

static const struct cli_flag export_flags[] = {
    ONE_OF("format", "FORMAT", "json csv map receipts", "what to write (default json)"),
    FILTER_FLAGS, SWITCH("force", "replace what is there"), END_FLAGS};

static const struct cli_example export_examples[] = {
    {"All open letters with all their evidence.", "lazaret dlq export letters.json"},
    {"For a spreadsheet, on standard output.", "lazaret dlq export - --format csv"},
    {"One run as the map system's files.",
     "lazaret dlq export nightly-42 --format map --job-id nightly-42"},
    END_EXAMPLES};

static const struct cli_example import_examples[] = {
    {"Letters of another data directory, or a receipts.json.", "lazaret dlq import letters.json"},
    {"A directory of the map system.", "lazaret dlq import nightly-42"},
    END_EXAMPLES};

static const struct cli_flag purge_flags[] = {
    VALUE("older-than-days", "N", "letters that died more than N days ago; required"),
    VALUE("job-id", "RUN", "only the letters of this run"),
    SWITCH("force", "also letters that still need review"), END_FLAGS};

static const struct cli_example purge_examples[] = {
    {"Remove what died a quarter ago and needs nobody's review.",
     "lazaret dlq purge --older-than-days 90"},
    {"From a timer, where nobody can be asked.", "lazaret dlq purge --older-than-days 90 --yes"},
    END_EXAMPLES};

static const struct cli_flag clear_flags[] = {
    SWITCH("force", "also letters that still need review"), END_FLAGS};

static const struct cli_example clear_examples[] = {
    {"Remove what a run left.", "lazaret dlq clear nightly-42"}, END_EXAMPLES};

static const struct cli_example policy_list_examples[] = {
    {"Which policies there are.", "lazaret policy list"}, END_EXAMPLES};
static const struct cli_example policy_show_examples[] = {
    {"Start a policy of your own from one that is there.",
     "lazaret policy show governed > mine.json"},
    END_EXAMPLES};
static const struct cli_example policy_set_examples[] = {
    {"Set a policy from a file.", "lazaret policy set billing mine.json"},
    {"From standard input.",
     "echo '{\"max_attempts\": 3, \"backoff_strategy\": \"fixed\"}' | lazaret policy set quick -"},
    END_EXAMPLES};
static const struct cli_example policy_explain_examples[] = {
    {"When would it try again?", "lazaret policy explain governed"},
    {"For a program: the delays before jitter, in seconds.",
     "lazaret policy explain governed -o json"},
    END_EXAMPLES};

static const struct cli_flag simulate_flags[] = {
    OFFER("class", "CLASS", CLASSES, "what every attempt fails with (default timeout)"),
    VALUE("http-status", "N", "or the HTTP status that it fails with"),
    VALUE("failure", "JSON|@FILE", "or a whole failure, as a worker reports it"),
    SWITCH("idempotent", "as a job that has an idempotency key"),
    VALUE("seed", "N", "of the jitter: the same number gives the same delays (default 0)"),
    END_FLAGS};

static const struct cli_example simulate_examples[] = {
    {"A job that always times out, attempt by attempt.", "lazaret policy simulate governed"},
    {"What a refusal leads to.", "lazaret policy simulate dispatch --http-status 403"},
    END_EXAMPLES};

static const struct cli_flag audit_show_flags[] = {
    VALUE("job-id", "ID", "only events of this job"),
    VALUE("dlq-id", "ID", "only events of this letter's job"),
    VALUE("after", "SEQ", "only events after this one"),
    VALUE("limit", "N", "at most N events (default 50)"), END_FLAGS};

static const struct cli_example audit_show_examples[] = {
    {"Everything that happened to a job, and who did it.", "lazaret audit show --job-id inv-7"},
    {"Follow: what came after event 120.", "lazaret audit show --after 120"},
    END_EXAMPLES};
static const struct cli_example audit_verify_examples[] = {
    {"Has anybody touched the evidence?", "lazaret audit verify"}, END_EXAMPLES};

static const struct cli_flag audit_export_flags[] = {
    VALUE("job-id", "ID", "only events of this job"),
    VALUE("after", "SEQ", "only events after this one"), SWITCH("force", "replace what is there"),
    END_FLAGS};

static const struct cli_example audit_export_examples[] = {
    {"The whole chain, one event a line.", "lazaret audit export audit.ndjson"}, END_EXAMPLES};

#define ROLES "viewer worker operator reviewer admin"
#define TOKENS_FLAG                                                                                \
    PATH("tokens", "FILE", HINT_FILE,                                                              \
         "the token file (default: what the configuration says, else tokens.json in the data "     \
         "directory)")

static const struct cli_flag token_create_flags[] = {
    ONE_OF("role", "ROLE", ROLES, "what its bearer may do; required"),
    VALUE("expires", "SPAN", "how long it is valid: 90s, 10m, 2h, 7d (default: until revoked)"),
    TOKENS_FLAG, END_FLAGS};
static const struct cli_flag token_flags[] = {TOKENS_FLAG, END_FLAGS};

static const struct cli_example token_create_examples[] = {
    {"A token for a worker, kept in a variable.", "T=$(lazaret token create ci --role worker)"},
    {"One that ends by itself.", "lazaret token create ada --role operator --expires 30d"},
    END_EXAMPLES};
static const struct cli_example token_list_examples[] = {
    {"Who may ask, and as what.", "lazaret token list"}, END_EXAMPLES};
static const struct cli_example token_revoke_examples[] = {
    {"Take a token back; a server notices within a second or two.", "lazaret token revoke ci"},
    {"Replace one: the name is free again.",
     "lazaret token revoke ci && lazaret token create ci --role worker"},
    END_EXAMPLES};

static const struct cli_example status_examples[] = {
    {"One screen: queues, states, dead letters, trend.", "lazaret status"}, END_EXAMPLES};
static const struct cli_example help_examples[] = {{"Explain a command.", "lazaret help dlq retry"},
                                                   END_EXAMPLES};
static const struct cli_example completion_examples[] = {
    {"Completion for this shell.", "source <(lazaret completion bash)"},
    {"For every shell to come.",
     "lazaret completion fish > ~/.config/fish/completions/lazaret.fish"},
    END_EXAMPLES};
static const struct cli_example man_examples[] = {{"Read it.", "lazaret man | man -l -"},
                                                  END_EXAMPLES};
static const struct cli_example no_examples[] = {END_EXAMPLES};

const struct cli_command cli_commands[] = {
    {.name = "push",
     .operands = "[FILE]",
     .summary = "enqueue a job",
     .about = "Takes the job's envelope from FILE, from standard input when FILE is \"-\", or from "
              "flags. A file may also hold an array of envelopes, or one after the other (NDJSON): "
              "all are pushed. The envelope is kept byte for byte. When the command ends with 0, "
              "every job is on disk.\n\n"
              "Pushing a job_id that is known, with the same bytes, changes nothing and says so; "
              "with other bytes it is refused.",
     .flags = push_flags,
     .examples = push_examples,
     .operands_max = 1,
     .hint = HINT_FILE,
     .run = cmd_push},
    {.name = "map",
     .operands = "[-- COMMAND ARG...]",
     .summary = "run a command for each of many items, and quarantine what fails",
     .about =
         "Every item is a job: on disk before it runs, retried by a policy, and quarantined with "
         "the evidence of every attempt when that is of no use. The run goes on. What failed is "
         "seen with \"lazaret dlq\" and run again with \"lazaret dlq retry RUN\".\n\n"
         "In COMMAND, {} is the item and {field.path} a field of it; arguments are passed as they "
         "are, never through a shell. The environment has LAZARET_ITEM, LAZARET_ITEM_ID, "
         "LAZARET_ATTEMPT and LAZARET_JOB_ID (the run); LAZARET_ITEM_FILE names a file with an "
         "item that is "
         "too large for a variable. A command that fails may say more on descriptor 3, "
         "or in the file $LAZARET_FAILURE_FILE: a failure object, with class, message, "
         "retry_after_seconds and the rest.\n\n"
         "What a command writes is kept: the beginning and the end in the evidence, the whole in "
         "DIR/artifacts. Ctrl-C takes no more items and lets those that run finish; a second one "
         "ends them, and records that. \"--resume\" goes on after either, and after a crash.\n\n"
         "The exit code is 0 when the run came to its end, also when items were quarantined; 1 "
         "when it was "
         "stopped or interrupted; 2 when the items cannot be read.",
     .flags = map_flags,
     .examples = map_examples,
     .operands_max = OPERANDS_ANY,
     .local = true,
     .run = cmd_map},
    {.name = "work",
     .operands = "-- COMMAND ARG...",
     .summary = "lease jobs, run a command for each, report the outcome",
     .about =
         "The job's envelope is on the command's standard input, byte for byte; its fields are in "
         "the environment: "
         "LAZARET_JOB_ID, LAZARET_ATTEMPT, LAZARET_QUEUE, LAZARET_ACTION, LAZARET_TRACE_ID, "
         "LAZARET_IDEMPOTENCY_KEY, LAZARET_INPUT_NAME for each plain input, and others. In "
         "COMMAND, {} are the inputs and "
         "{field.path} is one of them. An exit code of 0 completes the job; what it wrote is the "
         "result.\n\n"
         "A command that fails may say more on descriptor 3, or in the file "
         "$LAZARET_FAILURE_FILE: a failure object, with class, message, retry_after_seconds, "
         "side_effects, policy_checks. Whether the job is tried again is decided by its policy, "
         "not here.\n\n"
         "A job that is cancelled, or whose lease is lost, has its command ended. SIGTERM takes no "
         "more jobs and lets those "
         "that run finish; a second one ends them, without counting the attempt.\n\n"
         "With --supervise COMMAND is an agent that is kept running, with its arguments as they "
         "are. "
         "Each end of it is recorded, whatever its exit code, and the policy of its job spaces the "
         "restarts. It is dead-lettered as boot_failure after 3 health checks in a row that "
         "failed, "
         "as pull_failure when --pull fails, and as crash_loop when it ends after 5 restarts "
         "within "
         "10 minutes. --worker-id is the agent's name (default: made of the command): a second "
         "supervisor of that name waits for its turn, and a job that one has left, or that was "
         "brought back with \"dlq retry\", is taken up. SIGTERM ends the agent, a second one kills "
         "it.",
     .flags = work_flags,
     .examples = work_examples,
     .operands_min = 1,
     .operands_max = OPERANDS_ANY,
     .run = cmd_work},
    {.name = "send",
     .operands = "--to URL",
     .summary = "deliver a receipt to an HTTP or MCP endpoint, with retry",
     .about =
         "A receipt has lease_id, task_id, worker_id and status, and may have timestamp, summary, "
         "artifact_pointers and error_metadata. It is a job like any other: it is on disk before "
         "it is sent, the policy decides about each retry, and after the last it is a dead letter "
         "and an entry of receipts.json. A 2xx is delivered; 408, 429, 5xx and an endpoint that "
         "cannot be reached are tried again, a Retry-After is kept; any other answer is a refusal "
         "and is not.\n\n"
         "Each request carries the receipt's key, lease_id:status, as Idempotency-Key, so that an "
         "answer that was lost does not make it count twice.\n\n"
         "Prints \"delivered\" (exit code 0) or \"dead-lettered ID\" (exit code 1).",
     .flags = send_flags,
     .examples = send_examples,
     .letters = true,
     .run = cmd_send},
    {.name = "dlq",
     .operands = "COMMAND",
     .summary = "look at dead letters and decide what becomes of them",
     .about = "A job that may not be tried again becomes a dead letter: it waits in the "
              "quarantine, with the evidence of every attempt, for somebody to bring it back or "
              "give it up.\n\n"
              "An ID may be shortened to its first 8 characters or more while it is unique.",
     .flags = no_flags,
     .examples = no_examples},
    {.name = "dlq list",
     .operands = "",
     .summary = "list dead letters",
     .about = "Lists the letters that are open, the newest first. On a terminal it is a table; "
              "without one, rows of tab-separated id, failed_at, reason, queue, attempts, "
              "signature and state; with -o json a bare array of whole letters.",
     .flags = list_flags,
     .examples = list_examples,
     .run = cmd_list},
    {.name = "dlq show",
     .operands = "ID",
     .summary = "tell the whole story of a letter",
     .about = "Says why the letter is dead (the decision, its rule and its policy), every attempt "
              "with its error, the envelope, and what can be done next.",
     .flags = no_flags,
     .examples = show_examples,
     .operands_min = 1,
     .operands_max = 1,
     .run = cmd_show},
    {.name = "dlq analyze",
     .operands = "",
     .summary = "find patterns in what fails",
     .about = "Shows the groups of equal errors, how the errors are distributed, and the failures "
              "of each hour.",
     .flags = analyze_flags,
     .examples = analyze_examples,
     .run = cmd_analyze},
    {.name = "dlq groups",
     .operands = "",
     .summary = "list the groups of equal errors",
     .about = "Letters whose errors are the same but for numbers, paths and ids form a group, "
              "named by a fingerprint. With -o json a bare array.",
     .flags = groups_flags,
     .examples = groups_examples,
     .run = cmd_groups},
    {.name = "dlq stats",
     .operands = "",
     .summary = "count dead letters by state, reason, source and queue",
     .about = "The counts are kept as letters change: asking costs the same for a million.",
     .flags = no_flags,
     .examples = stats_examples,
     .run = cmd_stats},
    {.name = "dlq retry",
     .operands = "ID... | RUN | --group FP | --all",
     .summary = "bring dead letters back to their queue",
     .about = "The job keeps its id and its keys, gets a fresh round of attempts, and when it dies "
              "again it comes back to the same letter. What is replayed is what was selected when "
              "the command began.\n\n"
              "Of a selection (RUN, --group, --all), letters that need review, or whose kind of "
              "failure does not pass by itself, are left out, unless --force. A letter that is "
              "named by its ID is always taken. More than one letter: it asks first.\n\n"
              "Items of a map run are run right here, with the command of their run, in their "
              "order. Their letters stay open, as recovering, until they have succeeded. Other "
              "jobs are left to their workers; --wait waits for them.",
     .flags = retry_flags,
     .examples = retry_examples,
     .operands_max = OPERANDS_ANY,
     .letters = true,
     .run = cmd_retry},
    {.name = "dlq discard",
     .operands = "ID... | RUN | --group FP | --all",
     .summary = "give dead letters up",
     .about = "A discarded letter stays, with its evidence, until it is purged. More than one "
              "letter: it asks first.",
     .flags = discard_flags,
     .examples = discard_examples,
     .operands_max = OPERANDS_ANY,
     .letters = true,
     .run = cmd_discard},
    {.name = "dlq rollback",
     .operands = "ID...",
     .summary = "undo what a job did, by its compensation",
     .about = "Pushes the job that the envelope's \"compensation\" describes; the letter is then "
              "rolled back.",
     .flags = note_flags,
     .examples = rollback_examples,
     .operands_min = 1,
     .operands_max = OPERANDS_ANY,
     .letters = true,
     .run = cmd_rollback},
    {.name = "dlq escalate",
     .operands = "ID...",
     .summary = "flag a letter for a person",
     .about = "The letter stays dead, and no machine may replay it.",
     .flags = note_flags,
     .examples = escalate_examples,
     .operands_min = 1,
     .operands_max = OPERANDS_ANY,
     .run = cmd_escalate},
    {.name = "dlq restore",
     .operands = "ID...",
     .summary = "take a discard back",
     .about = "The letter is dead again, and can be retried.",
     .flags = note_flags,
     .examples = restore_examples,
     .operands_min = 1,
     .operands_max = OPERANDS_ANY,
     .letters = true,
     .run = cmd_restore},
    {.name = "dlq export",
     .operands = "OUT",
     .summary = "write dead letters to a file",
     .about = "Formats: json is an array of whole letters, which \"dlq import\" reads back. csv is "
              "RFC 4180 with a header; a field that a spreadsheet would take for a formula (it "
              "begins with = + - @, a tab or a line end) gets an apostrophe before it. map is a "
              "directory with index.json and items/ID.json for each letter, the id "
              "percent-encoded. receipts is an array of receipt, failed_at and attempts, of the "
              "letters of source receipts alone.\n\n"
              "OUT is a file, or \"-\" for standard output (not for map). A file appears whole or "
              "not at all, readable by its owner alone, and none is replaced without --force.",
     .flags = export_flags,
     .examples = export_examples,
     .operands_min = 1,
     .operands_max = 1,
     .hint = HINT_FILE,
     .run = cmd_export},
    {.name = "dlq import",
     .operands = "PATH",
     .summary = "take dead letters in",
     .about = "PATH is a file with an array of letters or one a line (\"-\": standard input), a "
              "receipts.json, or a directory of the map system. A letter whose dlq_id is known is "
              "not taken again.",
     .flags = no_flags,
     .examples = import_examples,
     .operands_min = 1,
     .operands_max = 1,
     .hint = HINT_FILE,
     .letters = true,
     .run = cmd_import},
    {.name = "dlq recover",
     .operands = "--to URL",
     .summary = "send dead receipts again, those of a file or all",
     .about =
         "Each entry is sent once. What is delivered leaves the file, what fails is said and "
         "stays. When the endpoint cannot be reached nothing is changed (exit code 5), or with "
         "--wait it is waited for. An entry that somebody wrote into the file is taken in "
         "first.\n\n"
         "Prints how many were recovered and how many failed; the exit code is 1 when any failed.",
     .flags = recover_flags,
     .examples = recover_examples,
     .run = cmd_recover},
    {.name = "dlq publish",
     .operands = "--subject SUBJECT --reason REASON [FILE|-]",
     .summary = "publish a dead letter on NATS",
     .about = "Publishes what could not be done onto the stream DLQ, from which a server with "
              "--nats, or another reader of the swarm's letters, takes it. FILE is the payload, "
              "byte for byte (default: standard input). The letter goes to the subject of its "
              "reason, such as dlq.task.unassignable. No data directory and no Lazaret server is "
              "needed.\n\n"
              "Prints the letter's id when the stream has it. When no answer came, publish again "
              "with --dlq-id and the id that was said: it is stored once. The exit code is 5 when "
              "NATS or its stream cannot be reached, 4 when it refuses who asks.",
     .flags = publish_flags,
     .examples = publish_examples,
     .operands_max = 1,
     .hint = HINT_FILE,
     .run = cmd_publish},
    {.name = "dlq purge",
     .operands = "--older-than-days N",
     .summary = "remove old letters for good",
     .about = "Removes letters that died more than N days ago, whatever became of them, with their "
              "evidence of attempts; a tombstone and the audit events stay. What still needs "
              "review is kept, unless --force. It asks first.",
     .flags = purge_flags,
     .examples = purge_examples,
     .letters = true,
     .purges = true,
     .run = cmd_purge},
    {.name = "dlq clear",
     .operands = "RUN",
     .summary = "remove the letters of a run for good",
     .about = "Removes the letters of a run, but never what still needs review, unless --force. "
              "Tombstones and audit events stay. It asks first.",
     .flags = clear_flags,
     .examples = clear_examples,
     .operands_min = 1,
     .operands_max = 1,
     .letters = true,
     .purges = true,
     .run = cmd_clear},
    {.name = "policy",
     .operands = "COMMAND",
     .summary = "look at retry policies, and set them",
     .about = "A policy says how often, how soon and for which failures a job may be tried again. "
              "It is a named object; the one in force at each decision is recorded with it.",
     .flags = no_flags,
     .examples = no_examples},
    {.name = "policy list",
     .operands = "",
     .summary = "list the policies",
     .about = "Lists the built-in policies and those that were set.",
     .flags = no_flags,
     .examples = policy_list_examples,
     .run = cmd_policy_list},
    {.name = "policy show",
     .operands = "NAME",
     .summary = "print a policy as JSON",
     .about = "Prints the policy as JSON that \"policy set\" takes.",
     .flags = no_flags,
     .examples = policy_show_examples,
     .operands_min = 1,
     .operands_max = 1,
     .words = POLICIES,
     .run = cmd_policy_show},
    {.name = "policy set",
     .operands = "NAME FILE",
     .summary = "set a policy",
     .about = "Sets the named policy from a file (\"-\": standard input), as JSON. Decisions from "
              "then on follow it; each version is kept.",
     .flags = no_flags,
     .examples = policy_set_examples,
     .operands_min = 2,
     .operands_max = 2,
     .hint = HINT_FILE,
     .run = cmd_policy_set},
    {.name = "policy explain",
     .operands = "NAME",
     .summary = "print a policy's schedule",
     .about = "Prints when each attempt would be made, before jitter.",
     .flags = no_flags,
     .examples = policy_explain_examples,
     .operands_min = 1,
     .operands_max = 1,
     .words = POLICIES,
     .run = cmd_policy_explain},
    {.name = "policy simulate",
     .operands = "NAME",
     .summary = "play a job that keeps failing",
     .about = "Runs the rules that decide about a failure on a job that fails the same way each "
              "time, and prints every decision: its rule, its delay with jitter, and the end. "
              "Nothing is stored.",
     .flags = simulate_flags,
     .examples = simulate_examples,
     .operands_min = 1,
     .operands_max = 1,
     .words = POLICIES,
     .run = cmd_policy_simulate},
    {.name = "audit",
     .operands = "COMMAND",
     .summary = "read the evidence and check that it is whole",
     .about = "Every transition appends one event that carries the hash of the event before it. "
              "Events are never changed or removed.",
     .flags = no_flags,
     .examples = no_examples},
    {.name = "audit show",
     .operands = "",
     .summary = "print events in order",
     .about = "Prints what happened, when, who did it and why.",
     .flags = audit_show_flags,
     .examples = audit_show_examples,
     .run = cmd_audit_show},
    {.name = "audit verify",
     .operands = "",
     .summary = "check the chain of evidence",
     .about = "Walks the whole chain. Ends with 1 and names the first event that does not fit when "
              "one was changed, removed, put in or moved.",
     .flags = no_flags,
     .examples = audit_verify_examples,
     .run = cmd_audit_verify},
    {.name = "audit export",
     .operands = "OUT",
     .summary = "write events to a file, one a line",
     .about = "Writes events as NDJSON, with their hashes. OUT \"-\" is standard output.",
     .flags = audit_export_flags,
     .examples = audit_export_examples,
     .operands_min = 1,
     .operands_max = 1,
     .hint = HINT_FILE,
     .run = cmd_audit_export},
    {.name = "token",
     .operands = "COMMAND",
     .summary = "decide who may ask a server, and as what",
     .about = "A server whose token file exists answers only who shows a token. Each token has a "
              "name, which stands in the evidence of everything that is done with it, and a role: "
              "viewer looks, with redacted values masked; worker also pushes and leases jobs; "
              "operator also retries, discards, pauses and edits policies; reviewer also handles "
              "letters that need review and sees everything; admin also purges and clears.\n\n"
              "The commands change the file alone. A server that runs sees the change by itself.",
     .flags = no_flags,
     .examples = no_examples},
    {.name = "token create",
     .operands = "NAME",
     .summary = "make a token and print it, once",
     .about = "Prints the token alone on standard output. The file keeps a salted hash of it: a "
              "token that is lost cannot be read again, only revoked. A NAME is taken until its "
              "token is revoked or has expired.",
     .flags = token_create_flags,
     .examples = token_create_examples,
     .operands_min = 1,
     .operands_max = 1,
     .local = true,
     .run = cmd_token_create},
    {.name = "token list",
     .operands = "",
     .summary = "list tokens",
     .about = "Lists the tokens in the order of their making, never with what they are. Without a "
              "terminal: rows of tab-separated name, role, id, created_at, expires_at and state.",
     .flags = token_flags,
     .examples = token_list_examples,
     .local = true,
     .run = cmd_token_list},
    {.name = "token revoke",
     .operands = "NAME",
     .summary = "make a token worthless",
     .about = "Removes the token from the file. The last one leaves a file without tokens: then "
              "nobody gets in.",
     .flags = token_flags,
     .examples = token_revoke_examples,
     .operands_min = 1,
     .operands_max = 1,
     .local = true,
     .run = cmd_token_revoke},
    {.name = "serve",
     .operands = "",
     .summary = "run the server",
     .about =
         "Owns the data directory and answers the HTTP API: jobs for workers, dead letters for "
         "people, metrics at /metrics, its own description at /api/v1/openapi.json. Other "
         "commands that are given the same directory go through it. Prints one line when it "
         "is ready.\n\n"
         "Without tokens it listens on this machine only; see \"token\". SIGTERM and SIGINT "
         "finish what was accepted, refuse what is new, and end with 0. SIGHUP opens the "
         "access log anew. It speaks systemd's protocols for readiness and passed sockets.",
     .flags = serve_flags,
     .examples = serve_examples,
     .local = true,
     .run = cmd_serve},
    {.name = "status",
     .operands = "",
     .summary = "show everything on one screen",
     .about = "Queues and what is in them, the oldest of each, dead letters by reason and by "
              "group, and the trend of the last hours.",
     .flags = no_flags,
     .examples = status_examples,
     .run = cmd_status},
    {.name = "help",
     .operands = "[COMMAND]",
     .summary = "explain a command",
     .about = "Prints the commands, or one of them with its flags and examples.",
     .flags = no_flags,
     .examples = help_examples,
     .operands_max = 2,
     .hint = HINT_COMMAND,
     .run = cmd_help},
    {.name = "completion",
     .operands = "bash|zsh|fish",
     .summary = "print a completion script",
     .about = "Prints a script that completes commands, flags and values in your shell.",
     .flags = no_flags,
     .examples = completion_examples,
     .operands_min = 1,
     .operands_max = 1,
     .words = "bash zsh fish",
     .run = cmd_completion},
    {.name = "man",
     .operands = "",
     .summary = "print the manual page",
     .about = "Prints the manual page in roff.",
     .flags = no_flags,
     .examples = man_examples,
     .run = cmd_man},
    {.name = NULL}};
