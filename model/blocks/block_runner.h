#ifndef MOONRING_MODEL_BLOCKS_BLOCK_RUNNER_H_
#define MOONRING_MODEL_BLOCKS_BLOCK_RUNNER_H_

// Runs blocks, forward and backward. All blocks are run here. A block is a function f of (its
// weights, hidden states).
//
//   forward    lease the weights, hidden' = f(weights, hidden, options), keep what the mode
//              requires
//   backward   lease the weights as leaves, recompute f if its graph was not kept,
//              differentiate, pass each weight's gradient to its Parameter, return the gradient of
//              hidden
//
// f may return more than hidden' (for example a router's statistics): all its results are the
// Function's outputs, and all their gradients are used. It may also take further inputs (for
// example another block's keys): they receive gradients too, and stay in memory until the backward.
//
// The autograd Function has only these inputs; weights are never in the outer graph. Operations on
// weights (recompute, offload, gathering from other ranks) are therefore done here, around a block,
// and never inside one.
//
// kBlock keeps the block's input ([T, D]) and costs one more forward. kSelective also keeps
// attention's saved tensors (attention/attention.h), so recomputation runs no attention and
// exchanges no keys. kNone keeps the block's graph. All modes run the same operations, so outputs
// are bit-equal. Gradients are bit-equal too if the rows fit in one tile (block_run.h); otherwise
// kNone sums a weight's gradient over all rows at once and the other modes sum over tiles. What is
// kept belongs to the call: any number of forwards may be live, of any micro-batches and models.
// With a `store` it is kept there instead of in memory (activation_store.h), without any change of
// bits. All ranks recompute f in the same order, so f may contain collectives; it is recomputed
// even if a rank has no rows. Frozen parameters get no gradient. If neither hidden nor any
// parameter requires a gradient, or grad mode is off, nothing is kept.
//
// A weight's gradient is accumulated directly by the matrix products, in the Parameter's dtype
// instead of the dtype that f used (BlockRun::sums), and into the Parameter's existing gradient if
// there is one. On a CPU this is done only if the two dtypes differ; otherwise the product is
// computed first and then added, which keeps the bits of plain autograd.
//
// Weights that are away (offloaded or sharded, base/autograd/parameter_home.h) are leased in this
// order by all ranks that share them. Every trainable weight of a block that runs backward passes a
// gradient to its Parameter, an undefined one if it got none.
//
// f must be pure, and f and everything it refers to must outlive the backward. Its exceptions
// propagate unchanged. A second backward through one forward works if the first retained the graph;
// create_graph is refused.

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/types/span.h"
#include "attention/attention.h"
#include "base/autograd/parameter.h"
#include "kernels/products/product_choice.h"
#include "model/blocks/activation_store.h"
#include "model/blocks/block_run.h"

namespace moonring::model {

enum class Recompute { kBlock, kSelective, kNone };

// A parameter and the dtype in which the block uses it. A null parameter yields an undefined tensor
// (a missing bias).
struct Loan {
  std::shared_ptr<base::Parameter> parameter;
  at::ScalarType dtype;
};

// The inputs of a block.
struct BlockInputs {
  at::Tensor hidden;
  std::vector<at::Tensor> besides = {};  // further inputs; all are defined
};

// Must return the same number of defined tensors at each call.
using BlockFunction = std::function<std::vector<at::Tensor>(
    absl::Span<const at::Tensor> weights, const BlockInputs& inputs, const BlockRun& run)>;

// The loans of the blocks that run after this one, in the forward and in the backward. If their
// weights are away, they are fetched while this block runs. At most two blocks' weights are present
// at a time; with kNone all are, because the graphs keep them.
struct Neighbours {
  std::vector<Loan> after, before;
};

struct RunnerOptions {
  Recompute recompute = Recompute::kBlock;
  // Memory limit of a tile of rows, in runs whose graph is not kept (block_run.h); 0: no tiles.
  int64_t tile_bytes = int64_t{64} << 20;
  int64_t tile_rows = 0;  // minimum rows of a tile; 0: by device (row_tiles.h)
  // Storage of what is kept for the backward; null: in memory. With kNone the graph always stays in
  // memory.
  std::shared_ptr<ActivationStore> store;
  Neighbours neighbours;
  kernels::ProductChoice products;  // the implementation of matrix products, forward and backward
};

std::vector<at::Tensor> RunBlock(BlockFunction function, std::vector<Loan> loans,
                                 const BlockInputs& inputs, RunnerOptions options);

struct LookUpOptions {
  at::ScalarType lookup_dtype = at::kFloat;  // rows are rounded to it
  at::ScalarType result_dtype = at::kFloat;  // and returned in this dtype
  std::optional<int64_t> pad_id;             // lookups of this id get no gradient
};

// Looks up rows of an embedding, on the embedding's device. ids_T: int64 in [0, V), preferably on
// the host, where the range is checked. The backward adds T rows into the Parameter's gradient, so
// no second [V, D] tensor is created; a tied head's gradient is added to the same tensor.
//
// `pad_id` is torch.nn.Embedding's padding_idx. Transformers sets it to config.json's pad_token_id
// in every family but Nemotron-H (Family::pads_learn), even if that id also occurs in the text (an
// <|im_end|> that ends each turn). Such a row then gets gradients only from the head, as a target.
at::Tensor LookUp(const std::shared_ptr<base::Parameter>& embedding_VD, const at::Tensor& ids_T,
                  const LookUpOptions& options);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_BLOCKS_BLOCK_RUNNER_H_
