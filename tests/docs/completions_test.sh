#!/usr/bin/env bash
# docs/completions.md must be the output of docs/completions.lua. If it is not, run:
#   moonring docs/completions.lua > docs/completions.md
set -euo pipefail
"${MOONRING_TEST_HOST:-./moonring}" docs/completions.lua | diff docs/completions.md -
