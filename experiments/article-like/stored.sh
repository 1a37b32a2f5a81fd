#!/bin/sh
# Waits until no acknowledged like waits to be stored.
set -eu
n=0
while [ $n -lt 300 ]; do
	if curl -fsS "$LAB_METRICS_URL" | grep -q '^madang_likes_pending 0$'; then
		exit 0
	fi
	n=$((n + 1))
	sleep 0.1
done
echo 'acknowledged likes are still waiting to be stored' >&2
exit 1
