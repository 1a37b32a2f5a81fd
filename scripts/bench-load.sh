#!/usr/bin/env bash
# Processor time per request of this load engine and of k6, alternately, on the same server.
#
#   scripts/bench-load.sh [ROUNDS [VUS [DURATION]]]      (5 rounds, 64 virtual users, 5s)
#
# Needs nginx; k6 is found in PATH, as $K6, or in ~/go/bin. Only 127.0.0.1 is used. The figure is
# user + system time of the generator's process divided by the requests it counted: what the
# server or other programs do to the wall clock changes it little.
set -euo pipefail
cd "$(dirname "$0")/.."

rounds=${1:-5} vus=${2:-64} duration=${3:-5s}
k6=${K6:-$(command -v k6 || echo "$HOME/go/bin/k6")}
work=$(mktemp -d)
nginx_pid=
finish() {
    [[ -n $nginx_pid ]] && kill "$nginx_pid" 2>/dev/null && wait "$nginx_pid" 2>/dev/null
    rm -rf "$work"
}
trap finish EXIT

cargo build --release --quiet -p madang-load --example load
ours=$(cargo metadata --format-version 1 --no-deps | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')/release/examples/load

# A port that was free a moment ago; nginx cannot be told to choose one itself.
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
mkdir "$work/www"
chmod 755 "$work" "$work/www"
printf 'hello\n' > "$work/www/index.html"
cat > "$work/nginx.conf" <<CONF
daemon off; worker_processes 1; pid $work/nginx.pid; error_log $work/error.log;
events { worker_connections 8192; }
http {
    access_log off; sendfile on; open_file_cache max=10; keepalive_requests 1000000000;
    server { listen 127.0.0.1:$port backlog=4096; root $work/www; }
}
CONF
nginx -e "$work/error.log" -c "$work/nginx.conf" &
nginx_pid=$!
cat > "$work/script.js" <<JS
import http from 'k6/http';
import { check } from 'k6';
export const options = { vus: $vus, duration: '$duration' };
export default function () {
    const res = http.get('http://127.0.0.1:$port/');
    check(res, { 'status is 200': (r) => r.status === 200 });
}
JS
for _ in $(seq 100); do
    (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null && break
    sleep 0.05
done

# Prints microseconds per request of one run: $1 a name for its files, the rest the command.
measure() {
    local name=$1
    shift
    local TIMEFORMAT='%U %S'
    { time SUMMARY_EXPORT="$work/$name.json" "$@" > "$work/$name.out" 2>&1; } 2> "$work/$name.time"
    python3 - "$work/$name.json" "$work/$name.time" <<'PY'
import json, sys
count = json.load(open(sys.argv[1]))["metrics"]["http_reqs"]["count"]
print("%.1f" % (sum(map(float, open(sys.argv[2]).read().split())) / count * 1e6))
PY
}

echo "rounds $rounds, $vus virtual users, $duration each; $(nproc) cores; load $(cut -d' ' -f1-3 /proc/loadavg)"
[[ -x $k6 ]] && "$k6" version || echo "k6 not found: only this engine is measured"
for round in $(seq "$rounds"); do
    mine=$(measure ours "$ours" "$work/script.js")
    if [[ -x $k6 ]]; then
        theirs=$(measure k6 "$k6" run --quiet --no-usage-report --summary-export "$work/k6.json" "$work/script.js")
        echo "round $round: ours $mine µs/request, k6 $theirs µs/request, ratio $(python3 -c "print('%.3f' % ($mine / $theirs))")"
    else
        echo "round $round: ours $mine µs/request"
    fi
done
