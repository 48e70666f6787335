"""Golden files under their plain names: the large ones are committed as NAME.xz, and the weights of
small models as a seed in their golden.json."""

def _unpack(ctx):
    arguments = ctx.actions.args()
    for source, target in zip(ctx.files.packed, ctx.outputs.outs):
        arguments.add(source)
        arguments.add(target)
    ctx.actions.run(
        executable = "python3",
        arguments = [ctx.file._pack.path, "--unpack", arguments],
        inputs = ctx.files.packed + ctx.files._tools,
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
        "_pack": attr.label(default = "//tests/golden:pack.py", allow_single_file = True),
        "_tools": attr.label(default = "//tests/golden:tools"),
    },
)

def _weights(ctx):
    ctx.actions.run(
        executable = "python3",
        arguments = [ctx.file._tool.path, ctx.file.golden.path, ctx.outputs.out.path],
        inputs = [ctx.file.golden, ctx.file._tool],
        outputs = [ctx.outputs.out],
        mnemonic = "SeededWeights",
        use_default_shell_env = True,
    )
    return [DefaultInfo(files = depset([ctx.outputs.out]))]

_weights_rule = rule(
    implementation = _weights,
    attrs = {
        "golden": attr.label(allow_single_file = [".json"]),
        "out": attr.output(),
        "_tool": attr.label(default = "//tests/golden:seeded_weights.py", allow_single_file = True),
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

def unpacked_model(name):
    """The folder of a small model; where it has no weights, those of the seed in its golden.json."""
    files = [name + "/*"]
    if native.glob([name + "/*.safetensors"], exclude = [name + "/model-5.23.safetensors"]):
        unpacked(name, files)
        return
    unpacked(name + "_files", files)
    _weights_rule(
        name = name + "_weights",
        golden = name + "/golden.json",
        out = name + "/model.safetensors",
        visibility = ["//tests:__subpackages__"],
    )
    native.filegroup(
        name = name,
        srcs = [":" + name + "_files", ":" + name + "_weights"],
        visibility = ["//tests:__subpackages__"],
    )
