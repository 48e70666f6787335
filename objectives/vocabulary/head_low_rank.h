#ifndef MOONRING_OBJECTIVES_VOCABULARY_HEAD_LOW_RANK_H_
#define MOONRING_OBJECTIVES_VOCABULARY_HEAD_LOW_RANK_H_

// A low-rank term of the output head (LoRA): with rank r, factor m and the head's weight W [V, D],
//
//   logits = scale (W h + m B (A h') + b)       A [r, D], B [V, r]
//
// h' = h, or with dropout, h with some features zeroed and the others divided by 1 - rate. Which
// features of a token are dropped depends only on (key, identity of the token), so the backward
// makes the same mask again.
//
// The products with A and B are made beside those with W, chunk by chunk: for N rows 2Nr(D + V)
// flops forward and 4Nr(D + V) backward, and no tensor [V, D]. (One product with [W, m B] is not
// faster, and needs a copy of W.) Gradients of A and B are added to their Parameters. With G and f
// as in head_projection.h, u = A h', and k = m f,
//
//   dB = sum_t G_t^T (k_t u_t)      dA = sum_t (k_t G_t B)^T h'_t      dh'_t = (k_t G_t B) A

#include <cstdint>
#include <memory>

#include <ATen/core/Tensor.h>

#include "base/autograd/parameter.h"

namespace moonring::objectives {

struct HeadLowRank {
  std::shared_ptr<base::Parameter> a_RD, b_VR;
  double factor = 1.0;    // m: alpha / r
  double dropout = 0.0;   // the rate
  uint64_t key = 0;       // random key of the head and the step (kernels::CounterKey)
  at::Tensor identity_T;  // int64: the tokens of all hidden states; undefined: no dropout
};

// Throws (TORCH_CHECK_VALUE), naming `caller`, where shapes or the dropout do not fit.
void CheckLowRank(const char* caller, const HeadLowRank& low_rank, at::IntArrayRef head_shape,
                  int64_t rows);

// The term during one call: A and B, borrowed from their Parameters.
class LowRankTerm {
 public:
  // rows_N: the rows of the hidden states that the call uses; undefined: all of them.
  LowRankTerm(const HeadLowRank& low_rank, at::ScalarType matmul_dtype, const at::Tensor& hidden_TD,
              const at::Tensor& rows_N);

  // Uses only the ids 0 .. vocabulary - 1.
  void Narrow(int64_t vocabulary) { b_VR_ = b_VR_.narrow(0, 0, vocabulary); }

  // product += m B (A h') for a chunk of rows, the first of which is rows_N[begin].
  void AddTo(const at::Tensor& product_RV, const at::Tensor& hidden_RD, int64_t begin) const;

  double factor() const { return factor_; }
  const at::Tensor& a_RD() const { return a_RD_; }
  const at::Tensor& b_VR() const { return b_VR_; }
  // Applies the dropout of these rows; returns x itself without one.
  at::Tensor Dropped(const at::Tensor& x_RD, int64_t begin) const;

 private:
  at::Tensor a_RD_, b_VR_;
  double factor_, rate_;
  uint64_t key_;
  at::Tensor identity_N_;  // undefined: no dropout
};

// The gradients of A and B in a backward, added up chunk by chunk.
class LowRankGradients {
 public:
  // `dtype`: in which gradients are summed, fp32 or fp64.
  LowRankGradients(const HeadLowRank& low_rank, const LowRankTerm& term, at::ScalarType dtype);

  // gradient_RV: G as multiplied, in the dtype of the matmuls; factor_R1: f, or undefined where G
  // contains it already. Returns the chunk's dh' with the dropout applied, in `dtype`; undefined
  // unless hidden_wanted.
  at::Tensor Add(const at::Tensor& gradient_RV, const at::Tensor& hidden_RD,
                 const at::Tensor& factor_R1, int64_t begin, bool hidden_wanted);
  // Adds the sums to the Parameters that are trainable.
  void Finish();

 private:
  const LowRankTerm& term_;
  const std::shared_ptr<base::Parameter> a_, b_;
  const at::ScalarType dtype_;
  at::Tensor a_RD_, b_VR_;  // undefined where not needed
};

}  // namespace moonring::objectives

#endif  // MOONRING_OBJECTIVES_VOCABULARY_HEAD_LOW_RANK_H_
