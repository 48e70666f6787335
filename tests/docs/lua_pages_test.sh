#!/usr/bin/env bash
# docs/lua/*.md must be the output of docs/lua.lua. If they are not, run:
#   moonring docs/lua.lua docs/lua
set -euo pipefail
mkdir "$TEST_TMPDIR/lua"
"${MOONRING_TEST_HOST:-./moonring}" docs/lua.lua "$TEST_TMPDIR/lua"
diff -r docs/lua "$TEST_TMPDIR/lua"
test "$(find "$TEST_TMPDIR/lua" -name '*.md' | wc -l)" -ge 15
