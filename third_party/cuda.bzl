"""The CUDA libraries of LibTorch.
|
The repository is only filled under --config=cuda; other builds fetch and need nothing of it.
"""

load("//third_party:wheel.bzl", "WHEEL_ATTRS", "WHEEL_ENVIRON", "link_wheels")

# The system libraries that libtorch_cuda needs: a CUDA 13 toolkit, cuDNN 9, NCCL. Libraries that
# this machine lacks are left to the dynamic loader.
_LIBRARIES = [
    "libcublas.so.13",
    "libcublasLt.so.13",
    "libcudnn.so.9",
    "libcufft.so.12",
    "libcurand.so.10",
    "libcusparse.so.12",
    "libnccl.so.2",
]

# The BUILD file of the repository if something is missing. Queries work; compiling or linking
# against its targets fails with a message that names what is missing.
_EMPTY = """
package(default_visibility = ["//visibility:public"])
cc_library(name = "toolkit", hdrs = [":missing.h"])
cc_library(name = "cuda", srcs = [":libmissing.so"])
genrule(
    name = "missing",
    outs = ["missing.h", "libmissing.so", "nvcc"],
    cmd = "echo '%s' >&2; exit 1",
)
"""

def _value(ctx, header, name):
    for line in ctx.read(header).split("\n"):
        words = [word for word in line.replace("\t", " ").split(" ") if word]
        if len(words) >= 3 and words[0] == "#define" and words[1] == name:
            return words[2]
    return ""

def _obstacle(ctx, toolkit, nccl):
    if ctx.os.environ.get("MOONRING_CUDA") != "1":
        return "the CUDA libraries are built with --config=cuda"
    needs = "--config=cuda needs a CUDA 13 toolkit, and "
    runtime = ctx.path(toolkit + "/include/cuda_runtime_api.h")
    if not runtime.exists:
        return needs + "there is none in %s (CUDA_HOME names another place)" % toolkit
    version = _value(ctx, runtime, "CUDART_VERSION")
    if not version.startswith("13"):
        return needs + "CUDART_VERSION in %s is %s" % (toolkit, version)
    if not ctx.path(toolkit + "/bin/nvcc").exists:
        return needs + "there is no %s/bin/nvcc" % toolkit
    if not nccl:
        return (
            "--config=cuda needs nccl.h of NCCL 2.28: install libnccl-dev, or put it into " +
            toolkit + "/include"
        )

    # ProcessGroupNCCL stores structs of this header by value, so its version must be the one that
    # LibTorch was built with.
    version = _value(ctx, nccl, "NCCL_MAJOR") + "." + _value(ctx, nccl, "NCCL_MINOR")
    if version != "2.28":
        return "--config=cuda needs nccl.h of NCCL 2.28, and %s is of %s" % (nccl, version)
    return ""

def _cuda_impl(ctx):
    ctx.file("WORKSPACE", "")
    toolkit = ctx.os.environ.get("CUDA_HOME") or "/usr/local/cuda"
    headers = [
        ctx.path(folder + "/nccl.h")
        for folder in [toolkit + "/include", "/usr/local/include", "/usr/include"]
    ]
    headers = [header for header in headers if header.exists]
    obstacle = _obstacle(ctx, toolkit, headers[0] if headers else None)
    ctx.file("obstacle", obstacle)  # read by .ci/run; empty if nothing is missing
    if obstacle:
        ctx.file("BUILD", _EMPTY % obstacle)
        return
    link_wheels(ctx)
    ctx.symlink(toolkit + "/include", "include")

    # A script and not a link, because nvcc looks for its tools in its own folder.
    ctx.file("nvcc", "#!/bin/sh\nexec '%s/bin/nvcc' \"$@\"\n" % toolkit, executable = True)
    if headers[0].dirname != ctx.path(toolkit + "/include"):
        ctx.symlink(headers[0], "nccl/nccl.h")
    folders = [toolkit + "/lib64", toolkit + "/lib", "/usr/local/lib", "/usr/lib/x86_64-linux-gnu"]
    linkopts = []
    for library in _LIBRARIES:
        for folder in folders:
            if ctx.path(folder + "/" + library).exists:
                linkopts += ["-Wl,-rpath," + folder, "-Wl,%s/%s" % (folder, library)]
                break
    ctx.file("BUILD", ctx.read(ctx.attr.build_file).replace("[] # of the machine", repr(linkopts)))

cuda = repository_rule(
    implementation = _cuda_impl,
    doc = """The headers and libraries of the CUDA toolkit, of NCCL and of the few wheels that
    hold what a toolkit lacks. Where --config=cuda is not given, or something is missing, a
    target that fails when it is built, and says why.""",
    attrs = WHEEL_ATTRS,
    environ = WHEEL_ENVIRON + ["MOONRING_CUDA", "CUDA_HOME"],
)
