#!/bin/sh
# fuzz_main.cc against a probe: counts nested files and empty ones, fails on an empty or a missing corpus.
set -eu
probe=$1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

expect_failure() {
  if "$probe" "$1" > /dev/null 2>&1; then
    echo "replay of $2 succeeded" >&2
    exit 1
  fi
}

mkdir -p "$dir/corpus/nested" "$dir/empty/nested" "$dir/bad"
printf abc > "$dir/corpus/a"
printf 12345 > "$dir/corpus/nested/b"
: > "$dir/corpus/nested/empty"
printf crash > "$dir/bad/input"

expected=$(printf 'size 3\nsize 5\nsize 0\n3 inputs replayed')
seen=$("$probe" "$dir/corpus")
if [ "$seen" != "$expected" ]; then
  printf 'expected:\n%s\nseen:\n%s\n' "$expected" "$seen" >&2
  exit 1
fi
expect_failure "$dir/empty" "a corpus without files"
expect_failure "$dir/missing" "a corpus that is not there"
expect_failure "$dir/bad" "an input that crashes"
