#include "model/gguf/gguf_code.h"

#include <algorithm>
#include <vector>

#include "ATen/Parallel.h"
#include "ATen/ops/empty.h"
#include "absl/strings/str_cat.h"
#include "c10/util/accumulate.h"
#include "kernels/packed/cpu_unpack.h"
#include "kernels/packed/parts.h"

namespace moonring::model {
namespace {

constexpr int64_t kUnpackedAThread = 1 << 15;
constexpr int64_t kElementsAtATime = 4096;  // fits in the first-level cache

void UnpackOnCpu(const GgufType& type, const at::Tensor& blocks, const at::Tensor& out) {
  const char* in = reinterpret_cast<const char*>(blocks.const_data_ptr<uint8_t>());
  char* const to = static_cast<char*>(out.mutable_data_ptr());
  const int64_t item = out.element_size(), at_a_time = kElementsAtATime / type.elements;
  at::parallel_for(0, out.numel() / type.elements, kUnpackedAThread / type.elements,
                   [&](int64_t begin, int64_t end) {
                     if (out.scalar_type() == at::kFloat) {
                       type.dequantise(type, in + begin * type.bytes, end - begin,
                                       reinterpret_cast<float*>(to) + begin * type.elements);
                       return;
                     }
                     float numbers[kElementsAtATime];
                     for (int64_t block = begin; block < end; block += at_a_time) {
                       const int64_t count = std::min(at_a_time, end - block);
                       type.dequantise(type, in + block * type.bytes, count, numbers);
                       kernels::Narrow(numbers, count * type.elements, out.scalar_type(),
                                       to + block * type.elements * item);
                     }
                   });
}

}  // namespace

GgufCode::GgufCode(const GgufType& type) : type_(type) {
  TORCH_INTERNAL_ASSERT(type.readable() && type.elements > 1, "GGUF type ", type.name,
                        " is no code of weights");
}

absl::StatusOr<kernels::PackedWeight> GgufCode::Pack(const at::Tensor& weight) const {
  return absl::UnimplementedError(
      absl::StrCat(name(), ": weights are not packed into it, only read from GGUF files"));
}

int64_t GgufCode::PackedBytes(at::IntArrayRef shape) const {
  TORCH_CHECK(!shape.empty() && shape.back() % type_.elements == 0, name(), ": rows of shape ",
              shape, " are not whole blocks of ", type_.elements);
  return c10::multiply_integers(shape) / type_.elements * type_.bytes;
}

void GgufCode::Unpack(const kernels::PackedWeight& packed, at::Tensor& out) const {
  kernels::CheckParts(name(), {{"blocks", at::kByte, PackedBytes(packed.shape)}}, packed, out);
  if (out.numel() == 0) return;
  if (out.is_cpu()) {
    UnpackOnCpu(type_, packed.parts[0], out);
  } else {
    const at::Tensor unpacked = at::empty(out.sizes(), out.scalar_type());
    UnpackOnCpu(type_, packed.parts[0].to(at::kCPU), unpacked);
    out.copy_(unpacked);
  }
}

}  // namespace moonring::model
