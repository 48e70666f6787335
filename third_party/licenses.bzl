"""The licences of the software of others in //:dist: the table, and a repository rule that collects
the texts from where the software came from (Debian's packages, wheels).

//tests/dist:licenses_test compares the table with what is linked and packed. A row:
    name      the text is licenses/NAME.txt
    licence   its short name (SPDX) for what Moonring uses; where there is a choice, what was chosen
    debian    the package with the text and the version; or version and files (below)
    version   of what comes from no Debian package
    files     paths of texts in this repository: those of `links` and of `texts`
    paragraph the licence of which only the text is copied: Boost's list of all its files is 2 MB
    uses      how Moonring uses it: "static" (linked into its programs), "beside" (a shared library
              in lib/), "loaded" (a shared library of the machine or of LibTorch), "headers"
              (compiled into its programs), "data" (in the files `packed`)
    links     names of libraries, as in -lNAME, libNAME.a and libNAME.so; * stands for any text
    repositories  external repositories
    packed    files of //:dist
    note      what the licence asks to be said, or what a reader should know
"""

load("//third_party:wheel.bzl", "WHEEL_ATTRS", "WHEEL_ENVIRON", "link_wheels")

LICENSES = [
    dict(
        name = "abseil",
        licence = "Apache-2.0",
        debian = "libabsl-dev",
        uses = ["static", "headers"],
        links = ["absl_*"],
        repositories = ["abseil", "debian_sources/abseil"],
    ),
    dict(
        name = "arrow",
        licence = "Apache-2.0",
        version = "26.0.1",
        files = ["pyarrow/LICENSE.txt", "pyarrow/NOTICE.txt"],
        uses = ["loaded", "headers"],
        links = ["arrow", "parquet"],
        repositories = ["arrow"],
    ),
    dict(
        name = "boost",
        licence = "BSL-1.0",
        debian = "libboost1.74-dev",
        paragraph = "BSL-1.0",
        uses = ["headers"],
        repositories = ["boost"],
    ),
    dict(
        name = "brotli",
        licence = "MIT",
        debian = "libbrotli-dev",
        uses = ["static"],
        links = ["brotlicommon", "brotlidec"],
    ),
    dict(
        name = "cairo",
        licence = "MPL-1.1",
        debian = "libcairo2-dev",
        uses = ["static", "headers"],
        links = ["cairo"],
        repositories = ["cairo"],
        note = "Of cairo's two licences (LGPL-2.1 or MPL-1.1) this is the one that is used.",
    ),
    dict(
        name = "cuda",
        licence = "LicenseRef-NVIDIA-CUDA-Toolkit",
        version = "13.0.96 (runtime), 13.0.85 (CUPTI)",
        files = ["nvidia-cuda-runtime/License.txt", "nvidia-cuda-cupti/License.txt"],
        uses = ["beside", "loaded", "headers"],
        links = [
            "cublas",
            "cublasLt",
            "cudart",
            "cudnn",
            "cufft",
            "cufile",
            "cupti",
            "curand",
            "cusparse",
            "cusparseLt",
            "nccl",
            "nvshmem_host",
        ],
        repositories = ["libtorch_cuda"],
        note = "This software contains source code provided by NVIDIA Corporation. lib/ has the " +
               "files of NVIDIA's wheels unchanged; cuBLAS, cuDNN, NCCL and the others, which " +
               "only a build for CUDA loads, are the machine's.",
    ),
    dict(
        name = "curl",
        licence = "curl",
        debian = "libcurl4-openssl-dev",
        uses = ["headers", "loaded"],
        repositories = ["curl"],
        note = "libcurl.so.4 of the machine is loaded at the first request to a hub or service.",
    ),
    dict(
        name = "expat",
        licence = "MIT",
        debian = "libexpat1-dev",
        uses = ["static"],
        links = ["expat"],
    ),
    dict(
        name = "fontconfig",
        licence = "HPND-sell-variant",
        debian = "libfontconfig-dev",
        uses = ["static"],
        links = ["fontconfig"],
    ),
    dict(
        name = "freetype",
        licence = "FTL",
        debian = "libfreetype-dev",
        uses = ["static"],
        links = ["freetype"],
        note = "Portions of this software are copyright The FreeType Project " +
               "(https://www.freetype.org). All rights reserved.",
    ),
    dict(
        name = "gcc",
        licence = "GPL-3.0-or-later WITH GCC-exception-3.1",
        debian = "libgcc-12-dev",
        uses = ["static", "beside", "loaded", "headers"],
        links = ["gcc_s", "gomp", "stdc++"],
        note = "lib/libgomp.so.1 is the unchanged file of the wheel of torch 2.11.0, whose " +
               "builders took it from their GCC; the source of every GCC is at " +
               "https://gcc.gnu.org/releases.html. Code of libgcc and of libstdc++ is " +
               "in the programs, as the exception permits.",
    ),
    dict(
        name = "glibc",
        licence = "LGPL-2.1-or-later",
        debian = "libc6-dev",
        uses = ["loaded", "headers"],
        links = ["c", "dl", "ld-linux-x86-64", "m", "pthread", "rt", "util"],
        note = "The C library itself is the machine's; the programs have its start files.",
    ),
    dict(
        name = "gloo",
        licence = "BSD-3-Clause",
        debian = "libgloo-dev",
        uses = ["headers"],
        repositories = ["gloo"],
    ),
    dict(
        name = "gperftools",
        licence = "BSD-3-Clause",
        debian = "libgoogle-perftools-dev",
        uses = ["static", "headers"],
        links = ["tcmalloc_minimal"],
        repositories = ["tcmalloc"],
    ),
    dict(
        name = "highway",
        licence = "Apache-2.0",
        debian = "libhwy-dev",
        uses = ["static", "beside", "headers"],
        links = ["hwy"],
        repositories = ["highway", "debian_sources/highway"],
    ),
    dict(
        name = "jieba",
        licence = "MIT",
        debian = "python3-jieba",
        uses = ["data"],
        repositories = ["jieba"],
        packed = ["data/similarity/words.txt"],
        note = "words.txt is made from jieba's dictionary and tables of probabilities.",
    ),
    dict(
        name = "libbsd",
        licence = "BSD-3-Clause AND BSD-2-Clause AND ISC",
        debian = "libbsd-dev",
        uses = ["static"],
        links = ["bsd"],
    ),
    dict(
        name = "libedit",
        licence = "BSD-3-Clause",
        debian = "libedit-dev",
        uses = ["static", "headers"],
        links = ["edit"],
        repositories = ["libedit"],
    ),
    dict(
        name = "libmd",
        licence = "BSD-3-Clause AND BSD-2-Clause AND ISC AND Beerware",
        debian = "libmd-dev",
        uses = ["static"],
        links = ["md"],
    ),
    dict(
        name = "libpng",
        licence = "libpng-2.0",
        debian = "libpng-dev",
        uses = ["static"],
        links = ["png16"],
    ),
    dict(
        name = "libtorch",
        licence = "BSD-3-Clause",
        version = "2.11.0",
        files = ["torch/LICENSE", "torch/NOTICE"],
        uses = ["loaded", "headers"],
        links = ["c10", "c10_cuda", "torch_cpu", "torch_cuda", "torch_nvshmem"],
        repositories = ["libtorch"],
    ),
    dict(
        name = "luajit",
        licence = "MIT",
        debian = "libluajit-5.1-dev",
        uses = ["static", "headers"],
        links = ["luajit-5.1", "luajit_pic"],
        repositories = ["luajit", "debian_sources/luajit"],
    ),
    dict(
        name = "ncurses",
        licence = "X11-distribute-modifications-variant",
        debian = "libncurses-dev",
        uses = ["static"],
        links = ["tinfo"],
    ),
    dict(
        name = "nlohmann_json",
        licence = "MIT",
        debian = "nlohmann-json3-dev",
        uses = ["headers"],
        repositories = ["nlohmann_json"],
    ),
    dict(
        name = "openssl",
        licence = "Apache-2.0",
        debian = "libssl-dev",
        uses = ["static", "headers"],
        links = ["crypto"],
        repositories = ["libcrypto"],
    ),
    dict(
        name = "pcre2",
        licence = "BSD-3-Clause",
        debian = "libpcre2-dev",
        uses = ["static", "headers"],
        links = ["pcre2-8"],
        repositories = ["pcre2"],
    ),
    dict(
        name = "pixman",
        licence = "MIT",
        debian = "libpixman-1-dev",
        uses = ["static"],
        links = ["pixman-1"],
        repositories = ["debian_sources/pixman"],
    ),
    dict(
        name = "uplot",
        licence = "MIT",
        version = "1.6.31",
        files = ["uplot/LICENSE"],
        uses = ["data"],
        repositories = ["uplot"],
        packed = ["lua/report/page.html"],
    ),
    dict(
        name = "utf8proc",
        licence = "MIT AND Unicode-DFS-2015",
        debian = "libutf8proc-dev",
        uses = ["static", "headers"],
        links = ["utf8proc"],
        repositories = ["utf8proc"],
    ),
    dict(
        name = "yaml_cpp",
        licence = "MIT",
        debian = "libyaml-cpp-dev",
        uses = ["static", "headers"],
        links = ["yaml-cpp"],
        repositories = ["yaml_cpp", "debian_sources/yaml-cpp"],
    ),
    dict(
        name = "zlib",
        licence = "Zlib",
        debian = "zlib1g-dev",
        uses = ["static", "headers"],
        links = ["z"],
        repositories = ["zlib"],
    ),
    dict(
        name = "zstd",
        licence = "BSD-3-Clause",
        debian = "libzstd-dev",
        uses = ["static", "headers"],
        links = ["zstd"],
        repositories = ["zstd"],
        note = "Of Zstandard's two licences (BSD-3-Clause or GPL-2) this is the one that is used.",
    ),
]

# Repositories that the host depends on where Bazel runs it, but of which nothing is in //:dist.
NOT_PACKED = {
    "bazel_tools": "the C++ toolchain's name, for a generated file",
    "smollm2": "the model of the quickstart, Apache-2.0, in the runfiles of //:moonring only",
}

def _licenses_impl(ctx):
    link_wheels(ctx)
    for text, path in ctx.attr.texts.items():
        ctx.symlink(ctx.path(text), path)
    ctx.file("table.json", json.encode({"rows": LICENSES, "not_packed": NOT_PACKED}))
    result = ctx.execute(
        [ctx.which("python3"), ctx.path(ctx.attr._collect), ctx.path(ctx.attr.notice)],
    )
    if result.return_code != 0:
        fail("licences of third-party software: " + result.stderr)
    ctx.file("WORKSPACE", "")
    ctx.file("BUILD", """
package(default_visibility = ["//visibility:public"])
exports_files(["NOTICE", "table.json"])
filegroup(name = "texts", srcs = glob(["licenses/*.txt"]))
""")

licenses = repository_rule(
    implementation = _licenses_impl,
    doc = "licenses/NAME.txt of each row of LICENSES, with the texts that Debian keeps in one " +
          "place for all packages; NOTICE, which lists the rows; table.json, the table.",
    attrs = dict(
        texts = attr.label_keyed_string_dict(doc = "files of Moonring's repository, to paths here"),
        notice = attr.label(allow_single_file = True, doc = "what NOTICE begins with"),
        _collect = attr.label(
            default = "//third_party:collect_licenses.py",
            allow_single_file = True,
        ),
        **{name: value for name, value in WHEEL_ATTRS.items() if name != "build_file"}
    ),
    environ = WHEEL_ENVIRON,
    local = True,
)
