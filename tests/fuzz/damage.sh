#!/usr/bin/env bash
# Runs a command on damaged copies of a file: damage.sh [OPTION...] FILE COMMAND [ARGUMENT...]
#
# {} in an argument stands for the damaged copy; the other files of FILE's folder lie beside it, so that a folder of several
# files is opened as one. N copies are cut at random offsets, N have 1 to 4 random bytes changed, half of each near the
# start, where headers are. The command must end by itself with an expected status; its output is thrown away.
# A command that is killed by a signal, runs too long, or ends with another status is printed, and the exit status is 1.
#
#   -n N         copies of each kind (200)       -s SEED      of the random numbers (1)
#   -t SECONDS   for one run (20)                -x "S S..."  expected exit statuses ("0 1")
set -u
n=200 seed=1 limit=20 expected='0 1'
while getopts n:s:t:x: o; do
  case $o in
    n) n=$OPTARG ;; s) seed=$OPTARG ;; t) limit=$OPTARG ;; x) expected=$OPTARG ;; *) exit 64 ;;
  esac
done
shift $((OPTIND - 1))
[ $# -ge 2 ] || { sed -n '2,3p' "$0" >&2; exit 64; }
file=$1; shift
size=$(stat -L -c %s "$file") || exit 1
[ "$size" -gt 0 ] || { echo "$file is empty" >&2; exit 1; }
dir=$(mktemp -d "${TMPDIR:-/tmp}/damage-XXXXXX") || exit 1
trap 'rm -rf "$dir"' EXIT
for f in "$(cd "$(dirname "$file")" && pwd)"/*; do ln -s "$f" "$dir/"; done
copy=$dir/${file##*/}
rm -f "$copy"
args=()
for a in "$@"; do args+=("${a//'{}'/$copy}"); done

# Reports of sanitizers must not look like an ordinary failure. HDF5 1.10 itself leaks what it read of a damaged file.
echo 'leak:libhdf5' > "$dir/.suppress"
export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}exitcode=99
export UBSAN_OPTIONS=${UBSAN_OPTIONS:+$UBSAN_OPTIONS:}exitcode=99
export LSAN_OPTIONS=suppressions=$dir/.suppress:print_suppressions=0:exitcode=99

RANDOM=$seed
# pick LIMIT: $picked is a random number below it
pick() { picked=$(((RANDOM << 30 | RANDOM << 15 | RANDOM) % $1)); }
pick_offset() {
  if [ $((RANDOM % 2)) = 0 ] && [ "$size" -gt 4096 ]; then pick 4096; else pick "$size"; fi
}
runs=0 failed=0
# try WHAT
try() {
  timeout -k 1 "$limit" "${args[@]}" > /dev/null 2> "$dir/.stderr" < /dev/null
  local rc=$?
  runs=$((runs + 1))
  case " $expected " in *" $rc "*) return ;; esac
  failed=$((failed + 1))
  echo "${file##*/} $1: exit status $rc"
  { grep -m1 -E 'ERROR|runtime error' "$dir/.stderr" || tail -3 "$dir/.stderr"; } | sed 's/^/    /'
}
for ((i = 0; i < n; i++)); do
  pick_offset
  head -c "$picked" "$file" > "$copy"
  try "cut at $picked"
done
cat "$file" > "$copy"
for ((i = 0; i < n; i++)); do
  what='' undo=()
  for ((k = RANDOM % 4; k >= 0; k--)); do
    pick_offset; at=$picked
    pick 256
    printf "\\x$(printf %02x "$picked")" | dd of="$copy" bs=1 seek="$at" conv=notrunc status=none
    undo+=("$at") what+=" $at=$picked"
  done
  try "changed$what"
  for at in "${undo[@]}"; do
    dd if="$file" of="$copy" bs=1 skip="$at" seek="$at" count=1 conv=notrunc status=none
  done
done
echo "${file##*/}: $runs damaged copies, $failed failed"
[ $failed = 0 ]
