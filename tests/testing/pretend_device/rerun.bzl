"""Tests of the host's commands, run again on the pretend device."""

def rerun_on_pretend_device(
    name,
    size,
    devices = 1,
    args = [],
    env = {},
    suffix = "on_pretend_device",
    tags = [],
):
    """NAME_on_pretend_device: the test NAME of this package, with the pretend device's host.

    Args:
      name: a cc_test that runs the host by tests/testing/command.h.
      size: Bazel's.
      devices: how many GPUs there are.
      args: for the test, as --gtest_filter=...
      env: further variables of the environment.
      suffix: of the name, where a test is run again in several ways.
      tags: Bazel's.
    """
    native.sh_test(
        name = "%s_%s" % (name, suffix),
        size = size,
        srcs = ["//tests/testing/pretend_device:rerun.sh"],
        args = ["$(rootpath :%s)" % name] + args,
        data = [
            ":" + name,
            "//tests/testing/pretend_device:host",
        ],
        env = dict(env, PRETEND_DEVICES = str(devices)),
        tags = tags,
    )
