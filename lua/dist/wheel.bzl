"""A wheel for pip, of the folder that dist.bzl makes and the Python package."""

_TAG = "py3-none-manylinux_2_28_x86_64"

def _wheel_impl(ctx):
    version = ctx.attr.version + ctx.attr.flavor
    wheel = ctx.actions.declare_file("moonring-%s-%s.whl" % (version, _TAG))
    arguments = ctx.actions.args()
    arguments.add(wheel)
    arguments.add_all(ctx.files.modules)
    arguments.add(version, format = "--version=%s")
    arguments.add(ctx.attr.summary, format = "--summary=%s")
    arguments.add(ctx.file.description, format = "--description=%s")
    arguments.add_all(ctx.attr.requires, format_each = "--requires=%s")
    arguments.add_all(ctx.attr.extras, format_each = "--extra=%s")
    arguments.add(ctx.file.folder.path, format = "--folder=%s")
    arguments.add_all(ctx.attr.leave_out, format_each = "--leave-out=%s")
    ctx.actions.run_shell(
        command = "python3 \"$@\"",
        arguments = [ctx.file._packer.path, arguments],
        inputs = ctx.files.modules + [ctx.file.description, ctx.file.folder, ctx.file._packer],
        outputs = [wheel],
        mnemonic = "Wheel",
        progress_message = "Packing %s" % wheel.short_path,
    )
    made = depset([wheel])
    return [DefaultInfo(files = made, runfiles = ctx.runfiles(transitive_files = made))]

wheel = rule(
    implementation = _wheel_impl,
    doc = "Makes moonring-VERSION-%s.whl: see wheel.py." % _TAG,
    attrs = {
        "description": attr.label(allow_single_file = [".md"], mandatory = True),
        "extras": attr.string_list(doc = "the names of optional requirements"),
        "flavor": attr.string(doc = "a local version, such as +cuda13"),
        "folder": attr.label(allow_single_file = True, mandatory = True),
        "leave_out": attr.string_list(doc = "files of `folder` that the wheel does not need"),
        "modules": attr.label_list(allow_files = True, mandatory = True),
        "requires": attr.string_list(),
        "summary": attr.string(mandatory = True),
        "version": attr.string(mandatory = True),
        "_packer": attr.label(default = "//lua/dist:wheel.py", allow_single_file = True),
    },
)
