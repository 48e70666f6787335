"""Tests that are scripts, in two tiers."""

def script_test(name, fast, size = "medium", tags = [], **attributes):
    """Defines NAME, with the arguments of the fast tier, and NAME_full, without arguments: all
    cases.

    Args:
      name: of the test.
      fast: the arguments of the fast tier, which name cases.
      size: of the fast tier's test, as in sh_test.
      tags: of the fast tier's test, as in sh_test.
      **attributes: other attributes of sh_test, for both.
    """
    native.sh_test(name = name, size = size, args = fast, tags = tags, **attributes)
    native.sh_test(
        name = name + "_full",
        size = "enormous",
        tags = tags + ["full"],
        **attributes
    )
