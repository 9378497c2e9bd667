#!/bin/sh
# A skipped case is `ok N # SKIP name`, so that meson calls it skipped and not failed.
set -eu
expected=$(printf '1..2\nok 1 # SKIP skips\nok 2 - passes\n# ok - probe')
seen=$(CMOCKA_MESSAGE_OUTPUT=TAP "$1")
if [ "$seen" != "$expected" ]; then
  printf 'expected:\n%s\nseen:\n%s\n' "$expected" "$seen" >&2
  exit 1
fi
