#ifndef MOONRING_OBJECTIVES_VOCABULARY_ROW_LOSS_H_
#define MOONRING_OBJECTIVES_VOCABULARY_ROW_LOSS_H_

// One number for each row of logits, whatever function of the row it is, in chunks of rows:
// [tokens, vocabulary] never exists, forward or backward. divergence.h, entropy.h and z_loss.h are
// such functions; a further one is a RowPass.
//
// Only rows with a target are projected; the others give 0, with a gradient of 0. Numbers belong to
// this rank's own rows and nothing is communicated, so under sequence parallelism the ranks' rows
// together are one rank's.
//
// Cost, N rows: 2NVD flops forward, 6NVD backward (4NVD for a frozen head), of which 2NVD are the
// logits again; where all rows are one chunk, forward makes the gradient of its logits and keeps it
// for backward instead. Memory beyond the results: chunk_bytes, in backward one [V, D] buffer for
// the head's gradient, and the head in matmul_dtype where it is stored otherwise. A GPU makes a
// chunk's intermediate results whole: they count as part of chunk_bytes there.

#include <cstdint>
#include <functional>
#include <memory>

#include <ATen/core/Tensor.h>

#include "base/autograd/custom_function.h"
#include "base/autograd/parameter.h"
#include "objectives/vocabulary/head_projection.h"

namespace moonring::objectives {

// One walk over the rows, forward or backward. What it leases it lets go with itself.
class RowPass {
 public:
  virtual ~RowPass() = default;

  // Bytes that a row takes beside its logits while its chunk is there.
  virtual int64_t row_bytes() const { return 0; }

  // Tensors of a chunk's size that Block makes.
  virtual int64_t intermediates() const { return 2; }

  // The rows [begin, begin + count) of those with a target come next. Chunks come in order.
  virtual void BeginChunk(int64_t begin, int64_t count) {}

  // Logits z of the rows of the chunk from `begin` on -> a number each, in their dtype. Writes over
  // z; where `differentiate`, the numbers' gradient in z. Several threads call it at a time.
  virtual at::Tensor Block(at::Tensor z_RV, int64_t begin, bool differentiate) const = 0;
};

struct RowLoss {
  const char* name;  // in messages: "objectives.entropy"
  // What a pass reads besides; named here, a write to one of them before backward is an error.
  base::Tensors tensors;
  // rows_N: which rows have a target. dtype: of the logits. Called in forward and in backward, by
  // each rank, after the head is leased.
  std::function<std::unique_ptr<RowPass>(const at::Tensor& rows_N, at::ScalarType dtype)> begin;
};

// hidden_TD (fp32, bf16 or fp64), targets_T (int64, kIgnore where a row is left out; other values
// are not looked at) -> [T] in fp32 (fp64 for fp64). Differentiable in hidden_TD; the gradient of
// the head is added to its Parameter. Targets are read on the host. Throws on shapes and options,
// and on a second derivative.
at::Tensor LossOfRows(RowLoss loss, const at::Tensor& hidden_TD,
                      const std::shared_ptr<base::Parameter>& head_VD, const at::Tensor& targets_T,
                      const ProjectionOptions& options);

// Which rows have a target: int64 [N] on `device`, found on the host. Throws, naming `caller`,
// where targets_T is not int64 [rows].
at::Tensor RowsWithTarget(const char* caller, const at::Tensor& targets_T, int64_t rows,
                          c10::Device device);

// s -> z, in place.
void Cap(at::Tensor scores_RV, double softcap);

}  // namespace moonring::objectives

#endif  // MOONRING_OBJECTIVES_VOCABULARY_ROW_LOSS_H_
