#ifndef MOONRING_MODEL_ADAPTER_H_
#define MOONRING_MODEL_ADAPTER_H_

// An adapter over a frozen model: LoRA, DoRA, PiSSA or OFT. It says which linear maps of the model
// are changed and how, and owns the trainable weights. projection.h has the equations;
// adapter_folder.h has the files on disk.
//
// Names are PEFT's (0.18). For a map W [O, I], R is the rank; OFT has N blocks of B features:
//
//   base_model.model.<module>.lora_A.weight            [R, I]  initially
//       U(-1/sqrt(I), 1/sqrt(I)): kaiming_uniform with a = sqrt(5)
//   base_model.model.<module>.lora_B.weight            [O, R]  initially 0, so that the
//       adapted model starts equal to the base
//   base_model.model.<module>.lora_magnitude_vector    [O]     DoRA: initially the norms of
//       the rows of W
//   base_model.model.<module>.oft_R.weight             [N, B (B - 1) / 2]  OFT: initially 0,
//       which is the identity rotation (block_rotation.h)
//   base_model.model.<name of a weight>                        a fully trained weight: starts as a
//       copy; the base keeps its own
//
// The low-rank weights are stored in the model's weight dtype (fp32; bf16 under pure_bf16; fp64)
// and cast to the matmul dtype for use. OFT's weights are used in fp32 (fp64 in an fp64 model).
//
// PiSSA (Meng et al. 2024) is LoRA initialised with the R largest singular values of W. With W = U
// S V^T and s B0 A0 = U_R S_R V_R^T, A and B start as A0 and B0, and the residual base is W - s B0
// A0. This implementation leaves the base W unchanged. It stores A0 and B0, frozen, with the
// adapter and computes the equivalent LoRA map of rank 2 R:
//
//   W + s [B, -B0] [A; A0]                 with the adapter off, the base is exactly W
//
// The head, tied to the embedding or not, may have plain LoRA, if a target names it: the head's
// logits gain s B (A h) (objectives/vocabulary/head_low_rank.h; next_logits.h), and a tied
// embedding stays as it is. Merging such an adapter unties the head, in which W + s B A is stored.
// (PEFT 0.18 merges it into the tied weight, and so changes the embedding too.)
//
// If an adapter fully trains the embedding or the head of a model that ties them, they are untied,
// as in PEFT: the trained one gets its own weight, and the other one keeps the base's.
//
// Cost compared with full fine-tuning with the same activation recomputation, for T tokens and an
// [O, I] matrix: dW of a frozen matrix is not computed, so the 8 T I O flops of forward,
// recomputation and backward fall to 6 T I O, plus 8 T R (I + O) for the adapter. Measured on
// SmolLM2-135M's shape in fp32, with rank 8 on all linear maps and every block recomputed
// (tests/model/transformer_benchmark.cc): 247 MB above the weights at 2048 tokens, where full
// fine-tuning takes 637 MB (540 of them gradients); 91 MB at 512 tokens, where full fine-tuning
// takes 555 MB. LoRA takes 0.73 of the CPU time of full fine-tuning; DoRA takes 0.85 at 512 tokens,
// where its norms cost relatively most.

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

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/autograd/parameter.h"
#include "model/config/config.h"
#include "model/files/weight_shape.h"
#include "model/fixed_parts.h"

namespace moonring::model {

// The block-diagonal rotation of OFT. Set either the number of blocks per linear map or the block
// size, and leave the other one 0.
struct RotationOptions {
  int64_t blocks = 0, block_size = 32;
  int64_t terms = 5;  // number of terms of the Cayley-Neumann series; 0: exact
};

// How PiSSA computes the largest singular values (principal_part.h).
struct PrincipalOptions {
  int64_t iterations = 16;  // power iterations of the randomised SVD; -1: exact SVD
};

struct AdapterOptions {
  int64_t rank = 8;
  double alpha = 16.0;
  double dropout = 0.0;
  bool rslora = false;  // scale alpha / sqrt(rank), not alpha / rank (Kalajdzievski 2023)
  bool dora = false;
  // The linear maps to adapt, by the end of their module's name ("q_proj", "self_attn.q_proj",
  // "layers.3.mlp.up_proj"), or only "all": every linear map except the head. The head is adapted
  // only if it is named ("lm_head").
  std::vector<std::string> targets = {"all"};
  // The exact set of adapted modules, if an adapter that was read restricts it
  // (layers_to_transform, exclude_modules, a pattern). Absent: `targets` alone decides.
  std::optional<std::set<std::string>> modules;
  // Per-module overrides of `rank` and `alpha`: PEFT's rank_pattern and alpha_pattern.
  std::map<std::string, int64_t> ranks;
  std::map<std::string, double> alphas;
  // PEFT's ensure_weight_tying: a tied head keeps using the embedding when the embedding is fully
  // trained.
  bool ties_head = false;
  // Modules that are fully trained, by the end of their name with or without a dot before it, as
  // PEFT's modules_to_save matches: "norm" matches every norm. Linear maps in them get no low-rank
  // weights.
  std::vector<std::string> saved;
  // If set, the adapter is OFT: it has no low-rank weights, and the options for them are ignored.
  std::optional<RotationOptions> rotation;
  std::optional<PrincipalOptions> principal;  // PiSSA

  double scale() const;
  int64_t rank_of(const std::string& module) const;
  double scale_of(const std::string& module) const;
};

// Returns INVALID_ARGUMENT if rank, alpha, dropout or OFT's blocks are out of range, or if two
// options exclude each other.
absl::Status Validate(const AdapterOptions& options);

// The linear maps that an adapter changes, and the weights that it trains fully.
struct AdapterPlan {
  struct Map {
    std::string module;  // model.layers.0.self_attn.q_proj
    int64_t out, in;
    int64_t rank;        // of the low-rank weights
    int64_t block_size;  // of OFT; 0: the map has low-rank weights
  };
  std::vector<Map> maps;             // in the order of the forward pass
  std::vector<WeightShape> saved;    // the fully trained weights: published names and shapes
  std::vector<std::string> targets;  // the options' targets, sorted; "all" is expanded to names
};

// Returns INVALID_ARGUMENT if a target matches no linear map (the message lists the known names),
// if a target is the embedding, or the head with options that it does not take (DoRA, PiSSA, OFT,
// ties_head), or if nothing would be trained.
absl::StatusOr<AdapterPlan> PlanAdapter(const ModelConfig& config, const AdapterOptions& options);

// The size of OFT's blocks for a linear map with `in` input features. If the number or size of
// blocks in the options does not divide `in`, uses the nearest one that does, as PEFT does.
int64_t BlockSizeOf(const RotationOptions& rotation, int64_t in);

std::string AdapterName(const std::string& module,
                        absl::string_view part);  // part: "lora_A.weight", ...
std::string SavedName(const std::string& weight);

class Adapter {
 public:
  struct MapWeights {
    std::shared_ptr<base::Parameter> a, b;              // null with OFT
    std::shared_ptr<base::Parameter> magnitude;         // null without DoRA
    std::shared_ptr<base::Parameter> first_a, first_b;  // null without PiSSA; frozen
    std::shared_ptr<base::Parameter> skew;              // null without OFT
    double scale = 1.0;                                 // of B A
  };

  AdapterOptions options;
  std::map<std::string, MapWeights> maps;                         // by module
  std::map<std::string, std::shared_ptr<base::Parameter>> saved;  // by the weight's published name
  base::Parameters parameters;  // all trainable weights of the adapter, in AdapterPlan's order
  base::Parameters first;       // PiSSA's initial A and B, named as A and B, in AdapterPlan's order
  std::shared_ptr<const FixedParts> fixed;  // frozen changes read from the folder; null: none

  const MapWeights* Find(const std::string& module) const;
  std::shared_ptr<base::Parameter> FindSaved(const std::string& weight) const;

  // Whether the adapter unties a tied embedding and head.
  bool Unties(const ModelConfig& config) const;

  // Creates a new adapter with initial weights. `base` has the model's weights under their Hugging
  // Face names; a head that is tied to the embedding is not among them.
  static absl::StatusOr<std::shared_ptr<Adapter>> Create(const ModelConfig& config,
                                                         AdapterOptions options,
                                                         const base::Parameters& base,
                                                         uint64_t seed,
                                                         at::ScalarType weight_dtype);

  // Converts a PiSSA adapter to a plain LoRA adapter of twice the rank that computes the same
  // function; the result has no initial A and B. Fails for PiSSA with DoRA, because PEFT does not
  // convert the magnitude.
  absl::StatusOr<std::shared_ptr<Adapter>> Converted(const ModelConfig& config) const;

  // Builds an adapter from tensors. `take(name, shape)` returns the tensor of a PEFT name and is
  // called once per tensor; `take_first` does the same for the initial A and B of PiSSA, and is
  // null for other adapters.
  using Take = std::function<absl::StatusOr<at::Tensor>(const std::string& name,
                                                        const std::vector<int64_t>& shape)>;
  static absl::StatusOr<std::shared_ptr<Adapter>> Assemble(const ModelConfig& config,
                                                           AdapterOptions options, const Take& take,
                                                           const Take& take_first = nullptr);

  // Merges this adapter into `base`, the model's weight of that name ([O, I] for an adapted map, in
  // fp32 or fp64). With W = base, s the scale, g DoRA's gain per row and R OFT's rotation, returns
  // W + s B A for LoRA, g (W + s B A) for DoRA, W + s (B A - B0 A0) for PiSSA, W R^T for OFT, the
  // adapter's own weight if it is fully trained, or W with the frozen changes of fixed_parts.h. The
  // result is computed in fp64 and rounded once. A weight that the adapter does not change is
  // returned unchanged.
  at::Tensor Merged(const std::string& name, const at::Tensor& base) const;
};

}  // namespace moonring::model

#endif  // MOONRING_MODEL_ADAPTER_H_
