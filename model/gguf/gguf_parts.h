#ifndef MOONRING_MODEL_GGUF_GGUF_PARTS_H_
#define MOONRING_MODEL_GGUF_GGUF_PARTS_H_

// Conversions of a weight's numbers between a GGUF file and a Hugging Face model, in both
// directions; gguf_layout.h states which weights need which conversion. Converting there and back
// gives the same bits, except where a number is added or an exponential is taken: (w + 1) - 1,
// log(exp(A)).
//
// The caller must check the shapes. Results are views if possible.

#include <vector>

#include "ATen/core/Tensor.h"
#include "model/config/config.h"
#include "model/gguf/gguf_layout.h"

namespace moonring::model {

// Reorders the rows of `heads` heads with an even number of rows each: from (head, pair, half) to
// (head, half, pair), and back.
at::Tensor RowsAsPublished(const at::Tensor& tensor, int64_t heads);
at::Tensor RowsAsInGguf(const at::Tensor& tensor, int64_t heads);

// Concatenates, for each kv head, the rows of its queries, its key and its value.
at::Tensor ByKvHeads(const ModelConfig& config, std::vector<at::Tensor> tensors);

// Assembles a weight of `shape` from `tensors`, whose heads must already have the row order of the
// Hugging Face model. Not used for a single expert, whose weight is one slice of a tensor.
at::Tensor FromGguf(const ModelConfig& config, const GgufSource& source,
                    const std::vector<at::Tensor>& tensors, at::IntArrayRef shape);

// Computes tensor number `which` of `source` from the weight. For a single expert, computes its
// slice of the tensor.
at::Tensor ToGguf(const ModelConfig& config, const GgufSource& source, size_t which,
                  const at::Tensor& weight);

// The shape of the tensor that ToGguf returns for a weight of `shape`.
std::vector<int64_t> ShapeInGguf(const ModelConfig& config, const GgufSource& source, size_t which,
                                 at::IntArrayRef shape);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_GGUF_GGUF_PARTS_H_
