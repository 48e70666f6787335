// Measures Unpack in GB/s of output, by code, dtype, size and threads, compared with a memcpy of
// the output and, if an argument names libbitsandbytes_cpu.so (of the Python package bitsandbytes
// 0.50.2), with its dequantization of the same codes. Each value is the best of several rounds.
//
//   unpack_benchmark [libbitsandbytes_cpu.so]

#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "kernels/packed/eight_bit.h"
#include "kernels/packed/four_bit.h"
#include "model/gguf/gguf_code.h"
#include "model/gguf/gguf_types.h"

namespace moonring::kernels {
namespace {

struct Row {
  std::string name;
  std::function<void(at::Tensor& out)> run;
  double seconds = 1e9;
};

using Dequantise = void (*)(const void* codes, const void* scales, void* out, long long block,
                            long long rows, long long columns);

double Seconds(const std::function<void(at::Tensor&)>& run, at::Tensor& out) {
  const auto start = std::chrono::steady_clock::now();
  run(out);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void Measure(std::vector<int64_t> shape, at::ScalarType dtype, int threads, void* library) {
  at::set_num_threads(threads);
  const at::Tensor weight = at::randn(shape).to(at::kBFloat16);
  std::vector<Row> rows;
  const at::Tensor source = at::ones(shape, dtype);
  rows.push_back({"memcpy", [source](at::Tensor& out) {
                    const char* from = static_cast<const char*>(source.const_data_ptr());
                    char* to = static_cast<char*>(out.mutable_data_ptr());
                    std::memcpy(to, from, out.nbytes());
                  }});
  rows.push_back({"copy_, threads", [source](at::Tensor& out) { out.copy_(source); }});
  const auto add = [&](const WeightCode& code, PackedWeight packed) {
    rows.push_back({code.name(), [&code, packed](at::Tensor& out) { code.Unpack(packed, out); }});
  };
  const FourBitCode plain(FourBits::kNf4, false), twice(FourBits::kNf4, true);
  const EightBitCode eight;
  const PackedWeight packed = plain.Pack(weight).value();
  add(plain, packed);
  add(twice, twice.Pack(weight).value());
  add(eight, eight.Pack(weight).value());
  std::vector<std::unique_ptr<model::GgufCode>> ggufs;
  for (const uint32_t id : {2, 3, 6, 7, 8, 10, 11, 12, 13, 14, 20, 23, 39}) {
    ggufs.push_back(std::make_unique<model::GgufCode>(*model::FindGgufType(id)));
    const int64_t bytes = ggufs.back()->PackedBytes(shape);
    add(*ggufs.back(), {{at::full({bytes}, 0x21, at::kByte)}, shape});
  }
  const char* symbol = dtype == at::kFloat ? "cdequantize_blockwise_cpu_nf4_fp32"
                                           : "cdequantize_blockwise_cpu_nf4_bf16";
  if (library != nullptr) {
    const auto theirs = reinterpret_cast<Dequantise>(dlsym(library, symbol));
    rows.push_back({"bitsandbytes nf4", [=](at::Tensor& out) {
                      theirs(packed.parts[0].const_data_ptr(), packed.parts[1].const_data_ptr(),
                             out.mutable_data_ptr(), 64, shape[0], shape[1]);
                    }});
  }
  at::Tensor out = at::zeros(shape, dtype);
  for (int turn = 0; turn < 9; ++turn) {
    for (Row& row : rows) row.seconds = std::min(row.seconds, Seconds(row.run, out));
  }
  std::printf("[%ld, %ld] %s, %d threads:", shape[0], shape[1], c10::toString(dtype), threads);
  for (const Row& row : rows)
    std::printf("  %s %.1f", row.name.c_str(),
                static_cast<double>(out.nbytes()) / row.seconds / 1e9);
  std::printf("  GB/s\n");
}

}  // namespace
}  // namespace moonring::kernels

int main(int argc, char** argv) {
  void* const library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : nullptr;
  if (argc > 1 && library == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    return 2;
  }
  for (const std::vector<int64_t> shape :
       {std::vector<int64_t>{512, 512}, {2048, 2048}, {4096, 14336}}) {
    for (const at::ScalarType dtype : {at::kBFloat16, at::kFloat}) {
      for (const int threads : {1, 2}) moonring::kernels::Measure(shape, dtype, threads, library);
    }
  }
  return 0;
}
