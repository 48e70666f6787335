#include "model/gguf/gguf_types.h"

#include <cmath>
#include <cstring>
#include <vector>

#include "ATen/Parallel.h"
#include "absl/strings/str_cat.h"
#include "c10/util/BFloat16.h"
#include "c10/util/Exception.h"
#include "c10/util/Half.h"
#include "model/gguf/gguf_blocks.h"

namespace moonring::model {
namespace {

void F32(const char* in, float* out) { *out = gguf::At<float>(in); }
void F16(const char* in, float* out) {
  *out = static_cast<float>(c10::Half(gguf::At<uint16_t>(in), c10::Half::from_bits()));
}
void BF16(const char* in, float* out) {
  *out = static_cast<float>(c10::BFloat16(gguf::At<uint16_t>(in), c10::BFloat16::from_bits()));
}

template <gguf::BlockFunction block>
void Each(const GgufType& type, const char* in, int64_t blocks, float* out) {
  for (int64_t i = 0; i < blocks; ++i) block(in + i * type.bytes, out + i * type.elements);
}

void ToF32(const float* in, char* out) { std::memcpy(out, in, sizeof(float)); }
void ToF16(const float* in, char* out) {
  const uint16_t bits = c10::Half(*in).x;
  std::memcpy(out, &bits, sizeof(bits));
}
void ToBF16(const float* in, char* out) {
  const uint16_t bits = c10::BFloat16(*in).x;
  std::memcpy(out, &bits, sizeof(bits));
}

template <void block(const float* in, char* out)>
void EachTo(const GgufType& type, const float* in, int64_t blocks, char* out) {
  for (int64_t i = 0; i < blocks; ++i) block(in + i * type.elements, out + i * type.bytes);
}

constexpr int64_t kElementsAThread = 1 << 18;

constexpr GgufType kTypes[] = {
    {0, "F32", 1, 4, Each<F32>, EachTo<ToF32>},
    {1, "F16", 1, 2, Each<F16>, EachTo<ToF16>},
    {30, "BF16", 1, 2, Each<BF16>, EachTo<ToBF16>},
    {2, "Q4_0", 32, 18, Each<gguf::DequantiseQ4_0>},
    {3, "Q4_1", 32, 20, Each<gguf::DequantiseQ4_1>},
    {6, "Q5_0", 32, 22, Each<gguf::DequantiseQ5_0>},
    {7, "Q5_1", 32, 24, Each<gguf::DequantiseQ5_1>},
    {8, "Q8_0", 32, 34, Each<gguf::DequantiseQ8_0>, EachTo<gguf::QuantiseQ8_0>},
    {10, "Q2_K", 256, 84, Each<gguf::DequantiseQ2_K>},
    {11, "Q3_K", 256, 110, Each<gguf::DequantiseQ3_K>},
    {12, "Q4_K", 256, 144, Each<gguf::DequantiseQ4_K>},
    {13, "Q5_K", 256, 176, Each<gguf::DequantiseQ5_K>},
    {14, "Q6_K", 256, 210, Each<gguf::DequantiseQ6_K>},
    {20, "IQ4_NL", 32, 18, Each<gguf::DequantiseIQ4_NL>},
    {23, "IQ4_XS", 256, 136, Each<gguf::DequantiseIQ4_XS>},
    {39, "MXFP4", 32, 17, Each<gguf::DequantiseMXFP4>},
    {9, "Q8_1", 32, 36, nullptr},
    {15, "Q8_K", 256, 292, nullptr},
    {16, "IQ2_XXS", 256, 66, nullptr},
    {17, "IQ2_XS", 256, 74, nullptr},
    {18, "IQ3_XXS", 256, 98, nullptr},
    {19, "IQ1_S", 256, 50, nullptr},
    {21, "IQ3_S", 256, 110, nullptr},
    {22, "IQ2_S", 256, 82, nullptr},
    {29, "IQ1_M", 256, 56, nullptr},
    {34, "TQ1_0", 256, 54, nullptr},
    {35, "TQ2_0", 256, 66, nullptr},
    {40, "NVFP4", 64, 36, nullptr},
    {41, "Q1_0", 128, 18, nullptr},
    {24, "I8", 1, 1, nullptr},
    {25, "I16", 1, 2, nullptr},
    {26, "I32", 1, 4, nullptr},
    {27, "I64", 1, 8, nullptr},
    {28, "F64", 1, 8, nullptr},
};

}  // namespace

const GgufType* FindGgufType(uint32_t id) {
  for (const GgufType& type : kTypes) {
    if (type.id == id) return &type;
  }
  return nullptr;
}

const GgufType* FindGgufType(absl::string_view name) {
  for (const GgufType& type : kTypes) {
    if (name == type.name) return &type;
  }
  return nullptr;
}

std::string UnreadableGgufType(const GgufType& type) {
  std::string readable;
  for (const GgufType& other : kTypes) {
    if (other.readable()) absl::StrAppend(&readable, readable.empty() ? "" : ", ", other.name);
  }
  return absl::StrCat("type ", type.name, " is not supported yet (", readable, " are)");
}

void Dequantise(const GgufType& type, const char* in, int64_t blocks, float* out) {
  TORCH_INTERNAL_ASSERT(type.readable(), "GGUF type ", type.name, " is not readable");
  at::parallel_for(0, blocks, kElementsAThread / type.elements, [&](int64_t begin, int64_t end) {
    type.dequantise(type, in + begin * type.bytes, end - begin, out + begin * type.elements);
  });
}

void Quantise(const GgufType& type, const float* in, int64_t blocks, char* out) {
  TORCH_INTERNAL_ASSERT(type.writable(), "GGUF type ", type.name, " is not written");
  at::parallel_for(0, blocks, kElementsAThread / type.elements, [&](int64_t begin, int64_t end) {
    type.quantise(type, in + begin * type.elements, end - begin, out + begin * type.bytes);
  });
}

bool StaysFinite(const GgufType& type, float number) {
  if (!std::isfinite(number)) return false;
  std::vector<float> numbers(static_cast<size_t>(type.elements));
  std::vector<char> block(static_cast<size_t>(type.bytes));
  numbers[0] = number;
  Quantise(type, numbers.data(), 1, block.data());
  Dequantise(type, block.data(), 1, numbers.data());
  return std::isfinite(numbers[0]);
}

}  // namespace moonring::model
