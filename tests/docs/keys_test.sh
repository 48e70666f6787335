#!/usr/bin/env bash
# docs/keys.md is what docs/keys.lua writes. If it is not:
#   moonring docs/keys.lua > docs/keys.md
set -euo pipefail
"${MOONRING_TEST_HOST:-./moonring}" docs/keys.lua | diff docs/keys.md -
