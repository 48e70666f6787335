#ifndef MOONRING_OBJECTIVES_VOCABULARY_HEAD_PROJECTION_H_
#define MOONRING_OBJECTIVES_VOCABULARY_HEAD_PROJECTION_H_

// From hidden states to logits and back, a chunk of rows at a time: what everything that looks at
// the whole vocabulary (log_prob.h, row_loss.h) is made from.
//
//   s_t = scale * (W h_t + b)        z_t = softcap * tanh(s_t / softcap), or s_t where softcap is 0
//
// W is the head [V, D] (lm_head, or the embedding where tied), lent by a Parameter; its gradient,
// and the bias's, go to their Parameters, not into a graph. The matmuls, all three of them, run in
// matmul_dtype (logits of a bf16 matmul are rounded to bf16, as under autocast, and so are G and f
// h before they are multiplied); scores, and the sum over tokens in W's gradient, are fp32, or fp64
// where the matmul is. Who reads bf16 may have scores as the matmul left them, and give
// G so.
//
// With G = dL/ds [rows, V] and f_t what multiplies it,
//   dh_t = f_t (G_t W)          dW = sum_t G_t^T (f_t h_t)          db = sum_t f_t G_t
// so that scale and incoming gradient (f) touch [rows, D] and never [rows, V]. But in fp16 f G is
// what is rounded: so a loss scale, which is in f, keeps small numbers of G from being 0, and large
// ones of f h from being infinite.

#include <cstdint>
#include <memory>

#include <ATen/core/Tensor.h>

#include "base/autograd/parameter.h"
#include "kernels/products/product_choice.h"

namespace moonring::objectives {

struct HeadOptions {
  double scale = 1.0;
  double softcap = 0.0;                     // 0: none
  std::shared_ptr<base::Parameter> bias_V;  // null: none
  kernels::ProductChoice products = {};     // what makes the products with W
};

struct ProjectionOptions {
  HeadOptions head;
  at::ScalarType matmul_dtype = at::kFloat;  // fp64 hidden states are always multiplied in fp64
  int64_t chunk_bytes = int64_t{64} << 20;   // of logits held at a time ...
  int64_t chunk_rows = 0;  // ... but of so many rows at least; 0: by device, one on a CPU, 4096 on
                           // a GPU, where the products of fewer wait for W's and its gradient's
                           // bytes
  int64_t vocabulary = 0;  // the ids 0 .. vocabulary - 1 alone, as if there were no more; 0: all
};

// Throws (TORCH_CHECK_VALUE), naming `caller`, where shapes or options do not fit.
void CheckProjection(const char* caller, const at::Tensor& hidden_TD, const base::Parameter& head,
                     const ProjectionOptions& options);

// What makes autograd record a loss of a head. It requires a gradient where the head or its bias
// learns: the node is there although the hidden states need none.
struct HeadRecording {
  at::Tensor anchor;      // beside the hidden states an input of the node
  bool backward_follows;  // whether anything of it is differentiated
};
HeadRecording RecordHead(const at::Tensor& hidden_TD, const base::Parameter& head,
                         const HeadOptions& options);

// Rows of a chunk where each takes row_bytes: chunks of equal size, but for the last, since a short
// one would take another path through the matmul, hence other roundings; of whole blocks of rows
// (kernels/products/onednn_products.h) at most, where they hold one.
int64_t ChunkRows(int64_t rows, int64_t row_bytes, int64_t chunk_bytes);

// Rows [begin, begin + count) of rows_N, out of source_TD; a view where rows_N is all of them.
at::Tensor GatherRows(const at::Tensor& source_TD, const at::Tensor& rows_N, int64_t begin,
                      int64_t count);

// One call's view of the head: the leased weight, and the two buffers that every chunk reuses.
class HeadProjection {
 public:
  // Leases: with a weight that lies elsewhere a call of all ranks that share it.
  HeadProjection(const base::Parameter& head, const ProjectionOptions& options,
                 const at::Tensor& hidden);

  // Of a row's scores and of what the matmul leaves beside them; `as_made`: of ScoresAsMade's.
  int64_t row_bytes(bool as_made = false) const;
  // Of a chunk, by the options: for ChunkRows, with the bytes of all that a row takes.
  int64_t chunk_bytes(bool as_made = false) const;
  int64_t vocabulary() const { return weight_VD_.size(0); }
  at::ScalarType dtype() const { return dtype_; }  // of scores: fp32 or fp64
  double scale() const { return scale_; }
  double softcap() const { return softcap_; }
  // Whether f G, and not G, is what the products with W and with h are made of.
  bool factor_in_gradient() const { return matmul_dtype_ == at::kHalf; }
  // Whether G is rounded before it is multiplied.
  bool rounded() const { return matmul_dtype_ != dtype_; }
  const kernels::ProductChoice& products() const { return products_; }

  // s of some rows, before the softcap, in a buffer that the next call writes again. The first call
  // has the most rows.
  at::Tensor Scores(const at::Tensor& hidden_RD);

  // The same numbers in matmul_dtype, as the matmul left them, for who reads that dtype; Scores'
  // where a bias is added to them.
  at::Tensor ScoresAsMade(const at::Tensor& hidden_RD);

  // G, in either dtype of scores, in that of the matmuls: itself, or in a buffer that Scores and
  // this write again.
  at::Tensor ForProducts(const at::Tensor& gradient_RV);
  // The same of f G.
  at::Tensor ForProducts(const at::Tensor& gradient_RV, const at::Tensor& factor_R);

  // G, out of ForProducts, times W.
  at::Tensor TimesWeight(const at::Tensor& gradient_RV) const;

 private:
  at::Tensor TimesTransposed(const at::Tensor& hidden_RD);  // the matmul
  at::Tensor FirstRows(at::Tensor& buffer_RV, at::ScalarType dtype, int64_t rows) const;

  at::ScalarType matmul_dtype_, dtype_;
  double scale_, softcap_;
  int64_t chunk_bytes_, chunk_rows_;
  kernels::ProductChoice products_;
  at::Tensor weight_VD_, bias_V_, logits_RV_, rounded_RV_;
};

// What a backward adds up over chunks: the gradients of hidden states, head and bias.
class HeadGradients {
 public:
  // factor_N: f above, of the rows rows_N of hidden_TD.
  HeadGradients(HeadProjection& projection, base::Parameter& head,
                std::shared_ptr<base::Parameter> bias, const at::Tensor& hidden_TD,
                bool hidden_wanted, at::Tensor rows_N, at::Tensor factor_N);

  // Of the rows from `begin` on: their hidden states and G, in either dtype of scores.
  void Add(int64_t begin, const at::Tensor& hidden_RD, const at::Tensor& gradient_RV);

  // Gives head and bias theirs; returns that of the hidden states, undefined where it is not
  // wanted.
  at::Tensor Finish();

 private:
  HeadProjection& projection_;
  base::Parameter& head_;
  std::shared_ptr<base::Parameter> bias_;  // null: none, or none that learns
  at::Tensor rows_N_, factor_N_;
  at::Tensor hidden_TD_, head_VD_, bias_V_;  // gradients; undefined where not wanted
  bool into_parameter_ = false;              // head_VD_ is the Parameter's own
};

}  // namespace moonring::objectives

#endif  // MOONRING_OBJECTIVES_VOCABULARY_HEAD_PROJECTION_H_
