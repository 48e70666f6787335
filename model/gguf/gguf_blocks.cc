#include "model/gguf/gguf_blocks.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "c10/util/Half.h"

namespace moonring::model::gguf {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr int kRun = 32, kHalfRun = 16;

// The 16 values of the non-linear types IQ4_NL and IQ4_XS.
constexpr float kSteps[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                              1,    13,   25,  38,  53,  69,  89,  113};

// Twice the values of e2m1: a sign, two exponent bits and one mantissa bit.
constexpr float kTwiceE2m1[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

float HalfAt(const char* in) {
  return static_cast<float>(c10::Half(At<uint16_t>(in), c10::Half::from_bits()));
}

const uint8_t* Bytes(const char* in) { return reinterpret_cast<const uint8_t*>(in); }

// Expands 32 nibbles (four-bit numbers): first the lower four bits of 16 bytes, then the upper four
// bits. Writes value(nibble, index) for each.
template <typename Value>
void Nibbles(const uint8_t* in, float* out, const Value& value) {
  for (int i = 0; i < kHalfRun; ++i) out[i] = value(in[i] & 15, i);
  for (int i = 0; i < kHalfRun; ++i) out[kHalfRun + i] = value(in[i] >> 4, kHalfRun + i);
}

int WithBit(int nibble, uint32_t bits, int place) {
  return nibble | static_cast<int>(bits >> place & 1) << 4;
}

// Scale and minimum of `part` 0..7 of a Q4_K or Q5_K block, 6 bits each, from the 12 bytes `in`.
struct ScaleAndMin {
  int scale, min;
};
ScaleAndMin SixBits(const uint8_t* in, int part) {
  if (part < 4) return {in[part] & 63, in[4 + part] & 63};
  return {(in[4 + part] & 15) | (in[part - 4] >> 6) << 4, in[4 + part] >> 4 | (in[part] >> 6) << 4};
}

int Q3Scale(const uint8_t* in, int run) {
  const int low = run < 8 ? in[run] & 15 : in[run - 8] >> 4;
  return (low | (in[8 + run % 4] >> 2 * (run / 4) & 3) << 4) - 32;
}

// Converts 128 codes to numbers, in runs of 16 that have separate scales. (The pragma: GCC
// vectorises a short loop only if it does not fully unroll it first.)
template <typename Code, typename Value>
void Scaled(const Code (&codes)[4 * kRun], float* out, const Value& value_of_run) {
  for (int run = 0; run < 8; ++run) {
    const auto value = value_of_run(run);
#pragma GCC unroll 1
    for (int l = 0; l < kHalfRun; ++l)
      out[kHalfRun * run + l] = value(static_cast<float>(codes[kHalfRun * run + l]));
  }
}

// Extracts 128 two-bit codes from 32 bytes, the lowest two bits of all bytes first.
void TwoBits(const uint8_t* in, uint8_t (&codes)[4 * kRun]) {
  for (int part = 0; part < 4; ++part) {
#pragma GCC unroll 1
    for (int l = 0; l < kRun; ++l)
      codes[kRun * part + l] = static_cast<uint8_t>(in[l] >> 2 * part & 3);
  }
}

// Dequantises a block of Q4_K (`high` is null) or Q5_K (`high` has the fifth bits).
void DequantiseFourOrFive(const char* in, const uint8_t* high, const uint8_t* low, float* out) {
  const float d = HalfAt(in), m = HalfAt(in + 2);
  for (int part = 0; part < 8; ++part, out += kRun) {
    const ScaleAndMin six = SixBits(Bytes(in + 4), part);
    const float scale = d * static_cast<float>(six.scale), min = m * static_cast<float>(six.min);
    const uint8_t* bytes = low + kRun * (part / 2);
    const int shift = 4 * (part % 2);
    if (high == nullptr) {
      for (int l = 0; l < kRun; ++l)
        out[l] = scale * static_cast<float>(bytes[l] >> shift & 15) - min;
    } else {
      for (int l = 0; l < kRun; ++l)
        out[l] =
            scale * static_cast<float>((bytes[l] >> shift & 15) | (high[l] >> part & 1) << 4) - min;
    }
  }
}

}  // namespace

void DequantiseQ4_0(const char* in, float* out) {
  const float d = HalfAt(in);
  Nibbles(Bytes(in + 2), out, [d](int q, int) { return d * static_cast<float>(q - 8); });
}

void DequantiseQ4_1(const char* in, float* out) {
  const float d = HalfAt(in), m = HalfAt(in + 2);
  Nibbles(Bytes(in + 4), out, [d, m](int q, int) { return d * static_cast<float>(q) + m; });
}

void DequantiseQ5_0(const char* in, float* out) {
  const float d = HalfAt(in);
  const uint32_t high = At<uint32_t>(in + 2);
  Nibbles(Bytes(in + 6), out, [d, high](int q, int place) {
    return d * static_cast<float>(WithBit(q, high, place) - 16);
  });
}

void DequantiseQ5_1(const char* in, float* out) {
  const float d = HalfAt(in), m = HalfAt(in + 2);
  const uint32_t high = At<uint32_t>(in + 4);
  Nibbles(Bytes(in + 8), out, [d, m, high](int q, int place) {
    return d * static_cast<float>(WithBit(q, high, place)) + m;
  });
}

void DequantiseQ8_0(const char* in, float* out) {
  const float d = HalfAt(in);
  const int8_t* q = reinterpret_cast<const int8_t*>(in + 2);
  for (int i = 0; i < kRun; ++i) out[i] = d * static_cast<float>(q[i]);
}

void DequantiseIQ4_NL(const char* in, float* out) {
  const float d = HalfAt(in);
  Nibbles(Bytes(in + 2), out, [d](int q, int) { return d * kSteps[q]; });
}

void DequantiseMXFP4(const char* in, float* out) {
  const float scale = std::ldexp(1.0f, static_cast<int>(Bytes(in)[0]) - 128);
  Nibbles(Bytes(in + 1), out, [scale](int q, int) { return scale * kTwiceE2m1[q]; });
}

void DequantiseQ2_K(const char* in, float* out) {
  const uint8_t* scales = Bytes(in);
  const float d = HalfAt(in + 80), m = HalfAt(in + 82);
  for (int half = 0; half < 2; ++half) {
    uint8_t codes[4 * kRun];
    TwoBits(Bytes(in + 16 + kRun * half), codes);
    Scaled(codes, out + 4 * kRun * half, [&](int run) {
      const int both = scales[8 * half + run];
      const float scale = d * static_cast<float>(both & 15),
                  min = m * static_cast<float>(both >> 4);
      return [scale, min](float q) { return scale * q - min; };
    });
  }
}

void DequantiseQ3_K(const char* in, float* out) {
  const uint8_t *high = Bytes(in), *scales = Bytes(in + 96);
  const float d = HalfAt(in + 108);
  for (int half = 0; half < 2; ++half) {
    uint8_t low[4 * kRun];
    int8_t codes[4 * kRun];
    TwoBits(Bytes(in + 32 + kRun * half), low);
    for (int part = 0; part < 4; ++part) {
      for (int l = 0; l < kRun; ++l) {
        const int i = kRun * part + l, bit = high[l] >> (4 * half + part) & 1;
        codes[i] = static_cast<int8_t>(low[i] - 4 + 4 * bit);
      }
    }
    Scaled(codes, out + 4 * kRun * half, [&](int run) {
      const float scale = d * static_cast<float>(Q3Scale(scales, 8 * half + run));
      return [scale](float q) { return scale * q; };
    });
  }
}

void DequantiseQ4_K(const char* in, float* out) {
  DequantiseFourOrFive(in, nullptr, Bytes(in + 16), out);
}

void DequantiseQ5_K(const char* in, float* out) {
  DequantiseFourOrFive(in, Bytes(in + 16), Bytes(in + 48), out);
}

void DequantiseQ6_K(const char* in, float* out) {
  const int8_t* scales = reinterpret_cast<const int8_t*>(in + 192);
  const float d = HalfAt(in + 208);
  for (int half = 0; half < 2; ++half) {
    const uint8_t* low = Bytes(in + 2 * kRun * half);
    uint8_t high[4 * kRun];
    int8_t codes[4 * kRun];
    TwoBits(Bytes(in + 128 + kRun * half), high);
    for (int l = 0; l < 2 * kRun; ++l) {
      codes[l] = static_cast<int8_t>(((low[l] & 15) | high[l] << 4) - 32);
      codes[2 * kRun + l] = static_cast<int8_t>((low[l] >> 4 | high[2 * kRun + l] << 4) - 32);
    }
    Scaled(codes, out + 4 * kRun * half, [&](int run) {
      const float scale = d * static_cast<float>(scales[8 * half + run]);
      return [scale](float q) { return scale * q; };
    });
  }
}

void DequantiseIQ4_XS(const char* in, float* out) {
  const float d = HalfAt(in);
  const int high = At<uint16_t>(in + 2);
  const uint8_t *low = Bytes(in + 4), *quants = Bytes(in + 8);
  for (int part = 0; part < 8; ++part, out += kRun) {
    const int scale_bits = (low[part / 2] >> 4 * (part % 2) & 15) | (high >> 2 * part & 3) << 4;
    const float scale = d * static_cast<float>(scale_bits - 32);
    Nibbles(quants + kHalfRun * part, out, [scale](int q, int) { return scale * kSteps[q]; });
  }
}

void QuantiseQ8_0(const float* in, char* out) {
  float most = 0;
  for (int i = 0; i < kRun; ++i) most = std::max(most, std::fabs(in[i]));
  const float d = most / 127;
  float inverse = d == 0 ? 0 : 1 / d;
  if (std::isinf(inverse)) inverse = 0;
  const uint16_t half = c10::Half(d).x;
  std::memcpy(out, &half, sizeof(half));
  for (int i = 0; i < kRun; ++i)
    out[2 + i] = static_cast<char>(static_cast<int8_t>(std::round(in[i] * inverse)));
}

}  // namespace moonring::model::gguf
