"""Rules for libraries that are linked, but whose headers and definitions are not passed on. Targets
that depend on them are therefore compiled identically with and without them."""

load("//third_party/precompiled:cc.bzl", "cc_library")

def _link_only_impl(ctx):
    infos = [dep[CcInfo] for dep in ctx.attr.deps]
    runfiles = ctx.runfiles()
    for dep in ctx.attr.deps:
        runfiles = runfiles.merge(dep[DefaultInfo].default_runfiles)
    return [
        DefaultInfo(runfiles = runfiles),
        CcInfo(linking_context = cc_common.merge_cc_infos(cc_infos = infos).linking_context),
    ]

link_only = rule(
    implementation = _link_only_impl,
    doc = "Its deps to link with: their headers, include paths and defines are not passed on.",
    attrs = {"deps": attr.label_list(providers = [CcInfo])},
)

def cuda_library(name, srcs, hdrs, deps, visibility = None):
    """A cc_library whose own sources see CUDA's headers under --config=cuda.

    Under --config=cuda they are compiled with MOONRING_CUDA and USE_C10D_NCCL. Targets that depend
    on the library see neither the headers nor the definitions.
    """
    cc_library(
        name = name + "_sources",
        srcs = srcs,
        hdrs = hdrs,
        visibility = ["//visibility:private"],
        deps = deps + ["//third_party:cuda_headers"],
    )
    link_only(
        name = name + "_linked",
        visibility = ["//visibility:private"],
        deps = [":" + name + "_sources"],
    )
    cc_library(
        name = name,
        hdrs = hdrs,
        visibility = visibility,
        deps = deps + [":" + name + "_linked"],
    )
    native.alias(  # the name that together.bzl expects
        name = name + ".headers",
        actual = ":" + name,
        visibility = ["//visibility:private"],
    )
