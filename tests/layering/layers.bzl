"""The drawing in README.md, as data and as queries."""

# Each layer and what it may build on, besides itself and third_party.
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
    """Queries over all that `root` is made of.

    Args:
      root: the target that everything is part of.
      members: one target of each layer, which sees what its layer sees.

    Returns:
      Their names: LAYER_edges, what a layer depends on outside the drawing (must be empty);
      LAYER_sees, what it could depend on outside the drawing as visibility goes (must be empty);
      LAYER_builds_on, what it sees inside it (where this is empty too, the two others prove
      nothing).
    """
    names = []

    # A layer that the root has no part of yet is asked all the same.
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
