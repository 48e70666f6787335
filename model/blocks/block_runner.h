#ifndef MOONRING_MODEL_BLOCKS_BLOCK_RUNNER_H_
#define MOONRING_MODEL_BLOCKS_BLOCK_RUNNER_H_

// The one place where a block runs, forward and backward. A block is a function of (its weights,
// hidden states).
//
//   forward    lease the weights, hidden' = f(weights, hidden, how), keep what the mode says
//   backward   lease the weights as leaves, run f again where nothing was kept, differentiate,
//              hand each weight's gradient to its Parameter, return the gradient of hidden
//
// f may give more than hidden' (a router's tally, say): its results are the Function's outputs, and
// the gradients of all of them come back. It may take more than hidden (keys that another block
// made, say): those have gradients too, and stay in memory for the backward.
//
// It is an autograd Function of its inputs alone: weights are never in the outer graph, so what is
// done with them (recompute, offload, gathering them from other ranks) is done here, around a
// block, and never inside one.
//
// kBlock keeps the block's input ([T, D]) and costs one more forward. kSelective keeps what
// attention leaves for a later run besides (attention/attention.h), so that this one computes no
// attention and moves no keys. kNone keeps the block's graph. The same operations run in all, so
// outputs are bit-equal; and gradients, where the rows are one tile (block_run.h): elsewhere kNone
// sums a weight's gradient over all rows at once and the others over tiles. What is kept belongs to
// the call: any number of forwards may be live, of any micro-batches and models. With a `store` it
// waits there instead of in memory (activation_store.h): the same bits come back. f runs again in
// backward in the same order on all ranks, so it may hold collectives, and runs where a rank has no
// rows. Frozen parameters get no gradient; where neither hidden nor any parameter takes one, or
// grad mode is off, nothing is kept.
//
// A weight's gradient is added up in the Parameter's dtype by the products it is made of, not in
// the dtype that f saw it in (BlockRun::sums), and where the Parameter has a gradient here already,
// in that very one. On a CPU only where the two dtypes differ: elsewhere gradients keep the bits of
// a product that is added when it is whole.
//
// Weights that are away (base/autograd/parameter_home.h) are leased in this order by all ranks that
// share them, and every trainable weight of a block that runs backward hands over a gradient there,
// an undefined one where it got none.
//
// f must be pure and outlive the backward (with what it refers to). Its exceptions come through as
// thrown. A second backward through one forward works where the first retained the graph;
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

// A parameter and the dtype in which the block sees it. A null parameter lends an undefined tensor
// (a bias that is not there).
struct Loan {
  std::shared_ptr<base::Parameter> parameter;
  at::ScalarType dtype;
};

// What goes through a block.
struct BlockInputs {
  at::Tensor hidden;
  std::vector<at::Tensor> besides = {};  // defined
};

// The same number of defined tensors at each call.
using BlockFunction = std::function<std::vector<at::Tensor>(
    absl::Span<const at::Tensor> weights, const BlockInputs& inputs, const BlockRun& run)>;

// The loans of the blocks that run after this one, forward and backward: where they are away, their
// weights are fetched while this one runs. Of the block itself at most two blocks' weights are here
// at a time; with kNone all are, as the graphs keep them.
struct Neighbours {
  std::vector<Loan> after, before;
};

struct RunnerOptions {
  Recompute recompute = Recompute::kBlock;
  int64_t tile_bytes = int64_t{64} << 20;  // what a tile of rows may take, in runs whose graph does
                                           // not stay (block_run.h); 0: no tiles
  int64_t tile_rows = 0;                   // the fewest rows of one; 0: by device (row_tiles.h)
  std::shared_ptr<ActivationStore> store;  // where what is kept waits; null: in memory. A graph
                                           // that stays (kNone) stays in memory
  Neighbours neighbours;
  kernels::ProductChoice products;  // of what runs here, forward and backward
};

std::vector<at::Tensor> RunBlock(BlockFunction function, std::vector<Loan> loans,
                                 const BlockInputs& inputs, RunnerOptions options);

struct LookUpOptions {
  at::ScalarType lookup_dtype = at::kFloat;  // rows are rounded to it
  at::ScalarType result_dtype = at::kFloat;  // and given in this
  std::optional<int64_t> pad_id;             // its lookups take no gradient
};

// Rows of an embedding, on its device: ids_T int64 in [0, V), best on the host, where they are
// checked. The backward adds T rows into the Parameter's gradient, so no second [V, D] is made, and
// a tied head's gradient meets it there.
//
// `pad_id` is torch.nn.Embedding's padding_idx. Transformers sets it to config.json's pad_token_id
// in every family but Nemotron-H (Family::pads_learn), also where that id is a token of the text
// (an <|im_end|> that ends each turn): what it learns there it learns as a target alone.
at::Tensor LookUp(const std::shared_ptr<base::Parameter>& embedding_VD, const at::Tensor& ids_T,
                  const LookUpOptions& options);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_BLOCKS_BLOCK_RUNNER_H_
