#ifndef MOONRING_MODEL_GGUF_GGUF_PARTS_H_
#define MOONRING_MODEL_GGUF_GGUF_PARTS_H_

// What a weight's numbers go through between a GGUF file and a Hugging Face model, both ways, side
// by side; gguf_layout.h says which weights go through what. Each way undoes the other one, bit by
// bit but where a number is added or an exponential taken: (w + 1) - 1, log(exp(A)).
//
// Shapes are the caller's to check; views where that is possible.

#include <vector>

#include "ATen/core/Tensor.h"
#include "model/config/config.h"
#include "model/gguf/gguf_layout.h"

namespace moonring::model {

// The rows of `heads` heads, each of an even number: (head, pair, half) as (head, half, pair), and
// back.
at::Tensor RowsAsPublished(const at::Tensor& tensor, int64_t heads);
at::Tensor RowsAsInGguf(const at::Tensor& tensor, int64_t heads);

// Of each kv head the rows of its queries, its key and its value together.
at::Tensor ByKvHeads(const ModelConfig& config, std::vector<at::Tensor> tensors);

// A weight of `shape` from the source's tensors, whose heads' rows are as published. Not of an
// expert's: that is the slice itself.
at::Tensor FromGguf(const ModelConfig& config, const GgufSource& source,
                    const std::vector<at::Tensor>& tensors, at::IntArrayRef shape);

// The source's tensor number `which` from the weight; of an expert the slice.
at::Tensor ToGguf(const ModelConfig& config, const GgufSource& source, size_t which,
                  const at::Tensor& weight);

// Its shape, of a weight of `shape`; of an expert that of the slice.
std::vector<int64_t> ShapeInGguf(const ModelConfig& config, const GgufSource& source, size_t which,
                                 at::IntArrayRef shape);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_GGUF_GGUF_PARTS_H_
