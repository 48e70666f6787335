"""A repository rule for Debian -dev packages that are installed on this machine."""

def _debian_impl(ctx):
    triplet = "x86_64-linux-gnu"
    for package, path in ctx.attr.needs.items():
        if not ctx.path(path.replace("{lib}", "/usr/lib/" + triplet)).exists:
            fail("%s is missing (no %s): ./bazelw installs it, or: apt-get install %s" %
                 (package, path, package))
    for link, path in ctx.attr.links.items():
        ctx.symlink(path.replace("{lib}", "/usr/lib/" + triplet), link)
    for link, wanted in ctx.attr.sha256.items():
        result = ctx.execute(["sha256sum", ctx.path(link)])
        if result.return_code != 0 or result.stdout.split(" ")[0] != wanted:
            fail("%s: sha256sum says %s%s, expected %s" %
                 (ctx.attr.links[link], result.stdout, result.stderr, wanted))
    ctx.file("BUILD", ctx.read(ctx.attr.build_file))
    ctx.file("WORKSPACE", "")

debian = repository_rule(
    implementation = _debian_impl,
    doc = "Checks that Debian packages are there and links their headers; the libraries come " +
          "from the system's path.",
    attrs = {
        "needs": attr.string_dict(
            doc = "package to a file of it ({lib} = the machine's library folder)",
            mandatory = True,
        ),
        "links": attr.string_dict(doc = "path in the repository to a path of the system"),
        "sha256": attr.string_dict(doc = "path in the repository to the checksum of what is there"),
        "build_file": attr.label(allow_single_file = True, mandatory = True),
    },
    local = True,
)
