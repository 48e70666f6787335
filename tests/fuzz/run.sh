#!/usr/bin/env bash
# Runs fuzz targets one after another, by default all for 60 seconds each:
#
#   bazel run --config=fuzz //tests/fuzz -- [SECONDS [TARGET...]]
#
# The corpus that a run collects is stored in ${XDG_CACHE_HOME:-~/.cache}/moonring/fuzz/TARGET,
# where the next run continues. An input that makes a target fail (a sanitizer's report, an
# exception, more than 10 seconds or 2 GiB) is written to .../fuzz/found and listed at the end, and
# the script fails. When the bug is fixed, the input should be added to tests/fuzz/corpus/TARGET,
# which the tests in //tests/fuzz replay.
set -euo pipefail

seconds="${1:-60}"
here="$0.runfiles/moonring/tests/fuzz"
targets=("${@:2}")
if [ ${#targets[@]} -eq 0 ]; then
  for program in "$here"/*_fuzz; do
    target="$(basename "$program")"
    targets+=("${target%_fuzz}")
  done
fi

learnt="${XDG_CACHE_HOME:-$HOME/.cache}/moonring/fuzz"
found="$learnt/found"
mkdir -p "$found"
broken=()
for target in "${targets[@]}"; do
  mkdir -p "$learnt/$target"
  dictionary=()
  [ ! -e "$here/$target.dict" ] || dictionary=("-dict=$here/$target.dict")
  log="$found/$target.log"
  if OMP_NUM_THREADS=1 "$here/${target}_fuzz" -max_total_time="$seconds" -timeout=10 \
    -rss_limit_mb=2048 -malloc_limit_mb=1024 -print_final_stats=1 \
    -artifact_prefix="$found/$target-" "${dictionary[@]}" "$learnt/$target" "$here/corpus/$target" \
    >"$log" 2>&1; then
    printf '%-16s nothing found in %s inputs, %s a second\n' "$target" \
      "$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")" \
      "$(sed -n 's/^stat::average_exec_per_sec: *//p' "$log")"
    rm "$log"
  else
    broken+=("$target")
    printf '%-16s FOUND: %s; see %s\n' "$target" "$(sed -n 's/^SUMMARY: //p' "$log" | tail -1)" \
      "$log"
    sed -n 's/^artifact_prefix=.*; Test unit written to /                 /p' "$log"
  fi
done
[ ${#broken[@]} -eq 0 ] || { echo "broken: ${broken[*]}" >&2; exit 1; }
