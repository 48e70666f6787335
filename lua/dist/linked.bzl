"""The libraries that programs are linked with, from their link commands."""

LinkedInfo = provider(fields = {"lines": "PROGRAM WORD: a word of its link command per line"})

def _is_library(word):
    if word.startswith("-l"):
        return True
    is_file = word.endswith(".a") or ".so" in word.split("/")[-1]
    return is_file and ("external/" in word or "third_party/" in word)

def _linked_aspect_impl(target, ctx):
    lines = []
    for action in target.actions:
        if action.mnemonic == "CppLink":
            lines += [
                "%s %s" % (ctx.rule.attr.name, word)
                for word in action.argv
                if _is_library(word)
            ]
    return [LinkedInfo(lines = lines)]

linked_aspect = aspect(
    implementation = _linked_aspect_impl,
    doc = "The words of a program's link command that name libraries from elsewhere: -lNAME, " +
          "-l:FILE, and files of external repositories or of third_party.",
)
