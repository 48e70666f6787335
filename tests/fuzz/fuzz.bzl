"""Fuzz targets: NAME_fuzz.cc, which defines LLVMFuzzerTestOneInput, with inputs in corpus/NAME."""

load("//third_party/precompiled:cc.bzl", "cc_binary", "cc_library")

# Maximum number of fuzz targets that are compiled together for corpus_test.
_UNIT = 6

def _unit_impl(ctx):
    lines = ["#include \"tests/fuzz/corpus.h\"\n"]
    for source in ctx.files.srcs:
        name = source.basename[:-len("_fuzz.cc")]
        lines += [
            "#define LLVMFuzzerTestOneInput fuzz_%s\n" % name,
            "#include \"%s\"\n" % source.short_path,
            "#undef LLVMFuzzerTestOneInput\n",
            "const moonring::fuzz::Corpus corpus_%s(\"%s\", &fuzz_%s);\n" % (name, name, name),
        ]
    unit = ctx.actions.declare_file(ctx.label.name)
    ctx.actions.write(unit, "".join(lines))
    return [DefaultInfo(files = depset([unit]))]

_unit = rule(
    implementation = _unit_impl,
    doc = "A source, NAME, that includes those of fuzz targets, each under a name of its own.",
    attrs = {"srcs": attr.label_list(allow_files = [".cc"])},
)

def fuzz_targets(targets):
    """Declares two programs for each target.

    NAME_fuzz uses libFuzzer and requires --config=fuzz. NAME mutates inputs without coverage
    (mutation_main.cc) and can be built with any compiler.

    Args:
      targets: {NAME: deps}.

    Returns:
      libraries of all targets for corpus_test.
    """
    for name, deps in targets.items():
        cc_binary(
            name = name + "_fuzz",
            testonly = True,
            srcs = [
                name + "_fuzz.cc",
                "sanitizer_options.cc",
            ],
            linkopts = ["-fsanitize=fuzzer"],
            tags = [
                "fuzz",
                "manual",
            ],
            deps = deps,
        )
        cc_binary(
            name = name,
            testonly = True,
            srcs = [
                name + "_fuzz.cc",
                "mutation_main.cc",
            ],
            data = native.glob(["corpus/%s/**" % name]),
            tags = ["manual"],
            deps = deps + [":mutation"],
        )
    names = targets.keys()
    units = []
    for first in range(0, len(names), _UNIT):
        unit = "corpus_%d" % (first // _UNIT)
        some = names[first:first + _UNIT]
        sources = [name + "_fuzz.cc" for name in some]
        _unit(name = unit + ".cc", testonly = True, srcs = sources)
        cc_library(
            name = unit,
            testonly = True,
            srcs = [unit + ".cc"],
            textual_hdrs = sources,
            alwayslink = True,
            deps = {dep: None for name in some for dep in targets[name]}.keys() + [":corpus"],
        )
        units.append(":" + unit)
    return units
