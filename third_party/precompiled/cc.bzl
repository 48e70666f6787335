"""Bazel's C++ rules, with a precompiled header before each source.

Parsing the headers of LibTorch, abseil and GoogleTest is half of the compile time.

The header depends on the target's own deps: torch.h with //third_party:libtorch, tensor.h with
//third_party:tensor, otherwise base.h; for tests torch_test.h or base_test.h. Sources must still
include everything that they use, because --define=precompiled=off and compilers other than GCC
build without precompiled headers. A target with its own copts is built without one too, since GCC
requires the options with which the header was compiled.
"""

# The code of a test is compiled without optimization, which takes two thirds of the time: it runs
# briefly and consists mostly of templates. The code under test is optimized.
TEST_COPTS = ["-O0"]

# No precompiled headers, and each source in its own compilation unit (together.bzl).
OFF = "//third_party/precompiled:off"

_TORCH = "//third_party:libtorch"
_TENSOR = "//third_party:tensor"
_TESTS = ["//third_party:googletest", "//third_party:googletest_main"]

def header_of(deps):
    """Returns the name of the precompiled header for sources with these deps."""
    if [dep for dep in deps if dep in _TESTS]:
        return "torch_test" if _TORCH in deps or _TENSOR in deps else "base_test"
    return "torch" if _TORCH in deps else "tensor" if _TENSOR in deps else "base"

def beginning_with(name):
    """Returns the copts and deps of a target whose sources use the precompiled header `name`."""
    return struct(
        copts = select({
            OFF: [],
            "//conditions:default": [
                "-include",
                "$(BINDIR)/third_party/precompiled/headers/%s.h" % name,
                "-Werror=invalid-pch",
            ] + (TEST_COPTS if name.endswith("_test") else []),
        }),
        deps = select({
            OFF: [],
            "//conditions:default": ["//third_party/precompiled:" + name],
        }),
    )

def _precompiled(rule, deps = [], srcs = [], **attributes):
    if [source for source in srcs if source.endswith(".cc")] and "copts" not in attributes:
        header = beginning_with(header_of(deps))
        attributes["copts"] = header.copts
        deps = deps + header.deps
    rule(deps = deps, srcs = srcs, **attributes)

def cc_library(**attributes):
    _precompiled(native.cc_library, **attributes)

def cc_binary(**attributes):
    _precompiled(native.cc_binary, **attributes)

def seeded(deps):
    """Returns the dep that seeds the random numbers before each case of a test that uses
    LibTorch."""
    return ["//tests/testing:seeded"] if header_of(deps) == "torch_test" else []

def cc_test(deps = [], **attributes):
    _precompiled(native.cc_test, deps = deps + seeded(deps), **attributes)
