#!/bin/sh
# Waits until no acknowledged like waits to be stored at any node, and the counts of all articles were compared
# with their rows since the start.
set -eu
n=0
while [ $n -lt 600 ]; do
	waiting=no
	compared=no
	for url in $LAB_METRICS_URL; do
		page=$(curl -fsS "$url")
		echo "$page" | grep -qE '^madang_likes_pending 0(\.0)?$' || waiting=yes
		! echo "$page" | grep -q '^madang_article_check_passes_total [1-9]' || compared=yes
	done
	[ $waiting = yes ] || [ $compared = no ] || exit 0
	n=$((n + 1))
	sleep 0.1
done
echo 'acknowledged likes are still waiting to be stored, or counts to be compared' >&2
exit 1
