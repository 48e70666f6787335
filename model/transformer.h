#ifndef MOONRING_MODEL_TRANSFORMER_H_
#define MOONRING_MODEL_TRANSFORMER_H_

// A decoder: embedding, blocks, final norm. It does not know about ranks: the caller passes this
// rank's tokens, their positions and an attention.
//
//   hidden_TD = norm(block_{L-1}(.. block_0(x_0))),   x_0 = scale embedding[ids]
//
// A model may have a second embedding (LayerInputRule: Gemma 3n, Gemma 4), of which each layer
// receives a slice,
//
//   p_l = (norm(Wmap x_0 / sqrt(D)) + sqrt(P) table[ids])[l] / sqrt(2)          [T, P] each
//
// and some blocks may use the keys and values of an earlier block.
//
// The head is not applied here: callers use `head()` to compute log-probs or logits, with the
// config's logit_scale and logit_softcap. Weights are Parameters under their Hugging Face names;
// backward puts their gradients into those Parameters (see block_runner.h), never into an autograd
// graph.
//
//   weight_dtype  matmul_dtype
//   kFloat        kFloat         fp32
//   kFloat        kBFloat16      bf16: true       matrices and biases are cast as they are leased
//   kFloat        kHalf          fp16: true       the same; gradients need a loss scale
//   kBFloat16     kBFloat16      pure_bf16: true
//   kDouble       kDouble        fp64, for tests
//
// Norms and rotary embedding are always in fp32 (fp64 for fp64), and so is the residual stream
// unless stream_dtype states otherwise: with matmuls in bf16 the stream may be bf16 too, in half
// the memory (docs/memory.md has the effect on gradients). A frozen matrix is stored in the matmul
// dtype: it gives the same results as a trainable one with the same weights.
//
// With `packing`, matrices of blocks are stored packed, and each lease unpacks them. The unpacked
// weights of one block exist at a time, or of two while the next block's are gathered. Results are
// those of a model whose weights were rounded to what the code can represent.
//
// An adapted model is another Transformer over the same (frozen) Parameters, plus an adapter's.
// Both may run at any time, the base without the adapter. Only the adapter's Parameters are
// trainable.
//
// Noise is applied only if a forward is given it, and is a function of (seed, step, token, module):
// kernels/random/counter_random.h.
//
//   LoRA's dropout  of each adapted map's input, by the adapter's rate
//   NEFTune         embedding + u, u uniform in +-alpha / sqrt(L D), L the number of tokens of the
//                   token's document (Jain et al. 2023). Transformers' L is the length to which the
//                   batch was padded or packed, so there a document's noise depends on its
//                   neighbours. For one unpadded document both are equal
//
// Memory that a live forward keeps for its backward, in addition to what the objective keeps: (L +
// 1) T D numbers of the stream under Recompute::kBlock; plus L times what attention keeps under
// kSelective; about L T (3 D + 2 I + what attention takes and keeps) under kNone. Backward of a
// block needs about 10 T D more, and the memory of one tile (TransformerOptions::tile_bytes). With
// an activation_store, about three of the L + 1 stay in memory and the others are in the store.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "attention/attention.h"
#include "base/autograd/parameter.h"
#include "base/threads/work_count.h"
#include "comm/bin_exchange.h"
#include "kernels/products/product_choice.h"
#include "mixers/over_ranks/planned_mixing.h"
#include "model/adapter.h"
#include "model/base_packing.h"
#include "model/blocks/activation_store.h"
#include "model/blocks/block_runner.h"
#include "model/blocks/experts.h"
#include "model/blocks/transformer_block.h"
#include "model/checkpoint/checkpoint.h"
#include "model/config/config.h"
#include "model/stream_hooks.h"

namespace moonring::model {

struct Noise {
  uint64_t seed = 0, step = 0;
  // int64: the global index of each token, the same on whichever rank it is (comm/sequence.h).
  at::Tensor identity_T;
  double neftune_alpha = 0.0;  // 0: none
  // int64: the length of each row's document. Required if neftune_alpha is not 0.
  at::Tensor lengths_T;
};

// Options of a forward in addition to tokens and positions.
struct ForwardOptions {
  std::optional<Noise> noise;
  // int64: the length of each row's document. Required if rotary_depends_on_length.
  at::Tensor lengths_T;
  // Of the same rows. Required if a layer's mixer is not attention.
  std::shared_ptr<mixers::PlannedMixing> mixing;
  // Groups of rows over which the routers' statistics are summed; undefined: none are.
  RouterGroups router_groups;
  StreamHooks hooks;  // on the residual stream between modules
  // The matrix products' implementation; absent: the model's.
  std::optional<kernels::ProductChoice> products;
};

struct Hidden {
  at::Tensor hidden_TD;
  // Summed over the layers that have a router. Undefined if the model has none or router_groups is
  // undefined.
  RouterTally tally;
  // One for each of StreamHooks::states, differentiable: gradients flow back through the blocks
  // below.
  std::vector<at::Tensor> states_TD;
};

struct TransformerOptions {
  at::ScalarType weight_dtype = at::kFloat;
  at::ScalarType matmul_dtype = at::kFloat;
  // Of the residual stream; absent: the wide dtype (fp32, or fp64 for fp64).
  std::optional<at::ScalarType> stream_dtype;
  Recompute recompute = Recompute::kBlock;
  // Layers that trade memory for time: the first `whole_layers` keep their graph, the
  // `selective_layers` after them keep attention's result. The values must be equal on all ranks,
  // because recomputing a block repeats its collectives.
  int64_t whole_layers = 0, selective_layers = 0;
  // Memory of a tile of rows in a block's MLP (block_run.h); 0: all rows at once.
  int64_t tile_bytes = int64_t{64} << 20;
  int64_t tile_rows = 0;   // minimum rows of a tile; 0: by device (row_tiles.h)
  int64_t logit_rows = 0;  // not used here: for callers that compute logits
  // Stores blocks' inputs until their backward; null: they stay in memory.
  std::shared_ptr<ActivationStore> activation_store;
  kernels::ProductChoice products;  // the matrix products' implementation
  // The assignment of experts to ranks: Load keeps this rank's shard (expert_parts.h). Null: all
  // experts are local. Ignored for a model without experts.
  std::shared_ptr<const comm::BinExchange> expert_ranks;
  bool frozen = false;
  // Quantised storage of a frozen base's matrices; absent: none is packed.
  std::optional<BasePacking> packing;
  c10::Device device = c10::Device(c10::kCPU);
  // Published names of the trainable weights; absent: all, or none if frozen.
  std::optional<std::set<std::string>> learning;
  // Counts the weights that Load has read; may be null.
  std::shared_ptr<base::WorkCount> work;
  // Called with each parameter after it is read and before the next one is; may move its weight.
  std::function<absl::Status(base::Parameter&)> on_load;
};

class Transformer {
 public:
  // Reads every weight and merges the adapters `merged` into it, in that order: sums in fp64,
  // stored in fp32 (fp64 for fp64) in between and rounded to the final dtype once. Fails as
  // Checkpoint::Load does. If an adapter unties a tied embedding and head, the model is untied.
  static absl::StatusOr<std::unique_ptr<Transformer>> Load(
      std::shared_ptr<Checkpoint> checkpoint, TransformerOptions options,
      const std::vector<std::shared_ptr<const Adapter>>& merged = {});

  // From existing weights, in any order. INVALID_ARGUMENT if one is missing, has another shape,
  // occurs twice or is unknown. `frozen` makes the parameters not trainable; their dtype and device
  // are unchanged.
  static absl::StatusOr<std::unique_ptr<Transformer>> Create(ModelConfig config,
                                                             base::Parameters parameters,
                                                             TransformerOptions options);

  // Adapts `base`. INVALID_ARGUMENT if a weight of `base` is trainable.
  static absl::StatusOr<std::unique_ptr<Transformer>> Adapt(const Transformer& base,
                                                            std::shared_ptr<const Adapter> adapter);

  // ids_T, positions_T: int64 [T_local], T_local >= 0, on any device; positions are used only by
  // the rotary embedding. Returns the stream after the final norm [T_local, D] (or where
  // options.hooks end the forward), differentiable; autograd's graph shares ownership of
  // `attention`. Exceptions of attention and hooks propagate.
  Hidden Forward(const at::Tensor& ids_T, const at::Tensor& positions_T,
                 std::shared_ptr<attention::PlannedAttention> attention,
                 const ForwardOptions& options = {});

  // Applies the final norm to a state [T_local, D] of the stream, differentiable.
  at::Tensor Norm(const at::Tensor& hidden_TD) const;

  // The head's weight, or the embedding if they are tied: [V, D]. The adapter's weight if it trains
  // one.
  std::shared_ptr<base::Parameter> head() const { return head_; }

  // The base's parameters, in the order of a forward pass; a tied weight once, under
  // model.embed_tokens.weight.
  const base::Parameters& parameters() const { return parameters_; }
  // Null without an adapter.
  const std::shared_ptr<const Adapter>& adapter() const { return adapter_; }

  const ModelConfig& config() const { return config_; }
  const TransformerOptions& options() const { return options_; }

 private:
  // A map with an adapter: its index among the block's weights, and its loans.
  struct AdaptedMap {
    int place;
    // Index of the loan of A; B, DoRA's magnitude and PiSSA's initial A and B follow. With OFT, of
    // its skew weights.
    size_t loan;
    bool rotates, dora, has_first;
    double scale;
    std::string module;
  };
  // Data to run one block, made once and shared by its calls.
  struct Block {
    BlockRule rule;
    int rotary = 0;    // index of the rotary table; -1: none
    int keys_of = -1;  // the block whose keys and values it uses; -1: its own
    int places = 0;    // number of the block's own weights
    // The block's weights in the order of block_weights.h, then the adapter's.
    std::vector<Loan> loans;
    std::vector<AdaptedMap> adapted;
  };
  using ParametersByName = absl::flat_hash_map<std::string, std::shared_ptr<base::Parameter>>;

  Transformer(ModelConfig config, base::Parameters parameters, TransformerOptions options,
              std::shared_ptr<const Adapter> adapter);
  void MakeFixed(const ParametersByName& by_name);
  std::shared_ptr<const Block> MakeBlock(int64_t layer, const ParametersByName& by_name) const;
  // If the module has an adapter, appends its loans and the map.
  void AddAdapter(const std::string& module, int place, std::vector<Loan>& loans,
                  std::vector<AdaptedMap>& adapted) const;
  // The adapter's values that a forward needs; they may outlive the model.
  struct AdapterRun {
    double rate;
    int64_t terms;  // of OFT's series
    std::optional<Noise> noise;
  };
  AdapterRun RunOfAdapter(const std::optional<Noise>& noise) const;
  static void PutAdapter(const AdaptedMap& map, absl::Span<const at::Tensor> weights,
                         const AdapterRun& run, Projection& projection);
  std::shared_ptr<base::Parameter> Find(const std::string& name,
                                        const ParametersByName& by_name) const;
  Recompute RecomputeOf(int64_t layer) const;
  at::Tensor Embed(const at::Tensor& ids_T, const std::optional<Noise>& noise) const;
  // Input of each layer from the second embedding; empty if the model has none.
  std::vector<at::Tensor> LayerInputs(const at::Tensor& ids_T, const at::Tensor& hidden_TD,
                                      const AdapterRun& adapter) const;
  // Dtype of the residual stream.
  at::ScalarType Stream() const;
  std::vector<Loan> NormLoans() const;
  RunnerOptions Runner() const;
  at::Tensor RunNorm(const at::Tensor& hidden_TD, RunnerOptions runner) const;

  ModelConfig config_;
  TransformerOptions options_;
  base::Parameters parameters_;
  std::shared_ptr<const Adapter> adapter_;
  ParametersByName fixed_;  // frozen weights after the adapter's fixed parts
  std::shared_ptr<base::Parameter> embedding_, norm_, head_;
  std::shared_ptr<base::Parameter> layer_table_, layer_map_,
      layer_map_norm_;  // null: the model has none
  std::vector<std::shared_ptr<const Block>> blocks_;
};

}  // namespace moonring::model

#endif  // MOONRING_MODEL_TRANSFORMER_H_
