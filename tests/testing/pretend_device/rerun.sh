#!/bin/sh
# Runs a test of the host's commands with the pretend device's host: rerun.sh TEST [ARGUMENT...].
# Fails unless the device was used, that is, unless there is a report with kernels in it (counts.h).
report=$TEST_TMPDIR/report
MOONRING_TEST_HOST=tests/testing/pretend_device/host PRETEND_DEVICE_REPORT=$report "$@" || exit
grep -q '"all_kernels": *[1-9]' "$report"* && exit
echo "no run of $1 launched a kernel on the pretend device" >&2
exit 1
