"""A fuzz target: NAME_fuzz.cc, with LLVMFuzzerTestOneInput in it, and the inputs in corpus/NAME."""

load("//third_party/precompiled:cc.bzl", "cc_binary", "cc_library", "cc_test")

def fuzz_target(name, deps):
    """Declares NAME_fuzz, libFuzzer's program (--config=fuzz alone), and NAME_corpus_test.

    Any compiler builds the test: it takes each input of the corpus once.
    """
    cc_library(
        name = name,
        testonly = True,
        srcs = [name + "_fuzz.cc"],
        alwayslink = True,
        deps = deps,
    )
    cc_binary(
        name = name + "_fuzz",
        testonly = True,
        srcs = ["sanitizer_options.cc"],
        linkopts = ["-fsanitize=fuzzer"],
        tags = [
            "fuzz",
            "manual",
        ],
        deps = [":" + name],
    )
    cc_test(
        name = name + "_corpus_test",
        size = "small",
        srcs = ["corpus_test.cc"],
        args = ["tests/fuzz/corpus/" + name],
        data = native.glob(["corpus/%s/*" % name]),
        deps = [
            ":" + name,
            "//third_party:googletest",
        ],
    )
