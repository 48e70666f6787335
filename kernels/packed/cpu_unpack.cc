#include "kernels/packed/cpu_unpack.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include <c10/util/BFloat16.h>
#include <c10/util/Exception.h>
#include <c10/util/Half.h>

// Highway compiles the code between HWY_BEFORE_NAMESPACE and HWY_AFTER_NAMESPACE once for each kind
// of CPU that is not disabled here.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/packed/cpu_unpack.cc"
#include "hwy/foreach_target.h"
//
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace moonring::kernels {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

constexpr int kSteps = 16;

// Calls `body` with a value of the dtype.
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
      TORCH_CHECK(false, "packed numbers: out in ", dtype, ", expected fp32, fp64, bf16 or fp16");
  }
}

float ScaleOf(const FourBitParts& parts, int64_t block) {
  if (parts.absmax_codes == nullptr) return parts.absmax[block];
  const float scaled =
      parts.scale_steps[parts.absmax_codes[block]] * parts.absmax[block / kScaleBlock];
  return scaled + parts.mean;
}

#if HWY_TARGET != HWY_SCALAR

using Bytes = hn::FixedTag<uint8_t, 16>;
using Pairs = hn::FixedTag<uint16_t, 8>;
using Words = hn::FixedTag<uint32_t, 4>;
using Floats = hn::FixedTag<float, 4>;

// Rounds fp32 to bf16 in the upper halves of the words; no number may be NaN.
template <class D, class V>
HWY_INLINE V RoundUpperHalves(D words, V bits) {
  const V last = hn::And(hn::ShiftRight<16>(bits), hn::Set(words, 1u));
  return hn::Add(hn::Add(bits, last), hn::Set(words, 0x7fffu));
}

#if HWY_TARGET == HWY_AVX3

// A table of the numbers that the 16 codes represent, in one register.
template <typename T>
class Table {
 public:
  HWY_INLINE Table(const float* steps, float scale) {
    const __m512 scaled = _mm512_mul_ps(_mm512_loadu_ps(steps), _mm512_set1_ps(scale));
    if constexpr (sizeof(T) == 4) {
      numbers_ = _mm512_castps_si512(scaled);
    } else if constexpr (std::is_same_v<T, c10::Half>) {
      Repeat(_mm512_cvtps_ph(scaled, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
    } else {
      const hn::FixedTag<uint32_t, 16> words;
      const auto bits =
          RoundUpperHalves(words, hn::Vec<decltype(words)>{_mm512_castps_si512(scaled)});
      Repeat(_mm512_cvtepi32_epi16(hn::ShiftRight<16>(bits).raw));
    }
  }

  // Looks up 32 codes, each in the low four bits of a byte.
  HWY_INLINE void LookUp(hn::Vec<Bytes> first, hn::Vec<Bytes> second, T* out) const {
    if constexpr (sizeof(T) == 4) {
      Store(_mm512_permutexvar_epi32(_mm512_cvtepu8_epi32(first.raw), numbers_), out);
      Store(_mm512_permutexvar_epi32(_mm512_cvtepu8_epi32(second.raw), numbers_), out + 16);
    } else {
      const __m256i codes = _mm256_set_m128i(second.raw, first.raw);
      Store(_mm512_permutexvar_epi16(_mm512_cvtepu8_epi16(codes), numbers_), out);
    }
  }

 private:
  HWY_INLINE void Repeat(__m256i half) { numbers_ = _mm512_broadcast_i64x4(half); }
  static HWY_INLINE void Store(__m512i numbers, T* out) {
    _mm512_storeu_si512(static_cast<void*>(out), numbers);
  }

  __m512i numbers_;
};

#else

// A table of the numbers that the 16 codes represent, split into bytes: plane p has byte p of each
// number.
template <typename T>
class Table {
 public:
  HWY_INLINE Table(const float* steps, float scale) {
    const Floats floats;
    const Words words;
    const auto scaled = [&](int i) HWY_ATTR {
      return hn::Mul(hn::LoadU(floats, steps + 4 * i), hn::Set(floats, scale));
    };
    if constexpr (std::is_same_v<T, c10::Half>) {
      const hn::FixedTag<hwy::float16_t, 4> halves;
      const hn::FixedTag<uint16_t, 4> few;
      const auto pairs = [&](int i) HWY_ATTR {
        const auto low = hn::BitCast(few, hn::DemoteTo(halves, scaled(i))),
                   high = hn::BitCast(few, hn::DemoteTo(halves, scaled(i + 1)));
        return hn::BitCast(Bytes(), hn::Combine(Pairs(), high, low));
      };
      Split(pairs(0), pairs(2), 0);
    } else {
      const auto bits = [&](int i) HWY_ATTR {
        const auto made = hn::BitCast(words, scaled(i));
        return hn::BitCast(Pairs(), sizeof(T) == 4 ? made : RoundUpperHalves(words, made));
      };
      const auto b0 = bits(0), b1 = bits(1), b2 = bits(2), b3 = bits(3);
      const auto halves = [&](auto a, auto b, auto c, auto d, int plane) HWY_ATTR {
        Split(hn::BitCast(Bytes(), hn::ConcatOdd(Pairs(), b, a)),
              hn::BitCast(Bytes(), hn::ConcatOdd(Pairs(), d, c)), plane);
      };
      halves(b0, b1, b2, b3, sizeof(T) - 2);
      if constexpr (sizeof(T) == 4) {
        Split(hn::BitCast(Bytes(), hn::ConcatEven(Pairs(), b1, b0)),
              hn::BitCast(Bytes(), hn::ConcatEven(Pairs(), b3, b2)), 0);
      }
    }
  }

  // Looks up 32 codes, each in the low four bits of a byte.
  HWY_INLINE void LookUp(hn::Vec<Bytes> first, hn::Vec<Bytes> second, T* out) const {
    LookUp(first, reinterpret_cast<uint8_t*>(out));
    LookUp(second, reinterpret_cast<uint8_t*>(out + 16));
  }

 private:
  // Splits 16 numbers of two bytes into two planes.
  HWY_INLINE void Split(hn::Vec<Bytes> low, hn::Vec<Bytes> high, size_t plane) {
    planes_[plane] = hn::ConcatEven(Bytes(), high, low);
    planes_[plane + 1] = hn::ConcatOdd(Bytes(), high, low);
  }

  HWY_INLINE void LookUp(hn::Vec<Bytes> unmasked, uint8_t* out) const {
    const Bytes bytes;
    const Pairs pairs;
    const auto codes = hn::And(unmasked, hn::Set(bytes, 0x0f));
    const auto p0 = hn::TableLookupBytes(planes_[0], codes),
               p1 = hn::TableLookupBytes(planes_[1], codes);
    const auto low0 = hn::InterleaveLower(bytes, p0, p1), low1 = hn::InterleaveUpper(bytes, p0, p1);
    if constexpr (sizeof(T) == 2) {
      hn::StoreU(low0, bytes, out);
      hn::StoreU(low1, bytes, out + 16);
    } else {
      const auto p2 = hn::TableLookupBytes(planes_[2], codes),
                 p3 = hn::TableLookupBytes(planes_[3], codes);
      const auto store = [&](auto low, auto high, uint8_t* to) HWY_ATTR {
        const auto l = hn::BitCast(pairs, low), h = hn::BitCast(pairs, high);
        hn::StoreU(hn::BitCast(bytes, hn::InterleaveLower(pairs, l, h)), bytes, to);
        hn::StoreU(hn::BitCast(bytes, hn::InterleaveUpper(pairs, l, h)), bytes, to + 16);
      };
      store(low0, hn::InterleaveLower(bytes, p2, p3), out);
      store(low1, hn::InterleaveUpper(bytes, p2, p3), out + 32);
    }
  }

  hn::Vec<Bytes> planes_[sizeof(T)];
};

#endif  // HWY_TARGET == HWY_AVX3

// Unpacks a block of 64 codes; `scale` must be finite.
template <typename T>
HWY_INLINE void WholeBlock(const float* steps, float scale, const uint8_t* codes, T* out) {
  const Bytes bytes;
  const Table<T> table(steps, scale);
  for (int i = 0; i < kFourBitBlock / 2; i += 16) {
    const auto low = hn::LoadU(bytes, codes + i),
               high = hn::BitCast(bytes, hn::ShiftRight<4>(hn::BitCast(Pairs(), low)));
    table.LookUp(hn::InterleaveLower(bytes, high, low), hn::InterleaveUpper(bytes, high, low),
                 out + 2 * i);
  }
}

#endif  // HWY_TARGET != HWY_SCALAR

template <typename T>
void FourBits(const FourBitParts& parts, int64_t begin, int64_t end, T* out) {
  for (int64_t block = begin; block < end; ++block) {
    const float scale = ScaleOf(parts, block);
    const int64_t at = block * kFourBitBlock, count = std::min(kFourBitBlock, parts.count - at);
    const uint8_t* codes = parts.codes + at / 2;
#if HWY_TARGET != HWY_SCALAR
    if constexpr (sizeof(T) <= 4) {
      if (count == kFourBitBlock && std::isfinite(scale)) {
        WholeBlock(parts.steps, scale, codes, out + at);
        continue;
      }
    }
#endif
    T numbers[kSteps];
    for (int i = 0; i < kSteps; ++i) numbers[i] = static_cast<T>(parts.steps[i] * scale);
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
}  // namespace moonring::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace moonring::kernels {
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

}  // namespace moonring::kernels
#endif  // HWY_ONCE
