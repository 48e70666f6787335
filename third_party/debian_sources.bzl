"""A repository rule for the sources of Debian packages, with Debian's patches.

Debian compiles its static libraries for programs; their code cannot be part of a shared library.
What libmoonring.so contains of them is compiled from the sources of the same packages."""

# Arguments: packages, each "NAME" or "NAME:tar-only". Unpacks each into the folder NAME. apt-get
# verifies what it downloads by Debian's signatures. It uses lists of its own: those of a machine
# seldom have sources, and only root may change them.
_SCRIPT = """set -euo pipefail
root=$PWD/apt
mkdir -p "$root"/lists/partial "$root"/cache/archives/partial "$root"/sources
for list in /etc/apt/sources.list.d/*.sources; do
  [ ! -e "$list" ] || sed -E 's/^Types:.*/Types: deb-src/' "$list" >"$root/sources/${list##*/}"
done
for list in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
  [ ! -e "$list" ] || sed -E 's/^deb /deb-src /' "$list" >"$root/sources/${list##*/}"
done
get() {
  apt-get --quiet=2 -o Dir::Etc::SourceList=/dev/null -o Dir::Etc::SourceParts="$root/sources" \\
    -o Dir::State::Lists="$root/lists" -o Dir::Cache="$root/cache" -o Debug::NoLocking=1 \\
    -o APT::Sandbox::User= "$@"
}
get update
for word in "$@"; do
  package=${word%:tar-only}
  mkdir -p "$root/$package/source"
  cd "$root/$package"
  option=$([ "$word" = "$package" ] || echo --tar-only)
  get source --download-only $option "$package"
  rm -f ./*.asc # signatures, which apt-get has no use for
  tar --extract --file *.orig.tar.* --directory=source
  top=source
  # Most archives have one folder with everything in it; others have the files themselves.
  [ "$(ls source | wc -l)" != 1 ] || top=source/$(ls source)
  if [ -z "$option" ]; then
    tar --extract --file *.debian.tar.*
    sed -E 's/ *(#.*)?$//; /^$/d' debian/patches/series | while read -r change; do
      patch --batch --quiet --strip=1 --directory="$top" <"debian/patches/$change"
    done
  fi
  find "$top" \\( -name BUILD -o -name BUILD.bazel -o -name WORKSPACE \\) -delete
  mv "$top" "$root/../$package"
done
rm -r "$root"
"""

def _debian_sources_impl(ctx):
    command = ["bash", "-c", _SCRIPT, "debian_sources"] + ctx.attr.packages
    result = ctx.execute(command, timeout = 600)
    if result.return_code != 0:
        fail("the sources of Debian's packages %s: %s%s\n" %
             (", ".join(ctx.attr.packages), result.stdout, result.stderr) +
             "apt-get downloads them: it must be Debian 12's, and reach a mirror of Debian.")
    ctx.file("BUILD", ctx.read(ctx.attr.build_file))
    ctx.file("WORKSPACE", "")

debian_sources = repository_rule(
    implementation = _debian_sources_impl,
    doc = "Unpacks sources of Debian packages, patched as Debian does, into a folder each.",
    attrs = {
        "packages": attr.string_list(
            doc = "source packages; NAME:tar-only where Debian's changes touch no source in use",
            mandatory = True,
        ),
        "build_file": attr.label(allow_single_file = True, mandatory = True),
    },
)
