"""A folder that can be copied to a machine without Bazel: the stripped program and its files."""

load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")
load(":linked.bzl", "LinkedInfo", "linked_aspect")

# Arguments: the folder, the strip tool, then SOURCE=NAME for each file.
_SCRIPT = """set -eu
folder=$1 strip=$2
shift 2
for pair in "$@"; do
  source=${pair%%=*} target=$folder/${pair#*=}
  mkdir -p "${target%/*}"
  cp -L "$source" "$target"
  chmod u+w "$target"
done
"$strip" --strip-all "$folder/moonring-bin" "$folder"/lib/libmoonring*.so
chmod 755 "$folder/moonring" "$folder/moonring-bin"
"""

# Arguments: Bazel's volatile status (workspace_status.sh), the device, the file. All other files of
# the folder are inputs too, because Bazel runs an action again only when another input than the
# status has changed. So the commit is the one that the files were packed from, or an earlier one
# with the same files.
_STAMP = """set -eu
sed -n -e 's/^MOONRING_COMMIT /commit /p' -e 's/^MOONRING_COMMIT_DATE /date /p' "$1" >"$3"
echo "device $2" >>"$3"
"""

def _dist_impl(ctx):
    toolchain = find_cpp_toolchain(ctx)
    folder = ctx.actions.declare_directory(ctx.label.name)
    places = {ctx.file.launcher: "moonring", ctx.executable.host: "moonring-bin"}
    for file in ctx.files.libraries:
        places[file] = "lib/" + file.basename
    for file in ctx.files.data:  # as in the repository: so the host finds its root beside itself
        places[file] = file.short_path
    for file in ctx.files.licenses:  # NOTICE and licenses/*.txt in their repository
        places[file] = file.short_path.split("/", 2)[2]
    stamp = ctx.actions.declare_file(ctx.label.name + ".stamp")
    ctx.actions.run_shell(
        command = _STAMP,
        arguments = [ctx.version_file.path, ctx.attr.device, stamp.path],
        inputs = [ctx.version_file] + places.keys(),
        outputs = [stamp],
        mnemonic = "Stamp",
    )
    places[stamp] = "lua/moonring/build.txt"
    ctx.actions.run_shell(
        command = _SCRIPT,
        arguments = [folder.path, toolchain.strip_executable] + [
            "%s=%s" % (file.path, name)
            for file, name in places.items()
        ],
        inputs = depset(places.keys(), transitive = [toolchain.all_files]),
        outputs = [folder],
        mnemonic = "Dist",
        progress_message = "Laying out %s" % folder.short_path,
    )

    linked = ctx.actions.declare_file(ctx.label.name + ".linked")
    programs = [ctx.attr.host] + [each for each in ctx.attr.libraries if LinkedInfo in each]
    ctx.actions.write(linked, "".join([
        line + "\n"
        for program in programs
        for line in program[LinkedInfo].lines
    ]))
    return [
        DefaultInfo(files = depset([folder]), runfiles = ctx.runfiles([folder])),
        OutputGroupInfo(linked = depset([linked])),
    ]

dist = rule(
    implementation = _dist_impl,
    doc = """Makes the folder NAME, and in the output group "linked" the file NAME.linked, which
    lists what its programs are linked with (linked.bzl). The folder:
      moonring       the launcher, which finds LibTorch
      moonring-bin   the host, stripped; its RUNPATH has $ORIGIN/lib
      lib/           what neither every system nor every LibTorch has, and libmoonring.so
      lua/ scripts/  what the host finds beside itself, and libmoonring.so one folder up;
                     lua/embed.h; lua/moonring/build.txt, the commit and its date
      NOTICE licenses/  software of others in all this""",
    attrs = {
        "device": attr.string(mandatory = True, doc = "cpu; cuda: GPUs too"),
        "host": attr.label(
            executable = True,
            cfg = "target",
            mandatory = True,
            aspects = [linked_aspect],
        ),
        "launcher": attr.label(allow_single_file = True, mandatory = True),
        "libraries": attr.label_list(allow_files = True, aspects = [linked_aspect]),
        "licenses": attr.label_list(allow_files = True, doc = "files of an external repository"),
        "data": attr.label_list(allow_files = True, doc = "files of this repository"),
        "_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain"),
    },
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
)
