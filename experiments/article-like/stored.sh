#!/bin/sh
# Waits until no acknowledged like waits to be stored, and the counts of all articles were compared with their
# rows since the server's start.
set -eu
n=0
while [ $n -lt 600 ]; do
	page=$(curl -fsS "$LAB_METRICS_URL")
	if echo "$page" | grep -qE '^madang_likes_pending 0(\.0)?$' &&
		echo "$page" | grep -q '^madang_article_check_passes_total [1-9]'; then
		exit 0
	fi
	n=$((n + 1))
	sleep 0.1
done
echo 'acknowledged likes are still waiting to be stored, or counts to be compared' >&2
exit 1
