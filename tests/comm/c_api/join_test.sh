#!/usr/bin/env bash
# Three processes that a launcher starts with TRIREME_RANK and so on: join_test.sh PROGRAM
set -euo pipefail
program=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# A port that is free now.
port=$(perl -MIO::Socket::INET -e 'print IO::Socket::INET->new(LocalAddr => "127.0.0.1", Listen => 1)->sockport')
export TRIREME_SIZE=3 TRIREME_STORE=127.0.0.1:$port
TRIREME_SECRET=$(od -An -tx1 -N32 /dev/urandom | tr -d ' \n')
export TRIREME_SECRET
started=()
for rank in 0 1 2; do
  TRIREME_RANK=$rank "$program" join >"$folder/$rank" &
  started+=($!)
done
for process in "${started[@]}"; do
  wait "$process"
done
for rank in 0 1 2; do
  [[ $(<"$folder/$rank") == "3 ranks, sum 3" ]] || {
    echo "rank $rank printed: $(<"$folder/$rank")" >&2
    exit 1
  }
done
