"""Golden files under their plain names. Large ones are committed as NAME.xz, and the weights of
small models as a seed in their golden.json."""

def _made_impl(ctx):
    arguments = ctx.actions.args()
    arguments.add_all(ctx.attr.words)
    for source, target in zip(ctx.files.srcs, ctx.outputs.outs):
        arguments.add(source)
        arguments.add(target)
    ctx.actions.run(
        executable = "python3",
        arguments = [ctx.file.tool.path, arguments],
        inputs = ctx.files.srcs + ctx.files._tools,
        outputs = ctx.outputs.outs,
        mnemonic = "MakeGolden",
        use_default_shell_env = True,
    )
    return [DefaultInfo(files = depset(ctx.outputs.outs))]

_made = rule(
    implementation = _made_impl,
    doc = "What a script makes: it is given `words`, then each source and its output.",
    attrs = {
        "outs": attr.output_list(),
        "srcs": attr.label_list(allow_files = True),
        "tool": attr.label(allow_single_file = [".py"]),
        "words": attr.string_list(),
        "_tools": attr.label(default = "//tests/golden:tools"),
    },
)

def unpacked(name, files, visibility = ["//tests:__subpackages__"]):
    """Declares a filegroup of the files of these globs, with a label for each file.

    If both NAME and NAME.xz exist, NAME is used, because it is being edited (pack.py).

    Args:
      name: of the filegroup.
      files: globs of plain names.
      visibility: of the filegroup and of each file.
    """
    plain = native.glob(files, exclude = ["**/*.xz"])
    packed = [
        path
        for path in native.glob([pattern + ".xz" for pattern in files])
        if path[:-len(".xz")] not in plain
    ]
    srcs = list(plain)
    if packed:
        srcs.append(":" + name + "_packed")
        _made(
            name = name + "_packed",
            srcs = packed,
            outs = [path[:-len(".xz")] for path in packed],
            tool = "//tests/golden:pack.py",
            visibility = visibility,
            words = ["--unpack"],
        )
    native.filegroup(name = name, srcs = srcs, visibility = visibility)
    native.exports_files(plain, visibility)

def unpacked_model(name):
    """Declares the folder of a small model. If it has no weights, they are made from the seed in
    its golden.json."""
    files = [name + "/*"]
    if native.glob([name + "/*.safetensors"], exclude = [name + "/model-5.23.safetensors"]):
        unpacked(name, files)
        return
    unpacked(name + "_files", files)
    _made(
        name = name + "_weights",
        srcs = [name + "/golden.json"],
        outs = [name + "/model.safetensors"],
        tool = "//tests/golden:seeded_weights.py",
        visibility = ["//tests:__subpackages__"],
    )
    native.filegroup(
        name = name,
        srcs = [":" + name + "_files", ":" + name + "_weights"],
        visibility = ["//tests:__subpackages__"],
    )
