"""Programs and shared libraries that run on systems older than the one they are built on.

A program asks its system for the newest version of each symbol that the linker saw. Targets of
portable_binary are linked with stubs of the system's libraries, in which glibc 2.28 and GCC 8 are
the newest (stubs.py), as LibTorch's wheel is. Functions that are newer come from newer.cc, or from
the static libstdc++ if the build machine's has them and the stub does not."""

load("//third_party/precompiled:cc.bzl", "cc_binary")

def portable_binary(
        name,
        deps,
        additional_linker_inputs = [],
        linkopts = [],
        linkshared = False,
        **attributes):
    """A cc_binary that asks for no symbol newer than glibc 2.28's.

    Args:
      name: as in Bazel.
      deps: as in Bazel.
      additional_linker_inputs: as in Bazel.
      linkopts: as in Bazel.
      linkshared: as in Bazel.
      **attributes: of cc_binary.
    """
    cc_binary(
        name = name,
        additional_linker_inputs = additional_linker_inputs + ["//third_party/older_symbols:stubs"],
        linkopts = linkopts + [
            "-L$(BINDIR)/third_party/older_symbols",
            "-lstdc++",
            "-l:libstdc++.a",
        ],
        linkshared = linkshared,
        deps = deps + ["//third_party/older_symbols:newer"] +
               ["//third_party/older_symbols:" + ("streams" if linkshared else "start")],
        **attributes
    )
