"""The diagram of layers in README.md, as data and as queries."""

# Each layer, and the layers that it may depend on in addition to itself and third_party.
LAYERS = {
    "base": [],
    "kernels": ["base"],
    "comm": ["base", "kernels"],
    "attention": ["base", "comm", "kernels"],
    "mixers": ["base", "comm", "kernels"],
    "model": ["attention", "base", "comm", "kernels", "mixers"],
    "data": ["base", "comm", "kernels"],
    "objectives": ["base", "comm", "kernels"],
    "trainer": ["base", "comm", "kernels"],
    "lua": [
        "attention",
        "base",
        "comm",
        "data",
        "kernels",
        "mixers",
        "model",
        "objectives",
        "trainer",
    ],
}

def layering_queries(root, members):
    """Declares queries over all dependencies of `root`.

    Args:
      root: a target that depends on everything.
      members: one target of each layer, with the visibility of its layer.

    Returns:
      Their names: LAYER_edges, the forbidden dependencies of a layer (must be empty);
      LAYER_sees, the forbidden dependencies that visibility would allow (must be empty);
      LAYER_builds_on, the allowed dependencies that it can see (must not be empty; otherwise the
      others would prove nothing).
    """
    names = []

    # Includes layers on which `root` does not depend.
    for layer, allowed in LAYERS.items():
        others = [
            other
            for other in LAYERS.keys() + ["scripts", "tests"] if other not in [layer] + allowed
        ]
        outside = "^//(%s)[:/]" % "|".join(others)
        if layer != "lua":
            outside += "|^//third_party:luajit$"
        inside = "^//(%s)[:/]|^//third_party:abseil$" % "|".join([layer] + allowed)
        everything = "(deps(%s) union deps(%s))" % (root, members[layer])
        for name, expression in {
            "edges": "filter('{outside}', deps(filter('^//{layer}[:/]', {all})))",
            "sees": "visible({member}, filter('{outside}', kind(rule, {all})))",
            "builds_on": "visible({member}, filter('{inside}', kind(rule, {all})))",
        }.items():
            names.append("%s_%s" % (layer, name))
            native.genquery(
                name = names[-1],
                expression = expression.format(
                    all = everything,
                    inside = inside,
                    outside = outside,
                    layer = layer,
                    root = root,
                    member = members[layer],
                ),
                scope = [root, members[layer]],
            )
    return names
