"""Bazel's C++ rules, whose sources begin with a precompiled header.

Half of a compile is parsing LibTorch's, abseil's and GoogleTest's headers.

A target with //third_party:libtorch among its own deps begins with torch.h, one with
//third_party:tensor with tensor.h, any other with base.h; tests begin with torch_test.h or
base_test.h. A source still includes what it uses: --define=precompiled=off builds without, as do
compilers other than GCC. A target with copts of its own goes without as well, since GCC wants the
options that the header was compiled with.
"""

# A test's own code has little to do, and much of it is made from templates: without optimisation it
# compiles in two thirds of the time. What it tests is optimised.
TEST_COPTS = ["-O0"]

# Without precompiled headers, and each source by itself (together.bzl).
OFF = "//third_party/precompiled:off"

_TORCH = "//third_party:libtorch"
_TENSOR = "//third_party:tensor"
_TESTS = ["//third_party:googletest", "//third_party:googletest_main"]

def header_of(deps):
    """The precompiled header that sources with these deps begin with: its name."""
    if [dep for dep in deps if dep in _TESTS]:
        return "torch_test" if _TORCH in deps or _TENSOR in deps else "base_test"
    return "torch" if _TORCH in deps else "tensor" if _TENSOR in deps else "base"

def beginning_with(name):
    """What a target has whose sources begin with the precompiled header `name`: copts, deps."""
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
    """What gives each case of a test with these deps the same random numbers in every run."""
    return ["//tests/testing:seeded"] if header_of(deps) == "torch_test" else []

def cc_test(deps = [], **attributes):
    _precompiled(native.cc_test, deps = deps + seeded(deps), **attributes)
