"""Tests that are scripts, in two tiers."""

def script_test(name, fast, size = "medium", tags = [], **attributes):
    """NAME, with the arguments of the fast tier, and NAME_full, without arguments: all cases.

    Args:
      name: of the test.
      fast: the arguments of the fast tier, which name cases.
      size: of the fast tier.
      tags: Bazel's.
      **attributes: sh_test's.
    """
    native.sh_test(name = name, size = size, args = fast, tags = tags, **attributes)
    native.sh_test(
        name = name + "_full",
        size = "enormous",
        tags = tags + ["full"],
        **attributes
    )
