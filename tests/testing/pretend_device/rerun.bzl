"""Tests of the host's commands on the pretend device."""

load("//third_party/precompiled:cc.bzl", "cc_test")

def pretend_device_test(name, size, long = "", data = [], shard_count = None):
    """A test of the pretend device alone, NAME.cc; and long_NAME: its cases that take minutes.

    Args:
      name: of the test.
      size: Bazel's.
      long: cases that are not in `//...`, as --gtest_filter names them; "" for none.
      data: Bazel's.
      shard_count: Bazel's.
    """
    short = "*-" + long if long else "*"
    for prefix, cases, tags in [("", short, []), ("long_", long, ["manual"])]:
        if not cases:
            continue
        cc_test(
            name = prefix + name,
            size = size,
            srcs = [name + ".cc"],
            args = ["'--gtest_filter=%s'" % cases],
            data = data + ["//tests/testing/pretend_device:host"],
            env = {"MOONRING_TEST_HOST": "tests/testing/pretend_device/host"},
            shard_count = shard_count,
            tags = tags,
            deps = [
                ":workplace",
                "//third_party:googletest_main",
            ],
        )

def rerun_on_pretend_device(
    name,
    size,
    devices = 1,
    only = "*",
    long = "",
    env = {},
    suffix = "on_pretend_device"):
    """NAME_on_pretend_device: the test NAME of this package, with the pretend device's host.

    And, where some of its cases take minutes there, long_NAME_on_pretend_device: those, not in
    `//...`.

    Args:
      name: a cc_test that runs the host by tests/testing/command.h.
      size: Bazel's.
      devices: how many GPUs there are.
      only: of its cases, as --gtest_filter names them; "" for none.
      long: further cases, those that take minutes.
      env: further variables of the environment.
      suffix: of the name, where a test is run again in several ways.
    """
    for prefix, cases, tags in [("", only, []), ("long_", long, ["manual"])]:
        if not cases:
            continue
        native.sh_test(
            name = "%s%s_%s" % (prefix, name, suffix),
            size = size,
            srcs = ["//tests/testing/pretend_device:rerun.sh"],
            args = ["$(rootpath :%s)" % name, "'--gtest_filter=%s'" % cases],
            data = [
                ":" + name,
                "//tests/testing/pretend_device:host",
            ],
            env = dict(env, PRETEND_DEVICES = str(devices)),
            tags = tags,
        )
