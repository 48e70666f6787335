// Matrices of CPU matrix products are stored in words of 32 bits. A word is one fp32 number, or two
// bf16 numbers that are adjacent along the depth (the inner dim of the product). A Product class
// implements one of the two, with fp32 sums. Its members:
//
//   Element, kPerWord   the number type, and how many fit in a word
//   Add                 sum + a b, word by word
//   Words               a row of numbers -> words along it, the last one padded with 0
//   Interleave          kPerWord rows of the depth -> one word per column
//   Narrow              the same as Words, for a row of computed fp32 numbers
//   Pair                the same as Interleave, for rows of computed fp32 numbers
//
// Bf16Product uses AVX-512 BF16 and is compiled with Highway's AVX3 (MOONRING_BF16_WORDS). Code
// that another file adds to that namespace, until HWY_AFTER_NAMESPACE, has the same target.
// Bf16Product rounds to nearest even and treats numbers below 2^-126 as 0, as the instructions do.
//
// Compiled once for each kind of CPU: files include it between Highway's own headers.

#if defined(MOONRING_ATTENTION_KERNELS_WORDS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MOONRING_ATTENTION_KERNELS_WORDS_INL_H_
#undef MOONRING_ATTENTION_KERNELS_WORDS_INL_H_
#else
#define MOONRING_ATTENTION_KERNELS_WORDS_INL_H_
#endif

#include <cstdint>
#include <cstring>

#include "attention/kernels/bf16.h"
#include "hwy/highway.h"

// GCC's pragma adds instruction sets to those that HWY_BEFORE_NAMESPACE enables.
#undef MOONRING_BF16_WORDS
#undef MOONRING_BF16_TARGET
#if HWY_TARGET == HWY_AVX3
#define MOONRING_BF16_WORDS 1
#define MOONRING_BF16_TARGET HWY_PRAGMA(GCC target("avx512bf16"))
#else
#define MOONRING_BF16_WORDS 0
#define MOONRING_BF16_TARGET
#endif

HWY_BEFORE_NAMESPACE();
MOONRING_BF16_TARGET
namespace moonring::attention {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;
using Vector = hn::Vec<Floats>;
constexpr int64_t kLanes = hn::MaxLanes(Floats());

struct Fp32Product {
  using Element = float;
  static constexpr int64_t kPerWord = 1;

  static HWY_INLINE Vector Broadcast(const float* word) { return hn::Set(Floats(), *word); }
  static HWY_INLINE Vector Add(Vector a, Vector b, Vector sum) { return hn::MulAdd(a, b, sum); }
  static void Words(const float* row, int64_t count, float* to) {
    std::memcpy(to, row, count * sizeof(float));
  }
  static void Interleave(const float* row, const float*, int64_t count, float* to) {
    std::memcpy(to, row, count * sizeof(float));
  }
};

#if MOONRING_BF16_WORDS
struct Bf16Product {
  using Element = Bf16;
  static constexpr int64_t kPerWord = 2;

  static HWY_INLINE Vector Broadcast(const float* word) {
    int32_t bits;
    std::memcpy(&bits, word, sizeof(bits));
    return Vector{_mm512_castsi512_ps(_mm512_set1_epi32(bits))};
  }
  static HWY_INLINE Vector Add(Vector a, Vector b, Vector sum) {
    return Vector{_mm512_dpbf16_ps(sum.raw, (__m512bh)a.raw, (__m512bh)b.raw)};
  }
  static void Words(const Bf16* row, int64_t count, float* to) {
    std::memcpy(to, row, count * sizeof(Bf16));
    FillUp(count, to);
  }
  static void Words(const float* row, int64_t count, float* to) {
    for (int64_t c = 0; c < count; c += 16) {
      const __m256bh some = _mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(First(count - c), row + c));
      _mm256_mask_storeu_epi16(to + c / 2, First(count - c), (__m256i)some);
    }
    FillUp(count, to);
  }
  // `next` may be null, which means zeros.
  static void Interleave(const Bf16* row, const Bf16* next, int64_t count, float* to) {
    for (int64_t c = 0; c < count; c += 16) {
      const __mmask16 some = First(count - c);
      __m512i words = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(some, row + c));
      if (next != nullptr) {
        const __m512i upper = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(some, next + c));
        words = _mm512_or_si512(words, _mm512_slli_epi32(upper, 16));
      }
      _mm512_mask_storeu_epi32(to + c, some, words);
    }
  }
  // Converts `width` columns, a multiple of 32, to half as many words; `to` may be the row itself.
  static void Narrow(const float* row, int64_t width, float* to) {
    for (int64_t c = 0; c < width; c += 32) {
      const __m512bh words =
          _mm512_cvtne2ps_pbh(_mm512_load_ps(row + c + 16), _mm512_load_ps(row + c));
      _mm512_store_si512(to + c / 2, (__m512i)words);
    }
  }
  // Writes the words of two rows over the first row; `next` may be null, which means zeros.
  static void Pair(float* row, const float* next, int64_t width) {
    const __m512i ascending = _mm512_cvtepu16_epi32(
        _mm256_set_epi16(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0));
    const __m512i order = _mm512_or_si512(
        ascending, _mm512_slli_epi32(_mm512_add_epi32(ascending, _mm512_set1_epi32(16)), 16));
    for (int64_t c = 0; c < width; c += 16) {
      const __m512 upper = next == nullptr ? _mm512_setzero_ps() : _mm512_load_ps(next + c);
      const __m512bh both = _mm512_cvtne2ps_pbh(upper, _mm512_load_ps(row + c));
      _mm512_store_si512(row + c, _mm512_permutexvar_epi16(order, (__m512i)both));
    }
  }

 private:
  static __mmask16 First(int64_t count) { return count < 16 ? (1u << count) - 1 : 0xFFFFu; }
  static void FillUp(int64_t count, float* to) {
    if (count % 2 == 1) std::memset(reinterpret_cast<char*>(to) + count * sizeof(Bf16), 0, 2);
  }
};
#endif

}  // namespace HWY_NAMESPACE
}  // namespace moonring::attention
HWY_AFTER_NAMESPACE();

#endif  // MOONRING_ATTENTION_KERNELS_WORDS_INL_H_
