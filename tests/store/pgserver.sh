#!/bin/sh
# A PostgreSQL server of a test's own, in a directory of its own, on 127.0.0.1 and a Unix socket in that directory.
#
#   pgserver.sh create DIR fast|durable   makes DIR, with the server's data in DIR/data
#   pgserver.sh start DIR PORT            starts it, and returns when it takes connections
#   pgserver.sh stop DIR MODE             stops it: fast or immediate, as pg_ctl has it
#   pgserver.sh pool DIR PORT PGPORT      starts a pgbouncer in transaction mode on PORT, before the server on PGPORT
#   pgserver.sh keep DIR                  waits for the end of its standard input; then stops what was started and removes DIR
#
# `fast` syncs nothing: for tests that are not about losing power.  PostgreSQL refuses to run as root: then it runs as the user
# postgres.  LAZARET_PGTEMPLATE names a file that keeps the data of a server as it is made, so that it is made once.
set -eu

bin=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -1)
if [ ! -x "$bin/postgres" ]; then
    echo "PostgreSQL's server is not here (/usr/lib/postgresql/*/bin): scripts/deps test installs it" >&2
    exit 1
fi
user=$(id -un)
as=""
if [ "$(id -u)" = 0 ]; then
    user=postgres
    as="setpriv --reuid postgres --regid postgres --init-groups"
fi
dir=$2
cd /

make_data() {
    template=${LAZARET_PGTEMPLATE:+$LAZARET_PGTEMPLATE.$(basename "$(dirname "$bin")")}
    if [ -n "$template" ] && [ -f "$template" ]; then
        $as mkdir -m 700 "$dir/data"
        $as tar -C "$dir/data" -xf - <"$template"
        return
    fi
    $as "$bin/initdb" -D "$dir/data" -U postgres -A trust -E UTF8 --locale=C.UTF-8 --wal-segsize=1 --no-sync --no-instructions >"$dir/initdb.log" 2>&1 ||
        { cat "$dir/initdb.log" >&2; exit 1; }
    if [ -n "$template" ]; then
        $as tar -C "$dir/data" -cf - . >"$template.$$"
        mv "$template.$$" "$template"
    fi
}

case $1 in
create)
    mkdir -p -m 755 "$dir"
    chown "$user" "$dir"
    make_data
    {
        echo "listen_addresses = '127.0.0.1'"
        echo "unix_socket_directories = '$dir'"
        echo "max_connections = 100"
        echo "shared_buffers = 32MB"
        echo "max_wal_size = 256MB"
        if [ "$3" = fast ]; then
            echo "fsync = off"
            echo "synchronous_commit = off"
            echo "full_page_writes = off"
            echo "wal_level = minimal"
            echo "max_wal_senders = 0"
        fi
    } >>"$dir/data/postgresql.conf"
    ;;
start)
    $as "$bin/pg_ctl" start -s -w -t 60 -D "$dir/data" -l "$dir/log" -o "-p $3" </dev/null >"$dir/start.log" 2>&1 ||
        { tail -n 20 "$dir/start.log" "$dir/log" >&2; exit 1; }
    ;;
stop)
    $as "$bin/pg_ctl" stop -s -w -t 60 -m "$3" -D "$dir/data" </dev/null
    ;;
pool)
    {
        echo "[databases]"
        echo "* = host=127.0.0.1 port=$4"
        echo "[pgbouncer]"
        echo "listen_addr = 127.0.0.1"
        echo "listen_port = $3"
        echo "unix_socket_dir ="
        echo "auth_type = trust"
        echo "auth_file = $dir/pool.users"
        echo "admin_users = postgres"
        echo "pool_mode = transaction"
        echo "max_client_conn = 200"
        echo "default_pool_size = 4"
        echo "server_login_retry = 1"
        echo "logfile = $dir/pool.log"
        echo "pidfile = $dir/pool.pid"
    } >"$dir/pool.ini"
    echo '"postgres" ""' >"$dir/pool.users"
    $as /usr/sbin/pgbouncer -q -d "$dir/pool.ini" </dev/null >"$dir/pool.start" 2>&1 || { cat "$dir/pool.start" >&2; exit 1; }
    tries=0
    until "$bin/pg_isready" -q -h 127.0.0.1 -p "$3" -U postgres -d pgbouncer; do
        tries=$((tries + 1))
        [ $tries -lt 300 ] || { cat "$dir/pool.log" >&2; exit 1; }
        sleep 0.03
    done
    ;;
keep)
    cat >/dev/null
    [ ! -f "$dir/pool.pid" ] || kill "$(cat "$dir/pool.pid")" || true
    $as "$bin/pg_ctl" stop -s -w -t 60 -m immediate -D "$dir/data" </dev/null >/dev/null 2>&1 || true
    rm -rf "$dir"
    ;;
esac
