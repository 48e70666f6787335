"""Libraries and tests of one package, whose sources are compiled together, several at a time.

Most of a compile is parsing headers and making templates: eight sources in one unit take a third of
the time that they take by themselves. A package takes its rules from here and ends with
`together()`:

    load("//third_party/precompiled:together.bzl", "cc_library", "together")
    cc_library(name = "mesh", deps = [...])
    cc_library(name = "layout", deps = [...])
    together()

The sources of a target are its name's: mesh.cc and mesh.h, those of the two that exist. `srcs` and
`hdrs` name others. A test is small and has GoogleTest's main among its deps.

Each library keeps its headers, deps and visibility. What is linked for it is `:together`, of whose
units a program has all. The tests of a package are one program, `:tests`; a test is a target that
runs the cases of its own source in it, in two tiers (docs/testing.md).

What this asks of a package: no two of its sources give one name to different things of unnamed
namespaces (tests/layering/names_test.py), and no macro of a source changes what another includes. A
target with other attributes than those of _KNOWN (copts, ...) is compiled by itself. One that is
testonly, or has `alone = True`, is a library by itself.
--define=precompiled=off compiles each source by itself, which shows an include that one lacks.
"""

load(
    ":cc.bzl",
    "OFF",
    "beginning_with",
    "header_of",
    "seeded",
    alone_library = "cc_library",
    alone_test = "cc_test",
)

# Sources in one unit, of libraries and of tests. A change of one compiles all of its unit. Sixteen
# tests together take two thirds of the time of twice eight: what they make of GoogleTest's and
# JSON's templates is made once.
_UNIT = 8
_TEST_UNIT = 24

_KNOWN = ["alwayslink", "data", "visibility"]
_KNOWN_OF_TESTS = ["args", "data", "env", "local", "shard_count", "size", "tags"]
_MAIN = "//third_party:googletest_main"

def _headers_of(dep):
    # What those see of a dep that are compiled together with it.
    return dep + ".headers" if dep.startswith(":") else dep

def _unit_impl(ctx):
    unit = ctx.actions.declare_file(ctx.label.name)
    lines = ["#include \"%s\"\n" % source.short_path for source in ctx.files.srcs]
    ctx.actions.write(unit, "".join(lines))
    return [DefaultInfo(files = depset([unit]))]

unit = rule(
    implementation = _unit_impl,
    doc = "A source, NAME, that includes others.",
    attrs = {"srcs": attr.label_list(allow_files = [".cc", ".cu"])},
)

def _part(name, srcs, hdrs, deps, tags, textual_hdrs = [], **attributes):
    # What `together` finds of a target: its sources, and what they need to compile.
    native.cc_library(
        name = name + ".headers",
        hdrs = hdrs,
        tags = ["manual"] + tags,
        textual_hdrs = srcs + textual_hdrs,
        visibility = ["//visibility:private"],
        deps = [_headers_of(dep) for dep in deps],
        **attributes
    )

def cc_library(name, srcs = None, hdrs = None, deps = [], alone = False, **attributes):
    """A cc_library, compiled with the other sources of its package.

    Args:
      name: Bazel's.
      srcs: Bazel's; by default NAME.cc if it exists.
      hdrs: Bazel's; by default NAME.h if it exists.
      deps: Bazel's.
      alone: no part of the package's library; others of the package do not depend on it.
      **attributes: Bazel's.
    """
    if srcs == None:
        srcs = native.glob([name + ".cc"])
    if hdrs == None:
        hdrs = native.glob([name + ".h"])
    if alone or "testonly" in attributes:
        alone_library(name = name, srcs = srcs, hdrs = hdrs, deps = deps, **attributes)
        native.alias(
            name = name + ".headers",
            actual = ":" + name,
            visibility = ["//visibility:private"],
        )
        return
    own = [attribute for attribute in attributes if attribute not in _KNOWN]
    textual_hdrs = attributes.get("textual_hdrs", [])
    data = attributes.get("data", [])
    linked = [":together"]
    if not [source for source in srcs if source.endswith(".cc")]:
        _part(name, srcs, hdrs, deps, [], textual_hdrs, data = data)
        linked = deps
    elif own:
        _part(name, [], hdrs, deps, ["together.headers"], textual_hdrs, data = data)
        alone_library(
            name = name + ".objects",
            srcs = srcs,
            hdrs = hdrs,
            alwayslink = True,
            tags = ["manual", "together.objects"],
            visibility = ["//visibility:private"],
            deps = [_headers_of(dep) for dep in deps],
            **{key: attributes[key] for key in own}
        )
    else:
        _part(name, srcs, hdrs, deps, ["together"], data = data)
    native.cc_library(
        name = name,
        srcs = select({OFF: srcs, "//conditions:default": []}),
        hdrs = hdrs,
        deps = select({
            OFF: deps,
            "//conditions:default": [":%s.headers" % name] + linked,
        }),
        **attributes
    )

def _source_test_impl(ctx):
    options = ["--source=" + ctx.file.source.short_path]
    if ctx.attr.tier:
        options.append("--tier=" + ctx.attr.tier)
    for tier in ["fast", "full"]:
        cases = getattr(ctx.attr, tier)
        options += ["'--%s=%s'" % (tier, ":".join(cases))] if cases else []
    script = ctx.actions.declare_file(ctx.label.name)
    ctx.actions.write(
        script,
        "#!/bin/sh\nexec \"$(dirname \"$0\")/%s\" %s \"$@\"\n" % (
            ctx.executable.program.basename,
            " ".join(options),
        ),
        is_executable = True,
    )
    runfiles = ctx.runfiles(files = [script] + ctx.files.data)
    for dep in [ctx.attr.program] + ctx.attr.data:
        runfiles = runfiles.merge(dep[DefaultInfo].default_runfiles)
    return [
        DefaultInfo(executable = script, runfiles = runfiles),
        testing.TestEnvironment({
            key: ctx.expand_location(value, ctx.attr.data)
            for key, value in ctx.attr.env.items()
        }),
    ]

_source_test = rule(
    implementation = _source_test_impl,
    doc = "The cases of one source, or those of one tier, in a program of tests.",
    attrs = {
        "data": attr.label_list(allow_files = True),
        "env": attr.string_dict(),
        "fast": attr.string_list(),
        "full": attr.string_list(),
        "program": attr.label(executable = True, cfg = "target", mandatory = True),
        "source": attr.label(allow_single_file = [".cc"], mandatory = True),
        "tier": attr.string(values = ["", "fast", "full"]),
    },
    test = True,
)

def cc_test(
        name,
        srcs = None,
        deps = [],
        fast = [],
        full = [],
        full_shards = 1,
        alone = False,
        size = "small",
        **attributes):
    """A cc_test, part of the one program of its package's tests.

    Args:
      name: Bazel's.
      srcs: Bazel's: its own source; by default NAME.cc.
      deps: Bazel's, without GoogleTest's main.
      fast: the cases of the fast tier, where all others are the full tier's: patterns of
        "Suite.Case" each, "A.*", "*/B.c/!(x|y)" (all but x and y, as fnmatch's FNM_EXTMATCH has
        it). NAME is the target of the fast tier's cases, NAME_full of the others.
      full: or the cases of the full tier, where all others are the fast tier's; ["*"]: all.
      full_shards: shard_count of NAME_full.
      alone: a program of its own all the same.
      size: Bazel's.
      **attributes: Bazel's.
    """
    srcs = srcs or [name + ".cc"]
    if alone or [attribute for attribute in attributes if attribute not in _KNOWN_OF_TESTS]:
        if fast or full:
            fail("%s: a program of its own has one tier: tags = [\"full\"]" % name)
        alone_test(name = name, size = size, srcs = srcs, deps = deps + [_MAIN], **attributes)
        return
    _part(name, srcs, [], deps, ["tests"], testonly = True)
    if fast and full:
        fail("%s: either fast or full names its cases" % name)
    tiers = {"": ""}
    if full == ["*"]:
        tiers = {"": "full"}
    elif fast or full:
        tiers = {"": "fast", "_full": "full"}
    for suffix, tier in tiers.items():
        own = dict(attributes, size = size)
        if tier == "full":
            own["tags"] = own.get("tags", []) + ["full"]
            own["shard_count"] = full_shards if full_shards > 1 else None
            own["size"] = "enormous"
        _source_test(
            name = name + suffix,
            fast = fast,
            full = full,
            program = ":tests",
            source = srcs[0],
            tier = tier,
            **own
        )

def _units(name, parts, size):
    # Sources that include those of the parts, so many each.
    sources = {
        source: None
        for part in parts
        for source in part["textual_hdrs"]
        if source.endswith(".cc")
    }.keys()
    units = []
    for first in range(0, len(sources), size):
        units.append("%s_%d.cc" % (name, first // size))
        unit(
            name = units[-1],
            srcs = sources[first:first + size],
            tags = ["manual"],
            visibility = ["//visibility:private"],
        )
    return struct(apart = sources, together = units)

def _names(parts):
    return [":" + part["name"] for part in parts]

def _deps(parts):
    return [dep for part in parts for dep in part["deps"]]

def together():
    """Ends a package: the library, and the program of tests, of all its targets' sources."""
    tagged = {tag: [
        rule
        for rule in native.existing_rules().values()
        if tag in rule.get("tags", [])
    ] for tag in ["tests", "together", "together.headers", "together.objects"]}
    libraries = tagged["together"]
    has_library = bool(libraries or tagged["together.objects"])
    if has_library:
        header = beginning_with(header_of(_deps(libraries)))
        native.cc_library(
            name = "together",
            srcs = _units("together", libraries, _UNIT).together,
            # Its own objects need what is in the units and the other way round.
            alwayslink = True,
            copts = header.copts,
            tags = ["manual"],
            visibility = ["//visibility:private"],
            deps = header.deps + _names(
                libraries + tagged["together.headers"] + tagged["together.objects"],
            ),
        )
    tests = tagged["tests"]
    if tests:
        units = _units("tests", tests, _TEST_UNIT)
        header = beginning_with(header_of(_deps(tests) + [_MAIN]))
        native.cc_binary(
            name = "tests",
            testonly = True,
            srcs = select({OFF: units.apart, "//conditions:default": units.together}),
            copts = header.copts,
            tags = ["manual"],
            visibility = ["//visibility:private"],
            deps = header.deps + _names(tests) + ["//tests/testing:main"] +
                   seeded(_deps(tests) + [_MAIN]) + ([":together"] if has_library else []),
        )
