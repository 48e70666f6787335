"""Golden files under their plain names, of which the large ones are committed as NAME.xz."""

def _unpack(ctx):
    arguments = ctx.actions.args()
    for source, target in zip(ctx.files.packed, ctx.outputs.outs):
        arguments.add(source)
        arguments.add(target)
    ctx.actions.run(
        executable = "python3",
        arguments = [ctx.file._tool.path, "--unpack", arguments],
        inputs = ctx.files.packed + [ctx.file._tool],
        outputs = ctx.outputs.outs,
        mnemonic = "UnpackGolden",
        use_default_shell_env = True,
    )
    return [DefaultInfo(files = depset(ctx.outputs.outs))]

_unpack_rule = rule(
    implementation = _unpack,
    attrs = {
        "packed": attr.label_list(allow_files = [".xz"]),
        "outs": attr.output_list(),
        "_tool": attr.label(default = "//tests/golden:pack.py", allow_single_file = True),
    },
)

def unpacked(name, files, visibility = ["//tests:__subpackages__"]):
    """The files of these globs, each a label of its own too.

    Where NAME is there beside NAME.xz it is taken: somebody works on it (pack.py)."""
    plain = native.glob(files, exclude = ["**/*.xz"])
    packed = [
        path
        for path in native.glob([pattern + ".xz" for pattern in files])
        if path[:-len(".xz")] not in plain
    ]
    srcs = list(plain)
    if packed:
        srcs.append(":" + name + "_packed")
        _unpack_rule(
            name = name + "_packed",
            packed = packed,
            outs = [path[:-len(".xz")] for path in packed],
            visibility = visibility,
        )
    native.filegroup(name = name, srcs = srcs, visibility = visibility)
    native.exports_files(plain, visibility)
