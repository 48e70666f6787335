#ifndef MOONRING_MODEL_ADAPTER_H_
#define MOONRING_MODEL_ADAPTER_H_

// An adapter over a frozen model: LoRA, DoRA, PiSSA or OFT. Which of its linear maps it changes and
// how, and the weights that learn. What the numbers mean is projection.h's; how it lies on disk
// adapter_folder.h's.
//
// Names are PEFT's (0.18):
//
//   base_model.model.<module>.lora_A.weight            [R, I]  at first U(-1/sqrt(I), 1/sqrt(I)):
//       kaiming_uniform with a = sqrt(5)
//   base_model.model.<module>.lora_B.weight            [O, R]  at first 0, so that the adapted
//       model is at first the base
//   base_model.model.<module>.lora_magnitude_vector    [O]     DoRA: at first the norms of the rows
//       of W
//   base_model.model.<module>.oft_R.weight             [N, B (B - 1) / 2]  OFT: at first 0, so that
//       nothing turns (block_rotation.h)
//   base_model.model.<name of a weight>                        a weight trained whole: at first a
//       copy, the base keeps its own
//
// The low-rank weights are held in the model's weight dtype (fp32; bf16 under pure_bf16; fp64) and
// lent in the matmul's; OFT's are lent in the wide dtype.
//
// PiSSA (Meng et al. 2024) is LoRA that begins with the R largest singular values of W: W = U S V^T
// gives s B0 A0 = U_R S_R V_R^T, A and B at first A0 and B0, and what stays is W - s B0 A0. The
// base is left as it is here; A0 and B0 are kept beside the adapter, frozen, and the map is that of
// the LoRA adapter of rank 2 R
//
//   W + s [B, -B0] [A; A0]                 the same map, and the base with the adapter off is W
//
// A tied embedding and head part where either is trained whole, as in PEFT: the other stays the
// base's.
//
// Cost, beside full fine-tuning with the same recompute: no dW of a frozen matrix is formed, so of
// the 8 T I O flops of a map's forward, recomputation and backward 6 are left, and 8 T R (I + O)
// come. Measured on SmolLM2-135M's shape, rank 8 on all maps, recompute block, fp32
// (tests/model/transformer_benchmark.cc): 247 MB above the weights at 2048 tokens where full
// fine-tuning takes 637 (540 of them gradients), 91 where it takes 555 at 512; 0.73 of its CPU time
// (DoRA 0.85, at 512 tokens, where the norms weigh most).

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

// OFT's blocks: either their number in each map or their size, the other one 0.
struct RotationOptions {
  int64_t blocks = 0, block_size = 32;
  int64_t terms = 5;  // of the Cayley-Neumann series; 0: exact
};

// How PiSSA finds the largest singular values (principal_part.h).
struct PrincipalOptions {
  int64_t iterations = 16;  // of the randomised decomposition; -1: exact
};

struct AdapterOptions {
  int64_t rank = 8;
  double alpha = 16.0;
  double dropout = 0.0;
  bool rslora = false;  // scale alpha / sqrt(rank), not alpha / rank (Kalajdzievski 2023)
  bool dora = false;
  // Linear maps by the end of their module's name ("q_proj", "self_attn.q_proj",
  // "layers.3.mlp.up_proj"), or "all" alone: every one but the head.
  std::vector<std::string> targets = {"all"};
  // Exactly these of them, where an adapter that was read says so (layers_to_transform,
  // exclude_modules, a pattern); absent: by the targets alone.
  std::optional<std::set<std::string>> modules;
  // By module, where they are not `rank` and `alpha` (rank_pattern, alpha_pattern).
  std::map<std::string, int64_t> ranks;
  std::map<std::string, double> alphas;
  // That a tied head goes on being the embedding where that is trained whole (ensure_weight_tying).
  bool ties_head = false;
  // Modules trained whole, by the end of their name with or without a dot before it, as PEFT's
  // modules_to_save matches: "norm" is every norm. Their maps have no low-rank weights.
  std::vector<std::string> saved;
  std::optional<RotationOptions> rotation;    // OFT: no low-rank weights, what is said of them is
                                              // not used
  std::optional<PrincipalOptions> principal;  // PiSSA

  double scale() const;
  int64_t rank_of(const std::string& module) const;
  double scale_of(const std::string& module) const;
};

// INVALID_ARGUMENT: rank, alpha, dropout or blocks out of range, or what does not go together.
absl::Status Validate(const AdapterOptions& options);

// What an adapter with these options consists of, over a model with this config.
struct AdapterPlan {
  struct Map {
    std::string module;  // model.layers.0.self_attn.q_proj
    int64_t out, in;
    int64_t rank;        // of low-rank weights
    int64_t block_size;  // OFT's; 0: low-rank weights
  };
  std::vector<Map> maps;             // in the order of the forward pass
  std::vector<WeightShape> saved;    // published names and shapes
  std::vector<std::string> targets;  // the options', sorted; "all" written out
};

// INVALID_ARGUMENT: a name that no linear map has (those there are are listed), the embedding or
// the head as a target, nothing to do.
absl::StatusOr<AdapterPlan> PlanAdapter(const ModelConfig& config, const AdapterOptions& options);

// The size of OFT's blocks over a map of `in` features: what the options say, or the nearest that
// divides it, as PEFT takes it.
int64_t BlockSizeOf(const RotationOptions& rotation, int64_t in);

std::string AdapterName(const std::string& module,
                        absl::string_view part);  // part: "lora_A.weight", ...
std::string SavedName(const std::string& weight);

class Adapter {
 public:
  struct MapWeights {
    std::shared_ptr<base::Parameter> a, b;              // null: OFT
    std::shared_ptr<base::Parameter> magnitude;         // null: not DoRA
    std::shared_ptr<base::Parameter> first_a, first_b;  // null: not PiSSA; they do not learn
    std::shared_ptr<base::Parameter> skew;              // null: not OFT
    double scale = 1.0;                                 // of B A
  };

  AdapterOptions options;
  std::map<std::string, MapWeights> maps;                         // by module
  std::map<std::string, std::shared_ptr<base::Parameter>> saved;  // by the weight's published name
  base::Parameters parameters;  // all of these that learn, in the order of the plan
  base::Parameters first;       // PiSSA's first A and B, under A's and B's names, in that order
  std::shared_ptr<const FixedParts> fixed;  // what was read and does not learn here; null: nothing

  const MapWeights* Find(const std::string& module) const;
  std::shared_ptr<base::Parameter> FindSaved(const std::string& weight) const;

  // Whether a tied embedding and head part.
  bool Unties(const ModelConfig& config) const;

  // A new one over `base` (weights under their published names; the embedding alone where tied).
  static absl::StatusOr<std::shared_ptr<Adapter>> Create(const ModelConfig& config,
                                                         AdapterOptions options,
                                                         const base::Parameters& base,
                                                         uint64_t seed,
                                                         at::ScalarType weight_dtype);

  // The same map as a LoRA adapter of twice the rank, without first values: PiSSA's alone. Fails
  // with DoRA, whose magnitude PEFT does not convert.
  absl::StatusOr<std::shared_ptr<Adapter>> Converted(const ModelConfig& config) const;

  // From tensors by PEFT's names; each is taken by `take(name, shape)` once, and those of PiSSA's
  // first values by `take_first`, which is null where there are none.
  using Take = std::function<absl::StatusOr<at::Tensor>(const std::string& name,
                                                        const std::vector<int64_t>& shape)>;
  static absl::StatusOr<std::shared_ptr<Adapter>> Assemble(const ModelConfig& config,
                                                           AdapterOptions options, const Take& take,
                                                           const Take& take_first = nullptr);

  // The base's weight `name` ([O, I] for an adapted map, in fp32 or fp64) with this adapter in it:
  // W + s B A, DoRA's g (W + s B A), PiSSA's, OFT's W R^T, the one trained whole, or as a fixed
  // part has it. Computed in fp64, rounded once. `name` is a weight that this adapter may leave as
  // it is.
  at::Tensor Merged(const std::string& name, const at::Tensor& base) const;
};

}  // namespace moonring::model

#endif  // MOONRING_MODEL_ADAPTER_H_
