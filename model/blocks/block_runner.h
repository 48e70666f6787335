#ifndef MOONRING_MODEL_BLOCKS_BLOCK_RUNNER_H_
#define MOONRING_MODEL_BLOCKS_BLOCK_RUNNER_H_

// Runs all blocks of a model, forward and backward. A block is a function f of (its weights, hidden
// states). To lease a weight is to borrow its value for use, which may cast it, fetch it from the
// CPU or gather it from other ranks.
//
//   forward    lease the weights, hidden' = f(weights, hidden, options), keep what Recompute
//              requires
//   backward   lease the weights as leaves, recompute f if its graph was not kept,
//              differentiate, pass each weight's gradient to its Parameter, return the gradient of
//              hidden
//
// f may return more than hidden' (for example a router's statistics): all its results are outputs
// of the autograd Function, and all their gradients are used. f may also take further inputs (for
// example another block's keys): they receive gradients too, and stay in memory until the backward.
//
// Hidden states and these further inputs are the autograd Function's only inputs; weights are never
// in the outer graph. Operations on weights (recompute, offload, gathering from other ranks) are
// therefore done here, around a block, and never inside one.
//
// The modes of Recompute: kBlock keeps the block's input ([T, D]) and costs one more forward.
// kSelective also keeps attention's saved tensors (attention/attention.h), so recomputation runs no
// attention and exchanges no keys. kNone keeps the block's graph. All modes run the same
// operations, so outputs are bit-equal. Gradients are bit-equal too if the rows fit in one tile
// (block_run.h); otherwise kNone sums a weight's gradient over all rows at once and the other modes
// sum over tiles. Kept tensors belong to the call, so forwards of several micro-batches and models
// may wait for their backward at the same time. With a `store`, kept tensors are moved there
// (activation_store.h), and come back with the same bits. All ranks recompute f in the same order,
// so f may contain collectives; it is recomputed even if a rank has no rows. Frozen parameters get
// no gradient. If neither hidden nor any parameter requires a gradient, or grad mode is off,
// nothing is kept.
//
// The matrix products accumulate a weight's gradient directly (BlockRun::sums), in the Parameter's
// dtype instead of the dtype that f used, and into the Parameter's existing gradient if there is
// one. On a CPU this is done only if the two dtypes differ; otherwise the product is computed first
// and then added, which gives the bits of plain autograd.
//
// Offloaded or sharded weights (base/autograd/parameter_home.h) are leased in the same order by all
// ranks that share them. In a backward, every trainable weight of a block passes a gradient to its
// Parameter; the gradient is an undefined tensor if f did not use the weight.
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

// A parameter to lease, and the dtype in which the block uses it. Leasing a null parameter (a
// missing bias) gives an undefined tensor.
struct Loan {
  std::shared_ptr<base::Parameter> parameter;
  at::ScalarType dtype;
};

// The inputs of a block.
struct BlockInputs {
  at::Tensor hidden;
  std::vector<at::Tensor> besides = {};  // further inputs; all are defined
};

// A block's function f. It must return the same number of tensors at each call, all of them
// defined.
using BlockFunction = std::function<std::vector<at::Tensor>(
    absl::Span<const at::Tensor> weights, const BlockInputs& inputs, const BlockRun& run)>;

// The weights of the block that runs next in the forward (`after`) and of the one that runs next in
// the backward (`before`). If these weights are offloaded or sharded, they are fetched while this
// block runs. The weights of at most two blocks are present at a time; with Recompute::kNone those
// of all blocks are, because the autograd graphs keep them.
struct Neighbours {
  std::vector<Loan> after, before;
};

struct RunnerOptions {
  Recompute recompute = Recompute::kBlock;
  // Memory limit in bytes of a tile of rows (block_run.h), used when the autograd graph is not
  // kept; 0: no tiles.
  int64_t tile_bytes = int64_t{64} << 20;
  int64_t tile_rows = 0;  // minimum rows of a tile; 0: by device (row_tiles.h)
  // Stores the tensors that are kept for the backward; null: they stay in memory. With
  // Recompute::kNone the graph always stays in memory.
  std::shared_ptr<ActivationStore> store;
  Neighbours neighbours;
  kernels::ProductChoice products;  // the implementation of matrix products, forward and backward
};

std::vector<at::Tensor> RunBlock(BlockFunction function, std::vector<Loan> loans,
                                 const BlockInputs& inputs, RunnerOptions options);

struct LookUpOptions {
  at::ScalarType lookup_dtype = at::kFloat;  // rows are rounded to this dtype
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
