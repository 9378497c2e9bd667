# Shell code that the scripts share; source it: . "$(dirname "$0")/lib.sh"
# It changes to the root of the checkout and finds the folder with vectors and captures.

H4A_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$H4A_ROOT" || exit 2

# Tests that use vectors, captures and files of a Linux peer look here and skip without it.
if [ -z "${H4A_SHARED:-}" ] && [ -d "$H4A_ROOT/../shared" ]; then
  H4A_SHARED=$(cd "$H4A_ROOT/../shared" && pwd)
fi
[ -z "${H4A_SHARED:-}" ] || export H4A_SHARED

say() { printf '%s\n' "$*"; }

die() {
  printf '%s: %s\n' "$(basename "$0")" "$*" >&2
  exit 1
}

# configure DIR [MESON OPTIONS]: makes a build directory, or makes it anew if an interrupted run left it broken.
# Ninja itself reconfigures when a meson.build changes. Links with lld where it is there, the quickest of the linkers.
configure() {
  local dir=$1
  ! command -v ld.lld > /dev/null || export CXX_LD=${CXX_LD:-lld}
  shift
  [ -f "$dir/build.ninja" ] && return 0
  [ ! -d "$dir" ] || rm -rf "$dir"
  meson setup "$dir" "$@" > "/tmp/h4a-meson.$$" 2>&1 || {
    cat "/tmp/h4a-meson.$$" >&2
    rm -f "/tmp/h4a-meson.$$"
    return 1
  }
  rm -f "/tmp/h4a-meson.$$"
}
