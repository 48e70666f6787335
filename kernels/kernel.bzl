"""Kernels: sources that nvcc compiles for GPUs, and g++ for tests on the CPU."""

load("//third_party:link_only.bzl", "link_only")
load("//third_party/precompiled:together.bzl", "cc_library", "unit")

_WORDS = [
    ":by_type",
    ":delta_scan_tf32",
    ":fibers",
    ":language",
    ":launch",
    ":matrices",
    ":paged_scores",
    ":philox_words",
    ":sums",
    ":tensor_cores",
    ":tensor_table",
    ":vectors",
]

def kernel_library(name, deps = []):
    """A library of operators with custom kernels.

    NAME.h and NAME.cc declare and call the operators. NAME_run.cc implements them on tensors; it
    sees only NAME_launch.h of the kernels in NAME.cu. With --config=cuda programs contain the
    kernels compiled by nvcc; a test contains those for the CPU if it links on_cpu (kernels_on_cpu).

    Args:
      name: of the files, and of the library.
      deps: dependencies of NAME.cc.
    """
    cc_library(
        name = name,
        srcs = [name + ".cc"],
        hdrs = [name + ".h"],
        deps = deps + [
            ":%s_of_this_build" % name,
            ":optional_tensor",
            "//third_party:libtorch",
        ],
    )
    native.cc_library(
        name = name + "_of_this_build",
        visibility = ["//visibility:private"],
        deps = select({
            "//third_party:cuda": [":%s_on_cuda" % name],
            "//conditions:default": [],
        }),
    )
    native.alias(
        name = name + "_of_this_build.headers",
        actual = ":%s_of_this_build" % name,
        visibility = ["//visibility:private"],
    )
    unit(
        name = "on_cpu/%s.cc" % name,
        srcs = [name + ".cu"],
        visibility = ["//visibility:private"],
    )
    cc_library(
        name = name + "_on_cpu_kernels",
        testonly = True,
        srcs = ["on_cpu/%s.cc" % name],
        hdrs = [name + "_launch.h"],
        # -O2 lets GCC fuse a product and a sum into one instruction, as nvcc does. (GCC's
        # warnings about uninitialized variables are wrong for this code.)
        copts = ["-O2", "-Wno-maybe-uninitialized"],
        textual_hdrs = [name + ".cu"],
        visibility = ["//visibility:private"],
        deps = _WORDS,
    )
    native.genrule(
        name = name + "_nvcc",
        srcs = [name + ".cu", name + "_launch.h", ":words"],
        outs = ["on_cuda/%s.pic.o" % name, "on_cuda/%s.ptxas" % name],
        cmd = "$(location :compile.sh) $(location @libtorch_cuda//:nvcc) " +
              "$(location %s.cu) $(OUTS)" % name,
        tags = ["manual"],
        tools = [":compile.sh", "@libtorch_cuda//:nvcc"],
        visibility = ["//visibility:private"],
    )
    cc_library(
        name = name + "_on_cuda_parts",
        alone = True,
        srcs = [name + "_launch.h", name + "_run.cc", "on_cuda/%s.pic.o" % name],
        alwayslink = True,
        local_defines = ["MOONRING_KERNELS_ON_CUDA"],
        tags = ["manual"],
        visibility = ["//visibility:private"],
        deps = [
            ":run",
            "//third_party:libtorch",
        ],
    )
    link_only(
        name = name + "_on_cuda",
        tags = ["manual"],
        visibility = ["//visibility:private"],
        deps = [":%s_on_cuda_parts" % name],
    )

def kernels_on_cpu(name, kernels):
    """The kernels compiled for the CPU, for tests and for their simulated device.

    Args:
      name: of the library.
      kernels: names of kernel_library targets. Their NAME_run.cc are compiled as one source,
        which takes a quarter of the time.
    """
    sources = [kernel + "_run.cc" for kernel in kernels]
    unit(
        name = "on_cpu/run.cc",
        srcs = sources,
        visibility = ["//visibility:private"],
    )
    cc_library(
        name = name,
        testonly = True,
        srcs = ["on_cpu/run.cc"],
        alwayslink = True,
        textual_hdrs = sources,
        deps = [":%s_on_cpu_kernels" % kernel for kernel in kernels] +
               [":" + kernel for kernel in kernels] + [
            ":run",
            "//third_party:libtorch",
        ],
    )
