#ifndef MOONRING_OBJECTIVES_VOCABULARY_ROW_LOSS_H_
#define MOONRING_OBJECTIVES_VOCABULARY_ROW_LOSS_H_

// Computes functions that map each row of logits to one number, in chunks of rows: a tensor
// [tokens, vocabulary] never exists, in the forward or the backward. divergence.h, entropy.h and
// z_loss.h are such functions; to add one, implement RowPass.
//
// Only rows with a target are projected to logits; for the others the result and its gradient are
// 0. Each rank computes its own rows without communication, so under sequence parallelism the
// ranks' results together are those of a single rank.
//
// Cost for N rows with a target, V ids and hidden states of D numbers: 2NVD flops forward, 6NVD
// backward (4NVD for a frozen head), of which 2NVD are the recomputed logits. Where all rows are
// one chunk, the forward computes the gradient of its logits and saves it for the backward instead.
// Memory beyond the results: chunk_bytes; in the backward one [V, D] buffer for the head's
// gradient; and the head in matmul_dtype where it is stored in another dtype. On a GPU the
// intermediate results of a whole chunk exist at once and count in chunk_bytes.

#include <cstdint>
#include <functional>
#include <memory>

#include <ATen/core/Tensor.h>

#include "base/autograd/custom_function.h"
#include "base/autograd/parameter.h"
#include "objectives/vocabulary/head_projection.h"

namespace moonring::objectives {

// One pass over the rows, forward or backward. Weights that a pass has borrowed (leases) are freed
// when the pass is destroyed.
class RowPass {
 public:
  virtual ~RowPass() = default;

  // Bytes that a row needs in addition to its logits while its chunk is processed.
  virtual int64_t row_bytes() const { return 0; }

  // Number of temporary tensors of a chunk's size in Block.
  virtual int64_t intermediates() const { return 2; }

  // Called before each chunk, in order. The chunk has the rows [begin, begin + count) of rows_N,
  // the rows that have a target.
  virtual void BeginChunk(int64_t begin, int64_t count) {}

  // From the logits z of the chunk's rows from `begin` on, returns one number per row, in the dtype
  // of z. May overwrite z; with `differentiate`, z must be overwritten by the gradient of the
  // numbers with respect to z. Called by several threads at a time.
  virtual at::Tensor Block(at::Tensor z_RV, int64_t begin, bool differentiate) const = 0;
};

struct RowLoss {
  const char* name;  // for messages: "objectives.entropy"
  // Further tensors that a pass reads. Autograd reports an error if one of them is modified before
  // the backward.
  base::Tensors tensors;
  // Creates a pass. rows_N: the rows that have a target. dtype: that of the logits. Each rank calls
  // it in the forward and in the backward, after it has borrowed the head's weight.
  std::function<std::unique_ptr<RowPass>(const at::Tensor& rows_N, at::ScalarType dtype)> begin;
};

// hidden_TD (fp32, bf16 or fp64), targets_T (int64, kIgnore for rows that are skipped; other values
// are not examined) -> [T] in fp32 (fp64 for fp64). Differentiable in hidden_TD; the gradient of
// the head is added to its Parameter. Targets are read on the host. Throws on wrong shapes and
// options, and on a second derivative.
at::Tensor LossOfRows(RowLoss loss, const at::Tensor& hidden_TD,
                      const std::shared_ptr<base::Parameter>& head_VD, const at::Tensor& targets_T,
                      const ProjectionOptions& options);

// The rows that have a target: int64 [N] on `device`, determined on the host. Throws, naming
// `caller`, where targets_T is not int64 [rows].
at::Tensor RowsWithTarget(const char* caller, const at::Tensor& targets_T, int64_t rows,
                          c10::Device device);

// Applies the softcap: s -> z, in place.
void Cap(at::Tensor scores_RV, double softcap);

}  // namespace moonring::objectives

#endif  // MOONRING_OBJECTIVES_VOCABULARY_ROW_LOSS_H_
