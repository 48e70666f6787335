#!/usr/bin/env bash
# docs/keys.md must be the output of docs/keys.lua. If it is not, run:
#   moonring docs/keys.lua > docs/keys.md
set -euo pipefail
"${MOONRING_TEST_HOST:-./moonring}" docs/keys.lua | diff docs/keys.md -
