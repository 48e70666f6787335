"""Compares random expressions over a few values with the rendering of Transformers' Jinja2.

    fuzz.py RENDER COUNT [SEED]

RENDER: the binary of //tests/data/text/jinja:jinja_render. If Jinja2 raises an error, Moonring must
fail too. Expressions that it rejects as unsupported are counted separately.
"""

import copy
import json
import random
import re
import subprocess
import sys
import warnings

CONTEXT = {
    "a": 3,
    "b": -7,
    "c": 2.5,
    "t": "Hello, wörld  foo",
    "u": "",
    "w": " \tPad\n two\u00a0",
    "n": None,
    "y": True,
    "l": [1, 2, 3, "x", None],
    "e": [],
    "s": ["b", "A", "c", "a"],
    "nums": [3, 1.5, -2, 10],
    "d": {"k": "v", "items": 1, "n": {"deep": [1, {"z": "é"}]}, "2": 2},
    "rows": [{"role": "user", "v": 2}, {"role": "tool", "v": 1}, {"role": "user", "v": None}],
}
NAMES = list(CONTEXT) + ["missing"]
LITERALS = [
    "0",
    "1",
    "2",
    "-1",
    "3.0",
    "'a'",
    "'o'",
    "' '",
    "''",
    "'k'",
    "'role'",
    "[]",
    "[1, 'b']",
    "(1, 2)",
    "()",
    "{}",
    "{'a': 1, 'b': [2]}",
    "none",
    "true",
    "false",
    "1e3",
    "0.1",
    "'x\\ny'",
    "'%s-%s'",
    "'{}{}'",
]
BINARY = [
    "+",
    "-",
    "*",
    "/",
    "//",
    "%",
    "**",
    "~",
    "==",
    "!=",
    "<",
    "<=",
    ">",
    ">=",
    "in",
    "not in",
    "and",
    "or",
]
FILTERS = [
    "abs",
    "capitalize",
    "count",
    "default('z')",
    "default('z', true)",
    "first",
    "float",
    "int",
    "int(7)",
    "join",
    "join('-')",
    "join(', ', attribute='role')",
    "last",
    "length",
    "list",
    "lower",
    "upper",
    "title",
    "trim",
    "trim('H ')",
    "reverse",
    "reverse | list",
    "round",
    "round(1)",
    "round(1, 'floor')",
    "sort",
    "sort(reverse=true)",
    "string",
    "tojson",
    "tojson(indent=2)",
    "unique | list",
    "map('upper') | list",
    "map(attribute='role') | list",
    "map(attribute='v', default=0) | list",
    "select | list",
    "reject('none') | list",
    "selectattr('role', 'equalto', 'user') | list",
    "rejectattr('v') | list",
    "select('string') | list",
    "sum",
    "sum(attribute='v')",
    "min",
    "max",
    "items | list",
    "dictsort",
    "batch(2) | list",
    "slice(2) | list",
    "replace('o', '0')",
    "replace('l', 'LL', 1)",
    "indent",
    "indent(2, true)",
    "wordcount",
    "center(9)",
    "truncate(8)",
    "format(1, 2)",
    "escape",
    "attr('k')",
    "safe",
    "tojson(sort_keys=true)",
    "tojson(separators=(',', ':'))",
    "tojson(ensure_ascii=true)",
]
TESTS = [
    "defined",
    "undefined",
    "none",
    "string",
    "number",
    "integer",
    "float",
    "boolean",
    "true",
    "false",
    "mapping",
    "iterable",
    "sequence",
    "callable",
    "odd",
    "even",
    "lower",
    "upper",
    "divisibleby(3)",
    "divisibleby 2",
    "equalto(3)",
    "eq 'a'",
    "ne 3",
    "gt 2",
    "lt(5)",
    "ge 3",
    "in [1, 3, 'a']",
    "sameas none",
    "sameas true",
]
METHODS = [
    "upper()",
    "lower()",
    "title()",
    "capitalize()",
    "strip()",
    "lstrip()",
    "rstrip('\\n o')",
    "split()",
    "split('o')",
    "split(' ', 1)",
    "rsplit(' ', 1)",
    "rsplit(None, 1)",
    "splitlines()",
    "startswith('H')",
    "startswith(('a', 'H'))",
    "endswith('o')",
    "find('o')",
    "rfind('o')",
    "count('o')",
    "replace('o', '')",
    "replace('', '.')",
    "isdigit()",
    "isalpha()",
    "isalnum()",
    "isspace()",
    "isupper()",
    "islower()",
    "join(s)",
    "format(1, 2)",
    "zfill(5)",
    "ljust(4)",
    "rjust(6, '*')",
    "center(7)",
    "partition('o')",
    "rpartition('l')",
    "removeprefix('He')",
    "removesuffix('o')",
    "get('k')",
    "get('q', 1)",
    "items() | list",
    "keys() | list",
    "values() | list",
    "index('o')",
    "index(2)",
    "append(1)",
    "pop()",
    "update({})",
    "copy()",
    "k",
    "items",
    "role",
    "n.deep",
    "real",
    "splitlines(true)",
]
SUBSCRIPTS = [
    "[0]",
    "[-1]",
    "[1:]",
    "[:2]",
    "[::-1]",
    "[1:-1]",
    "[::2]",
    "[-2:]",
    "['k']",
    "['items']",
    "[10]",
    "[1.0]",
    "[5:1:-2]",
    "['n']['deep']",
    "[none:]",
    "[true]",
    "[:-100]",
]
SPECS = [
    "'{:>6}|{:<4}|{:^5}'.format('ab', 1, 'c')",
    "'{0}{1}{0}'.format(1, 'x')",
    "'{:.2f}'.format(2.345)",
    "'{:05d}'.format(42)",
    "'{:,}'.format(1234567)",
    "'%5.1f|%-4s|%03d' % (2.25, 'a', 7)",
    "'%s' % none",
    "'%(a)s' % {'a': 1}",
    "'{a[k]}'.format(a=d)",
    "'{!r}'.format('q')",
]


def expression(rng, depth):
    if depth <= 0 or rng.random() < 0.12:
        return rng.choice(NAMES) if rng.random() < 0.65 else rng.choice(LITERALS)
    inner = lambda: expression(rng, depth - 1)  # noqa: E731
    kind = rng.randrange(13)
    if kind < 2:
        return f"({inner()} {rng.choice(BINARY)} {inner()})"
    if kind < 5:
        return (
            f"({inner()}) | {rng.choice(FILTERS)}"
            if rng.random() < 0.5
            else f"{rng.choice(NAMES)} | {rng.choice(FILTERS)} | {rng.choice(FILTERS)}"
        )
    if kind < 6:
        return f"({inner()} is {rng.choice(('', 'not '))}{rng.choice(TESTS)})"
    if kind < 9:
        return f"({inner()}).{rng.choice(METHODS)}"
    if kind < 11:
        subscribed = inner()
        if not re.search(
            rf"\b({'|'.join(NAMES)})\b", re.sub(r"'[^']*'", "", subscribed)
        ):  # for constants, Jinja2 gives undefined where it otherwise raises
            subscribed = rng.choice(NAMES)
        return f"({subscribed}){rng.choice(SUBSCRIPTS)}"
    if kind == 11:
        return rng.choice(
            [
                f"({inner()} if {inner()} else {inner()})",
                f"({inner()} if {inner()})",
                f"not {inner()}",
                f"-{inner()}",
                f"[{inner()}, {inner()}]",
                f"({inner()},)",
                f"{{'q': {inner()}}}",
                f"{inner()} < {inner()} <= {inner()}",
            ]
        )
    return rng.choice(SPECS)


def statement(rng):
    e = lambda depth=2: expression(rng, depth)  # noqa: E731
    return rng.choice(
        [
            lambda: "{{ " + e(3) + " }}",
            lambda: "{{ " + e(3) + " }}",
            lambda: (
                "{% for i in "
                + e()
                + " %}[{{ i }}{{ loop.index }}{{ loop.last }}{{ loop.length }}{{ loop.previtem "
                "}}]{% else %}none{% endfor %}"
            ),
            lambda: (
                "{% for i in "
                + e()
                + " if i %}{{ loop.index0 }}{{ loop.nextitem }}{% if loop.index > 2 %}{% break "
                "%}{% endif %}{% endfor %}"
            ),
            lambda: "{% for i, j in " + e() + " %}{{ i }}={{ j }}{% endfor %}",
            lambda: "{% if " + e() + " %}yes{% elif " + e() + " %}other{% else %}no{% endif %}",
            lambda: (
                "{% set x = "
                + e()
                + " %}{% set ns = namespace(v=x) %}{% for i in s %}{% set x = i %}{% set ns.v = "
                "ns.v ~ x %}{% endfor %}{{ x }}{{ ns.v }}"
            ),
            lambda: (
                "{% macro m(p, q="
                + e(1)
                + ") %}<{{ p }}|{{ q }}>{% endmacro %}{{ m("
                + e()
                + ") }}{{ m(q="
                + e(1)
                + ", p=1) }}"
            ),
            lambda: "{% set x %}  {{ " + e() + " }} {% endset %}[{{ x | trim }}]",
        ]
    )()


def main():
    from transformers.utils.chat_template_utils import _compile_jinja_template

    warnings.simplefilter("ignore")
    count, rng = int(sys.argv[2]), random.Random(int(sys.argv[3]) if len(sys.argv) > 3 else 1)
    templates = [statement(rng) for _ in range(count)]
    given = "".join(
        json.dumps({"template": template, "context": CONTEXT}) + "\n" for template in templates
    )
    ran = subprocess.run(
        [sys.argv[1]], input=given, stdout=subprocess.PIPE, text=True, encoding="utf-8", check=True
    )
    ours = [json.loads(line) for line in ran.stdout.split("\n") if line]
    equal = errors = unsupported = different = 0
    for template, mine in zip(templates, ours, strict=True):
        try:
            want, said = _compile_jinja_template(template).render(**copy.deepcopy(CONTEXT)), None
        except Exception as error:
            want, said = None, error
        if want is not None and " at 0x" in want:  # contains an address
            continue
        if mine.get("code") == "UNIMPLEMENTED":
            unsupported += 1
        elif mine.get("text") == want:
            equal += 1
            errors += want is None
        else:
            different += 1
            if different <= 25:
                print(
                    f"{template}\n  Jinja2: {want if want is not None else repr(said)!r}\n  "
                    f"ours:   {mine.get('text', mine.get('error'))!r}"
                )
    print(
        f"{equal} of {count} equal ({errors} of them errors), {unsupported} not supported, "
        f"{different} different"
    )


if __name__ == "__main__":
    main()
