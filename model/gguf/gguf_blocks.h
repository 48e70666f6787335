#ifndef MOONRING_MODEL_GGUF_GGUF_BLOCKS_H_
#define MOONRING_MODEL_GGUF_GGUF_BLOCKS_H_

// Dequantises one block of each quantised type of GGUF, and quantises Q8_0. `in` points to the
// block's bytes (any alignment); `out` receives its elements in fp32. Products and sums are rounded
// one by one in the order written here, so the values are bit-equal to the format's reference
// implementation.
//
// Fields are stored in the order named. d and m are fp16, the others are bytes unless stated
// otherwise; low(x) and high(x) are the lower and the upper four bits (nibbles) of a byte.
//
// Blocks of 32. Element e's nibble n is low(b[e]) for e < 16, high(b[e - 16]) from 16 on:
//
//   Q4_0     d, b[16]                        d (n - 8)
//   Q4_1     d, m, b[16]                     d n + m
//   Q5_0     d, h (32 bits), b[16]           d (q - 16)     q = n + 16 (bit e of h)
//   Q5_1     d, m, h (32 bits), b[16]        d q + m        q as in Q5_0
//   Q8_0     d, int8 b[32]                   d b[e]
//   IQ4_NL   d, b[16]                        d t[n]         t: 16 uneven steps from -127 to 113
//   MXFP4    s (a byte), b[16]               2^(s - 128) t[n]      t: 0, 1, 2, 3, 4, 6, 8, 12, the
//                                            same below zero: twice e2m1's
//
// Blocks of 256, in runs of 16 (r = e / 16) or parts of 32 (p = e / 32) with separate scales; l = e
// % 32, half = e / 128:
//
//   Q2_K     s[16], b[64], d, m              (d low(s[r])) q - (m high(s[r]))      q = bits 2 (p %
//                                            4) and above of b[32 half + l], 2 of them
//   Q3_K     h[32], b[64], S[12], d          (d (s - 32)) (q - 4 + 4 (bit p of h[l]))      q as in
//                                            Q2_K, s of run r as below
//   Q4_K     d, m, S[12], b[128]             (d s) n - (m t)      n: a nibble of b[32 (p / 2) + l],
//                                            low for even p; s, t of part p as below
//   Q5_K     d, m, S[12], h[32], b[128]      (d s) q - (m t)      q = n + 16 (bit p of h[l]); n, s,
//                                            t as in Q4_K
//   Q6_K     a[128], h[64], int8 s[16], d    (d s[r]) (q - 32)    q = n + 16 (bits 2 (p % 4) and
//                                                                 above of h[32 half + l], 2 of
//                                                                 them); n: a nibble of a[64 half +
//                                                                 e % 64], low in the first 64 of a
//                                                                 half
//   IQ4_XS   d, h (16 bits), s[4], b[128]    (d (S - 32)) t[n]    n and t of part p as in IQ4_NL,
//                                                                 from b[16 p] on; S = nibble p of
//                                                                 s, low ones first, + 16 (bits 2 p
//                                                                 and 2 p + 1 of h)
//
// Scales of 6 bits in 12 bytes S:
//
//   Q3_K     run r: low(S[r]) for r < 8, high(S[r - 8]) from 8 on, + 16 (bits 2 (r / 4) and above
//            of S[8 + r % 4], 2 of them)
//   Q4_K     part p < 4: s = S[p] % 64, t = S[4 + p] % 64;  p >= 4: s = low(S[4 + p]) + 16 (S[p -
//            4] / 64), t = high(S[4 + p]) + 16 (S[p] / 64)

#include <cstring>

namespace moonring::model::gguf {

// Reads a value of type T at `in`, which may be unaligned.
template <typename T>
T At(const char* in) {
  T value;
  std::memcpy(&value, in, sizeof(T));
  return value;
}

using BlockFunction = void(const char* in, float* out);

BlockFunction DequantiseQ4_0, DequantiseQ4_1, DequantiseQ5_0, DequantiseQ5_1, DequantiseQ8_0,
    DequantiseIQ4_NL, DequantiseMXFP4;
BlockFunction DequantiseQ2_K, DequantiseQ3_K, DequantiseQ4_K, DequantiseQ5_K, DequantiseQ6_K,
    DequantiseIQ4_XS;

// Quantises 32 numbers to a Q8_0 block with the rounding of the reference implementation: d = max
// |x| / 127, b[e] = x (1 / d), rounded half away from zero. If d is so small that 1 / d overflows
// fp32, all b[e] are 0.
void QuantiseQ8_0(const float* in, char* out);

}  // namespace moonring::model::gguf

#endif  // MOONRING_MODEL_GGUF_GGUF_BLOCKS_H_
