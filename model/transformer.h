#ifndef MOONRING_MODEL_TRANSFORMER_H_
#define MOONRING_MODEL_TRANSFORMER_H_

// A decoder: embedding, blocks, final norm. The caller passes this rank's tokens, their positions,
// and an attention that communicates with the other ranks.
//
//   hidden_TD = norm(block_{L-1}(.. block_0(x_0))),   x_0 = scale embedding[ids]
//
// A model may have a second embedding (LayerInputRule: Gemma 3n, Gemma 4). Layer l receives a slice
// p_l of P features,
//
//   p_l = (norm(Wmap x_0 / sqrt(D)) + sqrt(P) table[ids])[l] / sqrt(2)          [T, P] each
//
// Some blocks may use the keys and values of an earlier block.
//
// The head is not applied here: callers use `head()` to compute log-probs or logits, with the
// config's logit_scale and logit_softcap. Weights are Parameters under their Hugging Face names;
// backward puts their gradients into those Parameters (see block_runner.h), never into an autograd
// graph.
//
//   weight_dtype  matmul_dtype
//   kFloat        kFloat         fp32
//   kFloat        kBFloat16      bf16: true       matrices and biases are cast for each use
//   kFloat        kHalf          fp16: true       the same; gradients need a loss scale
//   kBFloat16     kBFloat16      pure_bf16: true
//   kDouble       kDouble        fp64, for tests
//
// Norms and rotary embedding are always in fp32 (fp64 for fp64), and so is the residual stream
// unless stream_dtype is set: with matmuls in bf16 the stream may be bf16 too, which halves its
// memory (docs/memory.md has the effect on gradients). A frozen matrix is stored in the matmul
// dtype, which gives the same results as casting it for each use.
//
// With `packing`, the matrices of blocks are stored quantised and are dequantised for each use.
// Only one block's dequantised weights exist at a time, or two blocks' while those of the next
// block are gathered. Results are those of a model whose weights were rounded to values that the
// quantisation code can represent.
//
// An adapted model is a second Transformer that shares the base model's (frozen) Parameters and
// adds those of an adapter. Both models may be used at any time; the base model computes as if
// there were no adapter. Only the adapter's Parameters are trainable.
//
// Noise is applied only if ForwardOptions::noise is set, and is a function of (seed, step, token,
// module) (kernels/random/counter_random.h). There are two kinds:
//
//   LoRA's dropout  on the input of each adapted map, with the adapter's rate
//   NEFTune         embedding + u, u uniform in +-alpha / sqrt(L D), L the number of tokens of the
//                   token's document (Jain et al. 2023). Transformers' L is the length to which the
//                   batch was padded or packed, so in Transformers a document's noise depends on
//                   its neighbours. For one unpadded document both are equal
//
// Memory that a forward of L layers and T tokens keeps for its backward, in addition to that of the
// loss, with D features of the stream and I of the MLP: with Recompute::kBlock, (L + 1) T D numbers
// of the residual stream; with kSelective, also attention's saved tensors of L layers; with kNone,
// about L T (3 D + 2 I) numbers and the inputs and saved tensors of attention. The backward of a
// block needs about 10 T D more numbers, and the memory of one tile
// (TransformerOptions::tile_bytes). With an activation_store, about three of the L + 1 states [T,
// D] stay in memory; the others are in the store.

#include <cstdint>
#include <functional>
#include <map>
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
#include "attention/hooks/attention_hooks.h"
#include "attention/hooks/document_keys.h"
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
#include "model/blocks/given_weights.h"
#include "model/blocks/transformer_block.h"
#include "model/checkpoint/checkpoint.h"
#include "model/config/config.h"
#include "model/stream_hooks.h"

namespace moonring::model {

struct Noise {
  uint64_t seed = 0, step = 0;
  // int64: the index of each token in the whole sequence, the same whichever rank has the token
  // (comm/sequence.h).
  at::Tensor identity_T;
  double neftune_alpha = 0.0;  // 0: none
  // int64: the length of each row's document. Required if neftune_alpha is not 0.
  at::Tensor lengths_T;
};

// Hooks inside the attention of one block, and the tensors that they get besides the block's own.
struct InsideBlock {
  std::shared_ptr<const attention::AttentionHooks> hooks;
  attention::NamedTensors given;  // differentiable
};

// Options of a forward in addition to tokens and positions.
struct ForwardOptions {
  std::optional<Noise> noise;
  // int64: the length of each row's document. Required if rotary_depends_on_length.
  at::Tensor lengths_T;
  // Communication of linear attention, state space and convolution layers, for the rows of this
  // forward. Required if the model has such layers.
  std::shared_ptr<mixers::PlannedMixing> mixing;
  // Groups of rows over which the routers' statistics are summed; undefined: none are.
  RouterGroups router_groups;
  StreamHooks hooks;                      // called on the residual stream between modules
  std::map<int64_t, InsideBlock> inside;  // by layer, from 0
  // The keys of the plan's documents. Required with `inside`; null: the plan has none.
  std::shared_ptr<const attention::DocumentKeys> keys;
  // Weights to use in place of the model's own ones, as part of the caller's autograd graph
  // (given_weights.h); the results can then be differentiated any number of times. Null: the
  // model's own weights, with the block runner.
  std::shared_ptr<const GivenWeights> weights;
  // The implementation of matrix products; absent: TransformerOptions::products.
  std::optional<kernels::ProductChoice> products;
};

struct Hidden {
  at::Tensor hidden_TD;
  // Router statistics, summed over the layers that have a router. Undefined tensors if no layer has
  // one or if router_groups is undefined.
  RouterTally tally;
  // The residual stream at each of StreamHooks::states. Differentiable: gradients flow back through
  // the blocks before it.
  std::vector<at::Tensor> states_TD;
};

struct TransformerOptions {
  at::ScalarType weight_dtype = at::kFloat;
  at::ScalarType matmul_dtype = at::kFloat;
  // Dtype of the residual stream; absent: fp32, or fp64 if matmul_dtype is fp64.
  std::optional<at::ScalarType> stream_dtype;
  Recompute recompute = Recompute::kBlock;
  // Numbers of layers that use more memory to recompute less: the first `whole_layers` layers keep
  // their autograd graph, the next `selective_layers` layers keep attention's result. The values
  // must be equal on all ranks, because recomputing a block repeats its collectives.
  int64_t whole_layers = 0, selective_layers = 0;
  // Memory limit in bytes of a tile of rows in a block's MLP (block_run.h); 0: all rows at once.
  int64_t tile_bytes = int64_t{64} << 20;
  int64_t tile_rows = 0;   // minimum rows of a tile; 0: by device (row_tiles.h)
  int64_t logit_rows = 0;  // for callers that compute logits; not used here
  // Stores blocks' inputs until their backward; null: they stay in memory.
  std::shared_ptr<ActivationStore> activation_store;
  kernels::ProductChoice products;  // the implementation of matrix products
  // The assignment of experts to ranks: Load keeps only the experts of this rank (expert_parts.h).
  // Null: this rank has all experts. Ignored for a model without experts.
  std::shared_ptr<const comm::BinExchange> expert_ranks;
  bool frozen = false;
  // How the matrices of a frozen base model are quantised; absent: they are not.
  std::optional<BasePacking> packing;
  c10::Device device = c10::Device(c10::kCPU);
  // Hugging Face names of the trainable weights; absent: all weights are trainable, or none if
  // `frozen`.
  std::optional<std::set<std::string>> learning;
  // Counts the weights that Load has read; may be null.
  std::shared_ptr<base::WorkCount> work;
  // Called with each parameter after it is read and before the next one is read. It may move the
  // parameter's weight, for example to another device or to a shard.
  std::function<absl::Status(base::Parameter&)> on_load;
};

class Transformer {
 public:
  // Reads every weight, and merges the adapters `merged` into the weights, in that order. Each
  // merge is computed in fp64; between merges a weight is in fp32 (fp64 for fp64), and it is
  // rounded to the final dtype once. Fails as Checkpoint::Load does. If an adapter unties a tied
  // embedding and head, the model is untied.
  static absl::StatusOr<std::unique_ptr<Transformer>> Load(
      std::shared_ptr<Checkpoint> checkpoint, TransformerOptions options,
      const std::vector<std::shared_ptr<const Adapter>>& merged = {});

  // Creates a model from existing weights, given in any order. INVALID_ARGUMENT if a weight is
  // missing, has another shape, occurs twice or is unknown. options.frozen makes the parameters not
  // trainable; their dtype and device are unchanged.
  static absl::StatusOr<std::unique_ptr<Transformer>> Create(ModelConfig config,
                                                             base::Parameters parameters,
                                                             TransformerOptions options);

  // Creates a model that applies `adapter` to `base`. INVALID_ARGUMENT if a weight of `base` is
  // trainable.
  static absl::StatusOr<std::unique_ptr<Transformer>> Adapt(const Transformer& base,
                                                            std::shared_ptr<const Adapter> adapter);

  // ids_T, positions_T: int64 [T_local], T_local >= 0, on any device; positions are used only by
  // the rotary embedding. Returns the residual stream after the final norm, or where options.hooks
  // end the forward: [T_local, D], differentiable. The autograd graph shares ownership of
  // `attention`. Exceptions of attention and hooks propagate.
  Hidden Forward(const at::Tensor& ids_T, const at::Tensor& positions_T,
                 std::shared_ptr<attention::PlannedAttention> attention,
                 const ForwardOptions& options = {});

  // Applies the final norm to a state [T_local, D] of the stream, differentiable.
  at::Tensor Norm(const at::Tensor& hidden_TD) const;

  // The weight of the head, [V, D]: the embedding if they are tied, or the adapter's weight if the
  // adapter fully trains the head. head_map() may change it.
  std::shared_ptr<base::Parameter> head() const { return head_; }
  // LoRA on the head: the logits are those of W + scale B A; null: none. Its dropout is that of the
  // adapter, its random key that of head_module().
  const Adapter::MapWeights* head_map() const;
  std::string head_module() const;  // "lm_head"

  // The base model's parameters, in the order of a forward pass, without an adapter's. A tied
  // weight occurs once, under the embedding's name.
  const base::Parameters& parameters() const { return parameters_; }
  // Null without an adapter.
  const std::shared_ptr<const Adapter>& adapter() const { return adapter_; }

  const ModelConfig& config() const { return config_; }
  const TransformerOptions& options() const { return options_; }

 private:
  // A linear map with an adapter. `place` is the map's index among the block's weights.
  struct AdaptedMap {
    int place;
    // Index in Block::loans of A (or of OFT's skew weights). B, DoRA's magnitude and PiSSA's
    // initial A and B follow.
    size_t loan;
    bool rotates, dora, has_first;
    double scale;
    std::string module;
  };
  // The data needed to run one block, created once and shared by all forwards.
  struct Block {
    BlockRule rule;
    int rotary = 0;    // index in ModelConfig::rotaries; -1: none
    int keys_of = -1;  // the block whose keys and values this one uses; -1: its own
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
  // If the module has an adapter, appends the adapter's weights to `loans` and the map to
  // `adapted`.
  void AddAdapter(const std::string& module, int place, std::vector<Loan>& loans,
                  std::vector<AdaptedMap>& adapted) const;
  // Copies of the adapter's options that a forward needs: its autograd graph may outlive the model.
  struct AdapterRun {
    double rate;
    int64_t terms;  // number of terms of OFT's series
    std::optional<Noise> noise;
  };
  AdapterRun RunOfAdapter(const std::optional<Noise>& noise) const;
  static void PutAdapter(const AdaptedMap& map, absl::Span<const at::Tensor> weights,
                         const AdapterRun& run, Projection& projection);
  std::shared_ptr<base::Parameter> Find(const std::string& name,
                                        const ParametersByName& by_name) const;
  Recompute RecomputeOf(int64_t layer) const;
  // `given`: ForwardOptions::weights.
  at::Tensor Embed(const at::Tensor& ids_T, const std::optional<Noise>& noise,
                   const GivenWeights* given) const;
  // The slice of the second embedding for each layer; empty if the model has no second embedding.
  std::vector<at::Tensor> LayerInputs(const at::Tensor& ids_T, const at::Tensor& hidden_TD,
                                      const AdapterRun& adapter, const GivenWeights* given) const;
  // Dtype of the residual stream.
  at::ScalarType Stream() const;
  std::vector<Loan> NormLoans() const;
  RunnerOptions Runner() const;
  // Throws a c10::ValueError for a layer that has no attention or does not run.
  void CheckInside(const ForwardOptions& options, int64_t blocks) const;
  // Throws a c10::ValueError for weights that the model does not have.
  void CheckWeights(const ForwardOptions& options) const;
  at::Tensor RunNorm(const at::Tensor& hidden_TD, RunnerOptions runner,
                     const GivenWeights* given = nullptr) const;

  ModelConfig config_;
  TransformerOptions options_;
  base::Parameters parameters_;
  std::shared_ptr<const Adapter> adapter_;
  ParametersByName fixed_;  // frozen weights as changed by FixedParts
  std::shared_ptr<base::Parameter> embedding_, norm_, head_;
  std::shared_ptr<base::Parameter> layer_table_, layer_map_,
      layer_map_norm_;  // of the second embedding; null: none
  std::vector<std::shared_ptr<const Block>> blocks_;
};

}  // namespace moonring::model

#endif  // MOONRING_MODEL_TRANSFORMER_H_
