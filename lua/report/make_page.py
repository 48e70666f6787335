"""Writes the HTML page of reports, without data: make_page.py PAGE LICENSE STYLE... SCRIPT...

Styles end in .css, scripts in .js; each kind is concatenated in the given order. The page's
Content-Security-Policy contains their SHA-256, so a browser uses only these.
"""

import base64
import hashlib
import sys


def joined(paths: list[str], ending: str) -> str:
    texts = []
    for path in paths:
        if path.endswith(ending):
            with open(path, encoding="utf-8") as file:
                texts.append(file.read().strip())
    return "\n" + "\n".join(texts) + "\n"


def source(text: str) -> str:
    """Returns the source expression of a Content-Security-Policy for an element's text."""
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


def main() -> None:
    page, license, *others = sys.argv[1:]
    style, script = joined(others, ".css"), joined(others, ".js")
    for text, end in ((style, "</style"), (script, "</script")):
        if end in text.lower():
            sys.exit(f"{end} would end its element")
    with open(license, encoding="utf-8") as file:
        notice = file.read().strip()
    with open(page, encoding="utf-8") as file:
        text = file.read()
    for name, value in (
        ("@STYLE@", style),
        ("@SCRIPT@", script),
        ("@STYLES@", source(style)),
        ("@SCRIPTS@", source(script)),
        ("@LICENSE@", notice),
    ):
        if text.count(name) != 1:
            sys.exit(f"{page}: {name} is there {text.count(name)} times, expected once")
        text = text.replace(name, value)
    sys.stdout.write(text)


main()
