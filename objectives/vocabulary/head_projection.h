#ifndef MOONRING_OBJECTIVES_VOCABULARY_HEAD_PROJECTION_H_
#define MOONRING_OBJECTIVES_VOCABULARY_HEAD_PROJECTION_H_

// Logits from hidden states, and the backward of this, a chunk of rows at a time: the basis of all
// functions of the whole vocabulary (log_prob.h, row_loss.h).
//
//   s_t = scale * (W h_t + b)        z_t = softcap * tanh(s_t / softcap), or s_t where softcap is 0
//
// h_t is the hidden state of token t (D numbers); its logits are z_t (V numbers). W is the head [V,
// D] (lm_head, or the embedding where tied), borrowed from a base::Parameter for the call (a lease,
// base/autograd/parameter.h). The gradients of W and b are added to their Parameters, not returned
// to autograd. All three matmuls run in matmul_dtype: logits of a bf16 matmul are rounded to bf16,
// as under autocast, and so are G and f h before they are multiplied. Scores, and the sum over
// tokens in W's gradient, are in fp32, or in fp64 for an fp64 matmul. Callers that can process bf16
// may read the bf16 result of the matmul itself (ScoresAsMade), and pass G in bf16.
//
// W may have a low-rank term beside it (head_low_rank.h); then scale * (W h + m B A h + b).
//
// With G = dL/ds [rows, V] and a factor f_t per row,
//   dh_t = f_t (G_t W)          dW = sum_t G_t^T (f_t h_t)          db = sum_t f_t G_t
// f contains scale and the incoming gradient, so these multiply tensors [rows, D] and never [rows,
// V]. In fp16, however, the products read f G in place of G: the loss scale, which is a factor of
// f, then keeps small numbers of G from becoming 0, and f h, which could overflow, is not needed.

#include <cstdint>
#include <memory>
#include <optional>

#include <ATen/core/Tensor.h>

#include "base/autograd/parameter.h"
#include "kernels/products/product_choice.h"
#include "objectives/vocabulary/head_low_rank.h"

namespace moonring::objectives {

struct HeadOptions {
  double scale = 1.0;
  double softcap = 0.0;                     // 0: none
  std::shared_ptr<base::Parameter> bias_V;  // null: none
  kernels::ProductChoice products = {};     // which implementation computes the products with W
  std::optional<HeadLowRank> low_rank = std::nullopt;
};

struct ProjectionOptions {
  HeadOptions head;
  at::ScalarType matmul_dtype = at::kFloat;  // fp64 hidden states are always multiplied in fp64
  int64_t chunk_bytes = int64_t{64} << 20;   // of logits at a time ...
  int64_t chunk_rows = 0;  // ... but at least this many rows; 0: by device, one on a CPU, 4096 on a
                           // GPU, where products of fewer rows are bound by reading W and its
                           // gradient
  int64_t vocabulary = 0;  // use only the ids 0 .. vocabulary - 1; 0: all
};

// Throws (TORCH_CHECK_VALUE), naming `caller`, where shapes or options are not valid.
void CheckProjection(const char* caller, const at::Tensor& hidden_TD, const base::Parameter& head,
                     const ProjectionOptions& options);

// Makes autograd record a node for a loss of a head. The anchor is an additional input of the node.
// It requires a gradient if a weight of the head is trainable, so that the node is recorded even if
// the hidden states need no gradient.
struct HeadRecording {
  at::Tensor anchor;      // an input of the node, in addition to the hidden states
  bool backward_follows;  // whether the node will have a backward
};
HeadRecording RecordHead(const at::Tensor& hidden_TD, const base::Parameter& head,
                         const HeadOptions& options);

// The number of rows of a chunk, if each row needs row_bytes. Chunks have equal sizes except the
// last, since a much shorter one would take another path through the matmul and be rounded
// differently. Large chunks have a whole number of blocks of rows
// (kernels/products/onednn_products.h).
int64_t ChunkRows(int64_t rows, int64_t row_bytes, int64_t chunk_bytes);

// The rows rows_N[begin .. begin + count) of source_TD; a view where rows_N is all of them.
at::Tensor GatherRows(const at::Tensor& source_TD, const at::Tensor& rows_N, int64_t begin,
                      int64_t count);

// The output head during one call: its weight (gathered if it is sharded), and the two buffers that
// every chunk reuses.
class HeadProjection {
 public:
  // Borrows the weights. If they are sharded, this is a collective call of all ranks that share
  // them. rows_N: the rows of the hidden states that the call uses; undefined: all of them.
  HeadProjection(const base::Parameter& head, const ProjectionOptions& options,
                 const at::Tensor& hidden, const at::Tensor& rows_N = {});

  // Bytes per row of the scores and of the matmul's result. `as_made`: whether the caller uses
  // ScoresAsMade.
  int64_t row_bytes(bool as_made = false) const;
  // The chunk_bytes argument for ChunkRows, from the options. The row_bytes argument must include
  // everything that a row needs.
  int64_t chunk_bytes(bool as_made = false) const;
  int64_t vocabulary() const { return weight_VD_.size(0); }
  at::ScalarType dtype() const { return dtype_; }  // of scores: fp32 or fp64
  double scale() const { return scale_; }
  double softcap() const { return softcap_; }
  // Whether f G, and not G, is the factor of the products with W and with h.
  bool factor_in_gradient() const { return matmul_dtype_ == at::kHalf; }
  // Whether G is rounded before it is multiplied.
  bool rounded() const { return matmul_dtype_ != dtype_; }
  const kernels::ProductChoice& products() const { return products_; }

  // The low-rank term; null: none.
  const LowRankTerm* low_rank() const { return low_rank_.has_value() ? &*low_rank_ : nullptr; }

  // Returns s of some rows, before the softcap, in a buffer that the next call overwrites. The
  // first call must have the most rows. The first row is rows_N[begin].
  at::Tensor Scores(const at::Tensor& hidden_RD, int64_t begin);

  // As Scores, but in matmul_dtype, without the conversion to fp32. With a bias it returns the same
  // as Scores.
  at::Tensor ScoresAsMade(const at::Tensor& hidden_RD, int64_t begin);

  // Converts G, in either dtype of scores, to the dtype of the matmuls. Returns G itself, or a
  // buffer that the next call of Scores or ForProducts overwrites.
  at::Tensor ForProducts(const at::Tensor& gradient_RV);
  // Converts f G to the dtype of the matmuls, in a buffer as above.
  at::Tensor ForProducts(const at::Tensor& gradient_RV, const at::Tensor& factor_R);

  // G, as returned by ForProducts, times W.
  at::Tensor TimesWeight(const at::Tensor& gradient_RV) const;

 private:
  at::Tensor TimesTransposed(const at::Tensor& hidden_RD, int64_t begin);  // the matmul
  at::Tensor FirstRows(at::Tensor& buffer_RV, at::ScalarType dtype, int64_t rows) const;

  at::ScalarType matmul_dtype_, dtype_;
  double scale_, softcap_;
  int64_t chunk_bytes_, chunk_rows_;
  kernels::ProductChoice products_;
  at::Tensor weight_VD_, bias_V_, logits_RV_, rounded_RV_;
  std::optional<LowRankTerm> low_rank_;
};

// Computes the gradients of hidden states and of the head's weights in a backward, which adds them
// up chunk by chunk.
class HeadGradients {
 public:
  // factor_N: the factors f (above) of the rows rows_N of hidden_TD.
  HeadGradients(HeadProjection& projection, base::Parameter& head, const HeadOptions& options,
                const at::Tensor& hidden_TD, bool hidden_wanted, at::Tensor rows_N,
                at::Tensor factor_N);

  // Adds the contribution of a chunk, whose rows are rows_N from index `begin` on. gradient_RV: G,
  // in the dtype of Scores or of ScoresAsMade.
  void Add(int64_t begin, const at::Tensor& hidden_RD, const at::Tensor& gradient_RV);

  // Adds the gradients of the head's weights to their Parameters. Returns the gradient of the
  // hidden states, or an undefined tensor if it is not needed.
  at::Tensor Finish();

 private:
  HeadProjection& projection_;
  base::Parameter& head_;
  std::shared_ptr<base::Parameter> bias_;     // null: no bias, or a frozen one
  std::optional<LowRankGradients> low_rank_;  // absent: none
  at::Tensor rows_N_, factor_N_;
  at::Tensor hidden_TD_, head_VD_, bias_V_;  // gradients; undefined where not needed
  bool into_parameter_ = false;              // head_VD_ is the Parameter's gradient itself
};

}  // namespace moonring::objectives

#endif  // MOONRING_OBJECTIVES_VOCABULARY_HEAD_PROJECTION_H_
