#include "comm/packed/cpu_unpack.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include <c10/util/BFloat16.h>
#include <c10/util/Exception.h>
#include <c10/util/Half.h>

// Highway compiles what lies between HWY_BEFORE_NAMESPACE and HWY_AFTER_NAMESPACE once for each of
// these kinds of CPU.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "comm/packed/cpu_unpack.cc"
#include "hwy/foreach_target.h"
//
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace moonring::comm {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

constexpr int kSteps = 16;

// Calls `body` with a number of the dtype.
template <typename Body>
void ByType(at::ScalarType dtype, const Body& body) {
  switch (dtype) {
    case at::kFloat:
      return body(float{});
    case at::kDouble:
      return body(double{});
    case at::kBFloat16:
      return body(c10::BFloat16{});
    case at::kHalf:
      return body(c10::Half{});
    default:
      TORCH_CHECK(false, "packed numbers: out in ", dtype, ", wanted fp32, fp64, bf16 or fp16");
  }
}

float ScaleOf(const FourBitParts& parts, int64_t block) {
  if (parts.absmax_codes == nullptr) return parts.absmax[block];
  const float scaled =
      parts.scale_steps[parts.absmax_codes[block]] * parts.absmax[block / kScaleBlock];
  return scaled + parts.mean;
}

// The numbers of the 16 codes, byte by byte.
template <typename T>
struct Planes {
  alignas(16) uint8_t bytes[sizeof(T)][kSteps];

  explicit Planes(const T (&numbers)[kSteps]) {
    using Bits = std::conditional_t<sizeof(T) == 2, uint16_t, uint32_t>;
    Bits bits[kSteps];
    std::memcpy(bits, numbers, sizeof(bits));
    for (size_t plane = 0; plane < sizeof(T); ++plane) {
      for (int i = 0; i < kSteps; ++i)
        bytes[plane][i] = static_cast<uint8_t>(bits[i] >> (8 * plane));
    }
  }
};

#if HWY_TARGET != HWY_SCALAR
using Bytes = hn::FixedTag<uint8_t, 16>;
using Pairs = hn::FixedTag<uint16_t, 8>;

// The numbers of 16 codes, each in a byte.
template <typename T>
HWY_INLINE void LookUp(const Planes<T>& planes, hn::Vec<Bytes> codes, uint8_t* out) {
  const Bytes bytes;
  const Pairs pairs;
  const auto plane = [&](int i) HWY_ATTR {
    return hn::TableLookupBytes(hn::Load(bytes, planes.bytes[i]), codes);
  };
  const auto p0 = plane(0), p1 = plane(1);
  const auto low0 = hn::InterleaveLower(bytes, p0, p1), low1 = hn::InterleaveUpper(bytes, p0, p1);
  if constexpr (sizeof(T) == 2) {
    hn::StoreU(low0, bytes, out);
    hn::StoreU(low1, bytes, out + 16);
  } else {
    const auto p2 = plane(2), p3 = plane(3);
    const auto high0 = hn::InterleaveLower(bytes, p2, p3),
               high1 = hn::InterleaveUpper(bytes, p2, p3);
    const auto store = [&](auto low, auto high, uint8_t* to) HWY_ATTR {
      const auto l = hn::BitCast(pairs, low), h = hn::BitCast(pairs, high);
      hn::StoreU(hn::BitCast(bytes, hn::InterleaveLower(pairs, l, h)), bytes, to);
      hn::StoreU(hn::BitCast(bytes, hn::InterleaveUpper(pairs, l, h)), bytes, to + 16);
    };
    store(low0, high0, out);
    store(low1, high1, out + 32);
  }
}

template <typename T>
HWY_INLINE void WholeBlock(const T (&numbers)[kSteps], const uint8_t* codes, T* out) {
  const Bytes bytes;
  const Planes<T> planes(numbers);
  uint8_t* to = reinterpret_cast<uint8_t*>(out);
  for (int i = 0; i < kFourBitBlock / 2; i += 16) {
    const auto both = hn::LoadU(bytes, codes + i);
    const auto low = hn::And(both, hn::Set(bytes, 0x0f)),
               high = hn::And(hn::BitCast(bytes, hn::ShiftRight<4>(hn::BitCast(Pairs(), both))),
                              hn::Set(bytes, 0x0f));
    LookUp(planes, hn::InterleaveLower(bytes, high, low), to + 2 * i * sizeof(T));
    LookUp(planes, hn::InterleaveUpper(bytes, high, low), to + (2 * i + 16) * sizeof(T));
  }
}

#endif  // HWY_TARGET != HWY_SCALAR

template <typename T>
void FourBits(const FourBitParts& parts, int64_t begin, int64_t end, T* out) {
  for (int64_t block = begin; block < end; ++block) {
    const float scale = ScaleOf(parts, block);
    T numbers[kSteps];
    for (int i = 0; i < kSteps; ++i) numbers[i] = static_cast<T>(parts.steps[i] * scale);
    const int64_t at = block * kFourBitBlock, count = std::min(kFourBitBlock, parts.count - at);
    const uint8_t* codes = parts.codes + at / 2;
#if HWY_TARGET != HWY_SCALAR
    if constexpr (sizeof(T) <= 4) {
      if (count == kFourBitBlock) {
        WholeBlock(numbers, codes, out + at);
        continue;
      }
    }
#endif
    for (int64_t i = 0; i < count; ++i)
      out[at + i] = numbers[i % 2 == 0 ? codes[i / 2] >> 4 : codes[i / 2] & 15];
  }
}

template <typename T>
void EightBits(const EightBitParts& parts, int64_t begin, int64_t end, T* out) {
  for (int64_t at = begin; at < end;) {
    const int64_t row = at / parts.width, stop = std::min(end, (row + 1) * parts.width);
    const float scale = parts.absmax[row] * (1.0f / 127.0f);
    for (int64_t i = at; i < stop; ++i)
      out[i] = static_cast<T>(static_cast<float>(parts.codes[i]) * scale);
    at = stop;
  }
}

void UnpackFourBitsHere(const FourBitParts& parts, int64_t begin, int64_t end) {
  ByType(parts.dtype, [&](auto number) HWY_ATTR {
    FourBits(parts, begin, end, static_cast<decltype(number)*>(parts.out));
  });
}

void UnpackEightBitsHere(const EightBitParts& parts, int64_t begin, int64_t end) {
  ByType(parts.dtype, [&](auto number) HWY_ATTR {
    EightBits(parts, begin, end, static_cast<decltype(number)*>(parts.out));
  });
}

void NarrowHere(const float* numbers, int64_t count, at::ScalarType dtype, void* out) {
  ByType(dtype, [&](auto number) HWY_ATTR {
    using T = decltype(number);
    T* const to = static_cast<T*>(out);
    for (int64_t i = 0; i < count; ++i) to[i] = static_cast<T>(numbers[i]);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace moonring::comm
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace moonring::comm {
HWY_EXPORT(UnpackFourBitsHere);
HWY_EXPORT(UnpackEightBitsHere);
HWY_EXPORT(NarrowHere);

void UnpackFourBits(const FourBitParts& parts, int64_t begin, int64_t end) {
  HWY_DYNAMIC_DISPATCH(UnpackFourBitsHere)(parts, begin, end);
}

void UnpackEightBits(const EightBitParts& parts, int64_t begin, int64_t end) {
  HWY_DYNAMIC_DISPATCH(UnpackEightBitsHere)(parts, begin, end);
}

void Narrow(const float* numbers, int64_t count, at::ScalarType dtype, void* out) {
  HWY_DYNAMIC_DISPATCH(NarrowHere)(numbers, count, dtype, out);
}

}  // namespace moonring::comm
#endif  // HWY_ONCE
