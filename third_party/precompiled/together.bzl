"""Libraries and tests of a package, several sources compiled together in one unit (a unity build).

Most of the compile time is spent on headers and templates: eight sources in one unit take a third
of the time that they take separately. A package loads its rules from this file and ends with
`together()`:

    load("//third_party/precompiled:together.bzl", "cc_library", "together")
    cc_library(name = "mesh", deps = [...])
    cc_library(name = "layout", deps = [...])
    together()

The sources of a target are named like the target: mesh.cc and mesh.h, if they exist. `srcs` and
`hdrs` specify other sources. The size of a test is "small" by default, and GoogleTest's main is
added to its deps.

Each library has its own headers, deps and visibility, but the library that is linked is
`:together`, which contains all units of the package. The tests of a package are one program,
`:tests`; each test target runs the cases of its own source, in two tiers (docs/testing.md).

Requirements: no two sources of a package may use the same name for different things in unnamed
namespaces (tests/layering/names_test.py), and no macro of a source may change what another source
includes. A target with attributes that are not in _KNOWN (copts, ...) is compiled separately. A
target with testonly or `alone = True` is also a separate library. --define=precompiled=off compiles
each source separately, which detects missing includes.
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

# Maximum number of sources per unit, for libraries and for tests. A change of one source recompiles
# its whole unit. Tests have larger units, because their instances of GoogleTest's and JSON's
# templates are then compiled once: sixteen tests in one unit take two thirds of the time of two
# units of eight.
_UNIT = 8
_TEST_UNIT = 24

_KNOWN = ["alwayslink", "data", "visibility"]
_KNOWN_OF_TESTS = ["args", "data", "env", "local", "shard_count", "size", "tags"]
_MAIN = "//third_party:googletest_main"

def _headers_of(dep):
    # The target with the headers of a dep. Inside a package, sources that are compiled together
    # need only the headers.
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
    # Declares the sources of a target, and what they need to compile, for `together` to find.
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
    """A cc_library that is compiled together with the other sources of its package.

    Args:
      name: as in Bazel.
      srcs: as in Bazel; by default NAME.cc if it exists.
      hdrs: as in Bazel; by default NAME.h if it exists.
      deps: as in Bazel.
      alone: a separate library, on which no other target of the package depends.
      **attributes: as in Bazel.
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
    """A cc_test that is part of the program with all tests of its package.

    Args:
      name: as in Bazel.
      srcs: as in Bazel; by default NAME.cc.
      deps: as in Bazel, without GoogleTest's main, which is added.
      fast: patterns of the cases in the fast tier; all others are in the full tier. Patterns match
        "Suite.Case": "A.*", "*/B.c/!(x|y)" (all but x and y, as FNM_EXTMATCH of fnmatch). The
        target NAME runs the fast tier, NAME_full the full tier.
      full: instead of `fast`: the cases in the full tier; all others are in the fast tier.
        ["*"]: all cases are in the full tier.
      full_shards: shard_count of NAME_full.
      alone: a separate program.
      size: as in Bazel; by default "small".
      **attributes: as in Bazel.
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
    # Declares units that include the sources of the parts, at most `size` each.
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
    """Ends a package: declares its library `:together` and its test program `:tests`."""
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
            # Separate objects and units refer to each other, so all of them must be linked.
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
