"""A rule for precompiled headers: GCC compiles the header once, and each source maps the result."""

load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")

def _precompiled_header_impl(ctx):
    toolchain = find_cpp_toolchain(ctx)
    features = cc_common.configure_features(
        ctx = ctx,
        cc_toolchain = toolchain,
        requested_features = ctx.features,
        unsupported_features = ctx.disabled_features,
    )
    context = cc_common.merge_cc_infos(
        cc_infos = [dep[CcInfo]
        for dep in ctx.attr.deps]
    ).compilation_context

    # GCC uses X.gch if it is next to the first X in the include path. Both are therefore in a
    # folder without sources.
    header = ctx.actions.declare_file("headers/%s.h" % ctx.label.name)
    compiled = ctx.actions.declare_file("headers/%s.h.gch" % ctx.label.name)
    ctx.actions.symlink(output = header, target_file = ctx.file.hdr)
    variables = cc_common.create_compile_variables(
        feature_configuration = features,
        cc_toolchain = toolchain,
        source_file = ctx.file.hdr.path,
        output_file = compiled.path,
        # The options must equal those of the sources, otherwise GCC rejects the header.
        user_compile_flags = ctx.fragments.cpp.copts + ctx.fragments.cpp.cxxopts +
                             ctx.attr.copts + ["-x", "c++-header"],
        include_directories = context.includes,
        quote_include_directories = depset(["."], transitive = [context.quote_includes]),
        system_include_directories = context.system_includes,
        preprocessor_defines = context.defines,
        use_pic = True,
    )
    action = "c++-compile"
    ctx.actions.run(
        mnemonic = "CppPrecompile",
        progress_message = "Precompiling %s" % ctx.file.hdr.short_path,
        executable = cc_common.get_tool_for_action(
            feature_configuration = features,
            action_name = action,
        ),
        arguments = cc_common.get_memory_inefficient_command_line(
            feature_configuration = features,
            action_name = action,
            variables = variables,
        ),
        env = cc_common.get_environment_variables(
            feature_configuration = features,
            action_name = action,
            variables = variables,
        ),
        inputs = depset(
            [ctx.file.hdr] + ctx.files.textual_hdrs,
            transitive = [context.headers, toolchain.all_files],
        ),
        outputs = [compiled],
        execution_requirements = {"no-sandbox": "1"},
    )
    made = depset([header, compiled])
    own = cc_common.create_compilation_context(headers = made)
    return [
        DefaultInfo(files = made),
        cc_common.merge_cc_infos(
            direct_cc_infos = [CcInfo(compilation_context = own)],
            cc_infos = [dep[CcInfo] for dep in ctx.attr.deps],
        ),
    ]

precompiled_header = rule(
    implementation = _precompiled_header_impl,
    attrs = {
        "copts": attr.string_list(doc = "As the sources that begin with it have."),
        "deps": attr.label_list(providers = [CcInfo]),
        "hdr": attr.label(allow_single_file = [".h"], mandatory = True),
        "textual_hdrs": attr.label_list(
            allow_files = [".h"],
            doc = "What hdr includes of this folder.",
        ),
        "_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain"),
    },
    fragments = ["cpp"],
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
)
