"""An archive of the folder that dist.bzl makes. The same files always give the same bytes."""

# Arguments: the folder, the README template, the version, the device for README, the archive, its
# checksum file.
_SCRIPT = """set -euo pipefail
folder=$1 readme=$2 version=$3 device=$4 archive=$5 checksum=$6
export LC_ALL=C
name=${archive##*/}
name=${name%.tar.gz}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -rL "$folder" "$work/$name"
sed -e "s/@VERSION@/$version/" -e "s/@DEVICE@/$device/" "$readme" >"$work/$name/README"

# Bazel makes whatever it writes executable.
find "$work/$name" -type d -exec chmod 755 {} +
find "$work/$name" -type f -exec chmod 644 {} +
chmod 755 "$work/$name/moonring" "$work/$name/moonring-bin"

(cd "$work/$name" && find . -type f -printf '%P\\0' | sort --zero-terminated |
  xargs --null sha256sum) >"$work/sums"
install -m 644 "$work/sums" "$work/$name/SHA256SUMS"

tar --create --format=ustar --sort=name --owner=0 --group=0 --numeric-owner \\
  --mtime='2000-01-01 00:00:00Z' --directory="$work" "$name" |
  gzip --no-name --best >"$archive"
(cd "${archive%/*}" && sha256sum "$name.tar.gz") >"$checksum"
"""

def _archive_impl(ctx):
    name = "moonring-%s-linux-x86_64-%s" % (ctx.attr.version, ctx.attr.flavor)
    archive = ctx.actions.declare_file(name + ".tar.gz")
    checksum = ctx.actions.declare_file(name + ".tar.gz.sha256")
    ctx.actions.run_shell(
        command = _SCRIPT,
        arguments = [
            ctx.file.folder.path,
            ctx.file.readme.path,
            ctx.attr.version,
            ctx.attr.device,
            archive.path,
            checksum.path,
        ],
        inputs = [ctx.file.folder, ctx.file.readme],
        outputs = [archive, checksum],
        mnemonic = "Archive",
        progress_message = "Packing %s" % archive.short_path,
    )
    made = depset([archive, checksum])
    return [DefaultInfo(files = made, runfiles = ctx.runfiles(transitive_files = made))]

archive = rule(
    implementation = _archive_impl,
    doc = """Makes moonring-VERSION-linux-x86_64-FLAVOR.tar.gz and, beside it, its checksum
(.tar.gz.sha256). In it one folder of that name:
    `folder`'s files, README (how to use them) and SHA256SUMS (of all the others).
`device` is what README calls the flavor.""",
    attrs = {
        "device": attr.string(mandatory = True),
        "flavor": attr.string(mandatory = True),
        "folder": attr.label(allow_single_file = True, mandatory = True),
        "readme": attr.label(allow_single_file = True, mandatory = True),
        "version": attr.string(mandatory = True),
    },
)
