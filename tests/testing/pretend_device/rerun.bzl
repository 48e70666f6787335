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
    """A test of the pretend device alone, NAME.cc.

    Args:
      name: of the test.
      size: Bazel's.
      fast: as cc_test (together.bzl) has it.
      full: the same.
      data: Bazel's.
      deps: Bazel's, added to the usual ones.
      shard_count: Bazel's.
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
    """NAME_on_pretend_device: the test NAME of this package, with the pretend device's host.

    And NAME_on_pretend_device_full: those of its cases that are the full tier's there.

    Args:
      name: a cc_test that runs the host by tests/testing/command.h.
      size: Bazel's.
      devices: how many GPUs there are.
      only: of its cases, as --gtest_filter names them; "" for none.
      full: further cases, of the full tier; --gtest_filter's words too.
      env: further variables of the environment.
      suffix: of the name, where a test is run again in several ways.
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
