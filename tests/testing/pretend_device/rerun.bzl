"""Tests of the host's commands on the pretend device."""

load("//third_party/precompiled:together.bzl", "cc_test")

def pretend_device_test(
    name,
    size,
    fast = [],
    full = [],
    data = [],
    deps = [],
    shard_count = None):
    """Defines a test that runs on the pretend device only, NAME.cc.

    Args:
      name: of the test.
      size: of the test, as in cc_test.
      fast: as in together.bzl's cc_test.
      full: as in together.bzl's cc_test.
      data: of the test, as in cc_test.
      deps: of the test, in addition to those of every such test.
      shard_count: of the test, as in cc_test.
    """
    cc_test(
        name = name,
        size = size,
        data = data + ["//tests/testing/pretend_device:host"],
        env = {"MOONRING_TEST_HOST": "tests/testing/pretend_device/host"},
        fast = fast,
        full = full,
        shard_count = shard_count,
        deps = deps + [":workplace"],
    )

def rerun_on_pretend_device(
    name,
    size,
    devices = 1,
    only = "*",
    full = "",
    env = {},
    suffix = "on_pretend_device"):
    """Defines NAME_on_pretend_device: the test NAME of this package, with the pretend device's
    host.

    Also defines NAME_on_pretend_device_full, with the cases that belong to the full tier.

    Args:
      name: a cc_test that runs the host by tests/testing/command.h.
      size: of the test, as in cc_test.
      devices: the number of simulated GPUs.
      only: the cases to run, in the syntax of --gtest_filter; "" for none.
      full: further cases, which run in the full tier, in the same syntax.
      env: further environment variables.
      suffix: of the target's name, if a test runs in several ways.
    """
    for tier, cases, tags in [("", only, []), ("_full", full, ["full"])]:
        if not cases:
            continue
        native.sh_test(
            name = "%s_%s%s" % (name, suffix, tier),
            size = size,
            srcs = ["//tests/testing/pretend_device:rerun.sh"],
            args = ["$(rootpath :%s)" % name, "--tier=any", "'--gtest_filter=%s'" % cases],
            data = [
                ":" + name,
                "//tests/testing/pretend_device:host",
            ],
            env = dict(env, PRETEND_DEVICES = str(devices)),
            tags = tags,
        )
