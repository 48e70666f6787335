#ifndef MOONRING_MODEL_TRANSFORMER_H_
#define MOONRING_MODEL_TRANSFORMER_H_

// A decoder: embedding, blocks, final norm. It knows no rank: it is handed this rank's tokens,
// their positions and an attention.
//
//   hidden_TD = norm(block_{L-1}(.. block_0(x_0))),   x_0 = scale embedding[ids]
//
// A model may have a second embedding (LayerInputRule: Gemma 3n, Gemma 4), of which each layer gets
// a part,
//
//   p_l = (norm(Wmap x_0 / sqrt(D)) + sqrt(P) table[ids])[l] / sqrt(2)          [T, P] each
//
// and some blocks may take the keys and values of an earlier one.
//
// The head is not applied here: `head()` is lent to whoever makes log-probs or logits of it, with
// the config's logit_scale and logit_softcap. Weights are Parameters under their Hugging Face
// names; backward puts their gradients into those Parameters (see block_runner.h), never into an
// autograd graph.
//
//   weight_dtype  matmul_dtype
//   kFloat        kFloat         fp32
//   kFloat        kBFloat16      bf16: true       matrices and biases are cast as they are leased
//   kFloat        kHalf          fp16: true       the same; gradients want a loss scale
//   kBFloat16     kBFloat16      pure_bf16: true
//   kDouble       kDouble        fp64, for tests
//
// Norms and rotary embedding are in fp32 (fp64 for fp64) in all of them, and so is the residual
// stream, if stream_dtype does not say otherwise: with matmuls in bf16 it may be kept in bf16 too,
// in half the memory (docs/memory.md has what that does to gradients). A frozen matrix is held in
// the matmul dtype: the numbers that it computes with are those of a trainable one with the same
// weights.
//
// With `packing` matrices of blocks lie packed and each lease unpacks them: one block's, or two
// where the next one's are gathered, are there unpacked at a time. The numbers are those of a model
// whose weights were replaced by what the code gives.
//
// An adapted model is another Transformer over the same (frozen) Parameters, with an adapter's
// beside them: both may run at any time, the base without the adapter, and the adapter's Parameters
// alone learn.
//
// Noise acts only where a forward is given it, and is a function of (seed, step, token, module):
// kernels/random/counter_random.h.
//
//   LoRA's dropout  of each adapted map's input, by the adapter's rate
//   NEFTune         embedding + u, u uniform in +-alpha / sqrt(L D), L the tokens of the token's
//                   own document (Jain et al. 2023). Transformers' L is the length to which the
//                   batch was padded or packed, so there a document's noise depends on its
//                   neighbours; alone and unpadded it is the same
//
// Memory that a live forward keeps for its backward, beside what the objective keeps: (L + 1) T D
// numbers of the stream under Recompute::kBlock; besides L times what attention keeps under
// kSelective; about L T (3 D + 2 I + what attention takes and keeps) under kNone. Backward of a
// block takes about 10 T D besides, and a tile's work (TransformerOptions::tile_bytes). With an
// activation_store what is kept is elsewhere, but for about three of the L + 1.

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
#include "mixers/planned_mixing.h"
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
  at::Tensor identity_T;  // int64: what the tokens are called wherever they lie (comm/sequence.h)
  double neftune_alpha = 0.0;  // 0: none
  at::Tensor
      lengths_T;  // int64: the tokens of each row's document; wanted where neftune_alpha is not 0
};

// What a forward may be told besides tokens and positions.
struct ForwardOptions {
  std::optional<Noise> noise;
  at::Tensor
      lengths_T;  // int64: the tokens of each row's document; wanted where rotary_depends_on_length
  std::shared_ptr<mixers::PlannedMixing>
      mixing;                  // of the same rows; wanted where a layer's mixer is not attention
  RouterGroups router_groups;  // whose routers' sums are wanted; undefined: nobody's
  StreamHooks hooks;           // of the stream between modules
  std::optional<kernels::ProductChoice>
      products;  // what makes its products; absent: as the model's
};

struct Hidden {
  at::Tensor hidden_TD;
  RouterTally tally;  // summed over the layers that have a router; undefined where there is none or
                      // nobody asked
  std::vector<at::Tensor> states_TD;  // one for each of StreamHooks::states, differentiable: what a
                                      // loss makes of them flows back through the blocks below
};

struct TransformerOptions {
  at::ScalarType weight_dtype = at::kFloat;
  at::ScalarType matmul_dtype = at::kFloat;
  std::optional<at::ScalarType> stream_dtype;  // of the residual stream; absent: the wide one
  Recompute recompute = Recompute::kBlock;
  // Layers that spend memory on time instead: the first `whole_layers` keep their graph, the
  // `selective_layers` after them attention's result. The same on all ranks: where a block runs
  // again its collectives do.
  int64_t whole_layers = 0, selective_layers = 0;
  int64_t tile_bytes =
      int64_t{64}
      << 20;  // what a tile of rows may take in a block's MLP (block_run.h); 0: all rows at once
  int64_t tile_rows = 0;   // the fewest rows of one; 0: by device (row_tiles.h)
  int64_t logit_rows = 0;  // not used here: for who makes logits of a forward's result
  std::shared_ptr<ActivationStore>
      activation_store;             // where blocks' inputs wait for their backward; null: in memory
  kernels::ProductChoice products;  // what makes its products
  std::shared_ptr<const comm::BinExchange>
      expert_ranks;  // who has which experts: Load keeps this rank's (expert_parts.h); null: all
                     // are here. Of a model without experts nothing
  bool frozen = false;
  std::optional<BasePacking> packing;  // of a frozen base's matrices; absent: none is packed
  c10::Device device = c10::Device(c10::kCPU);
  std::optional<std::set<std::string>>
      learning;  // published names of the weights that learn; absent: all, or none where frozen
  std::shared_ptr<base::WorkCount> work;  // counts the weights that Load has read; may be null
  std::function<absl::Status(base::Parameter&)>
      on_load;  // sees each parameter as it is read, before the next one is; may move its weight
};

class Transformer {
 public:
  // Reads every weight, with `merged` in them in that order: sums in fp64, kept in fp32 (fp64 for
  // fp64) in between and rounded to the stored dtype once. Fails as Checkpoint::Load does. Where an
  // adapter parts a tied embedding and head the model is an untied one.
  static absl::StatusOr<std::unique_ptr<Transformer>> Load(
      std::shared_ptr<Checkpoint> checkpoint, TransformerOptions options,
      const std::vector<std::shared_ptr<const Adapter>>& merged = {});

  // From weights at hand, in any order. INVALID_ARGUMENT where one is missing, misshapen, given
  // twice or unknown. `frozen` makes the parameters not trainable; their dtype and device are left
  // as they are.
  static absl::StatusOr<std::unique_ptr<Transformer>> Create(ModelConfig config,
                                                             base::Parameters parameters,
                                                             TransformerOptions options);

  // Over `base`, no weight of which may learn (INVALID_ARGUMENT).
  static absl::StatusOr<std::unique_ptr<Transformer>> Adapt(const Transformer& base,
                                                            std::shared_ptr<const Adapter> adapter);

  // ids_T, positions_T int64 [T_local], T_local >= 0, on any device; positions serve the rotary
  // embedding alone. Returns the stream after the final norm [T_local, D] (or where options.hooks
  // end the forward), differentiable; autograd's graph shares `attention`. Throws what attention
  // and hooks throw.
  Hidden Forward(const at::Tensor& ids_T, const at::Tensor& positions_T,
                 std::shared_ptr<attention::PlannedAttention> attention,
                 const ForwardOptions& options = {});

  // The final norm of any state [T_local, D] of the stream, differentiable.
  at::Tensor Norm(const at::Tensor& hidden_TD) const;

  // The head's weight, or the embedding where they are tied: [V, D]. The adapter's own where it
  // trains one.
  std::shared_ptr<base::Parameter> head() const { return head_; }

  // The base's, in the order of a forward pass; a tied weight once, under
  // model.embed_tokens.weight.
  const base::Parameters& parameters() const { return parameters_; }
  // Null where there is none.
  const std::shared_ptr<const Adapter>& adapter() const { return adapter_; }

  const ModelConfig& config() const { return config_; }
  const TransformerOptions& options() const { return options_; }

 private:
  // A map with an adapter on it: where it is among the weights of a run.
  struct AdaptedMap {
    int place;
    size_t loan;  // of A; B, DoRA's magnitude and PiSSA's first A and B follow. Or of OFT's numbers
    bool rotates, dora, has_first;
    double scale;
    std::string module;
  };
  // What runs one block, made once and shared by its calls.
  struct Block {
    BlockRule rule;
    int rotary = 0;    // which; -1: none
    int keys_of = -1;  // the block whose keys and values it takes
    int places = 0;    // of its own weights
    std::vector<Loan>
        loans;  // the block's weights at their places (block_weights.h), then the adapter's
    std::vector<AdaptedMap> adapted;
  };
  using ParametersByName = absl::flat_hash_map<std::string, std::shared_ptr<base::Parameter>>;

  Transformer(ModelConfig config, base::Parameters parameters, TransformerOptions options,
              std::shared_ptr<const Adapter> adapter);
  void MakeFixed(const ParametersByName& by_name);
  std::shared_ptr<const Block> MakeBlock(int64_t layer, const ParametersByName& by_name) const;
  // Where the module has an adapter: its loans, and the map.
  void AddAdapter(const std::string& module, int place, std::vector<Loan>& loans,
                  std::vector<AdaptedMap>& adapted) const;
  // What a forward knows of the adapter, which may outlive the model.
  struct AdapterRun {
    double rate;
    int64_t terms;  // OFT's
    std::optional<Noise> noise;
  };
  AdapterRun RunOfAdapter(const std::optional<Noise>& noise) const;
  static void PutAdapter(const AdaptedMap& map, absl::Span<const at::Tensor> weights,
                         const AdapterRun& run, Projection& projection);
  std::shared_ptr<base::Parameter> Find(const std::string& name,
                                        const ParametersByName& by_name) const;
  Recompute RecomputeOf(int64_t layer) const;
  at::Tensor Embed(const at::Tensor& ids_T, const std::optional<Noise>& noise) const;
  // Each layer's own input; none where the model has none.
  std::vector<at::Tensor> LayerInputs(const at::Tensor& ids_T, const at::Tensor& hidden_TD,
                                      const AdapterRun& adapter) const;
  // Of the residual stream.
  at::ScalarType Stream() const;
  std::vector<Loan> NormLoans() const;
  RunnerOptions Runner() const;
  at::Tensor RunNorm(const at::Tensor& hidden_TD, RunnerOptions runner) const;

  ModelConfig config_;
  TransformerOptions options_;
  base::Parameters parameters_;
  std::shared_ptr<const Adapter> adapter_;
  ParametersByName fixed_;  // weights as the adapter's fixed parts have them; they do not learn
  std::shared_ptr<base::Parameter> embedding_, norm_, head_;
  std::shared_ptr<base::Parameter> layer_table_, layer_map_, layer_map_norm_;  // null: none
  std::vector<std::shared_ptr<const Block>> blocks_;
};

}  // namespace moonring::model

#endif  // MOONRING_MODEL_TRANSFORMER_H_
