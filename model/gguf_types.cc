#include "model/gguf_types.h"

#include <cstring>

#include "ATen/Parallel.h"
#include "absl/strings/str_cat.h"
#include "c10/util/BFloat16.h"
#include "c10/util/Exception.h"
#include "c10/util/Half.h"

namespace moonring::model {
namespace {

constexpr uint32_t kF32 = 0, kF16 = 1, kQ4_1 = 3, kQ8_0 = 8, kBF16 = 30;

constexpr GgufType kTypes[] = {
    {kF32, "F32", 1, 4, true},       {kF16, "F16", 1, 2, true},       {2, "Q4_0", 32, 18, false},      {kQ4_1, "Q4_1", 32, 20, true},
    {6, "Q5_0", 32, 22, false},      {7, "Q5_1", 32, 24, false},      {kQ8_0, "Q8_0", 32, 34, true},   {9, "Q8_1", 32, 36, false},
    {10, "Q2_K", 256, 84, false},    {11, "Q3_K", 256, 110, false},   {12, "Q4_K", 256, 144, false},   {13, "Q5_K", 256, 176, false},
    {14, "Q6_K", 256, 210, false},   {15, "Q8_K", 256, 292, false},   {16, "IQ2_XXS", 256, 66, false}, {17, "IQ2_XS", 256, 74, false},
    {18, "IQ3_XXS", 256, 98, false}, {19, "IQ1_S", 256, 50, false},   {20, "IQ4_NL", 32, 18, false},   {21, "IQ3_S", 256, 110, false},
    {22, "IQ2_S", 256, 82, false},   {23, "IQ4_XS", 256, 136, false}, {24, "I8", 1, 1, false},         {25, "I16", 1, 2, false},
    {26, "I32", 1, 4, false},        {27, "I64", 1, 8, false},        {28, "F64", 1, 8, false},        {29, "IQ1_M", 256, 56, false},
    {kBF16, "BF16", 1, 2, true},     {34, "TQ1_0", 256, 54, false},   {35, "TQ2_0", 256, 66, false},   {39, "MXFP4", 32, 17, false},
};

float HalfAt(const char* in) {
  uint16_t bits;
  std::memcpy(&bits, in, sizeof(bits));
  return static_cast<float>(c10::Half(bits, c10::Half::from_bits()));
}

float BFloat16At(const char* in) {
  uint16_t bits;
  std::memcpy(&bits, in, sizeof(bits));
  return static_cast<float>(c10::BFloat16(bits, c10::BFloat16::from_bits()));
}

// One block to its elements. Multiplied and added in fp32 and in this order, as the format's reference does.
void Q8_0(const char* in, float* out) {
  const float d = HalfAt(in);
  const int8_t* q = reinterpret_cast<const int8_t*>(in + 2);
  for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>(q[i]);
}

void Q4_1(const char* in, float* out) {
  const float d = HalfAt(in), m = HalfAt(in + 2);
  const uint8_t* q = reinterpret_cast<const uint8_t*>(in + 4);
  for (int i = 0; i < 16; ++i) out[i] = d * static_cast<float>(q[i] & 15) + m;
  for (int i = 0; i < 16; ++i) out[i + 16] = d * static_cast<float>(q[i] >> 4) + m;
}

template <typename Block>
void ForBlocks(const GgufType& type, const char* in, int64_t blocks, float* out, const Block& block) {
  constexpr int64_t kElementsAThread = 1 << 18;
  at::parallel_for(0, blocks, kElementsAThread / type.elements, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) block(in + i * type.bytes, out + i * type.elements);
  });
}

}  // namespace

const GgufType* FindGgufType(uint32_t id) {
  for (const GgufType& type : kTypes) {
    if (type.id == id) return &type;
  }
  return nullptr;
}

std::string UnreadableGgufType(const GgufType& type) {
  std::string readable;
  for (const GgufType& other : kTypes) {
    if (other.readable) absl::StrAppend(&readable, readable.empty() ? "" : ", ", other.name);
  }
  return absl::StrCat("type ", type.name, " is not supported yet (", readable, " are)");
}

void Dequantise(const GgufType& type, const char* in, int64_t blocks, float* out) {
  switch (type.id) {
    case kF32:
      std::memcpy(out, in, static_cast<size_t>(blocks) * sizeof(float));
      return;
    case kF16:
      ForBlocks(type, in, blocks, out, [](const char* from, float* to) { *to = HalfAt(from); });
      return;
    case kBF16:
      ForBlocks(type, in, blocks, out, [](const char* from, float* to) { *to = BFloat16At(from); });
      return;
    case kQ8_0:
      ForBlocks(type, in, blocks, out, Q8_0);
      return;
    case kQ4_1:
      ForBlocks(type, in, blocks, out, Q4_1);
      return;
    default:
      TORCH_INTERNAL_ASSERT(false, "GGUF type ", type.name, " is not readable");
  }
}

}  // namespace moonring::model
