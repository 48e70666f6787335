#ifndef MOONRING_MODEL_CONFIG_BLOCK_WEIGHTS_H_
#define MOONRING_MODEL_CONFIG_BLOCK_WEIGHTS_H_

// A list of all weights that a decoder block may have, named by their function. Each model family
// has some of them, under its own names (family.h); transformer_block.h describes how a block uses
// them. Each weight has an index here and a row in the table in block_weights.cc.

namespace moonring::model {

// Index of a weight in a block's list of weights. The weights of single experts follow in that list
// (ExpertWeightPlace).
enum BlockWeight : int {
  kInputNorm,  // norm of the residual stream before the mixer
  kQuery,
  kKey,
  kValue,
  kQueryKeyValue,  // queries, keys and values fused in one map
  kQueryNorm,
  kKeyNorm,
  kOutput,
  // Gated delta rule: queries, keys, values and output gate fused in one map.
  kDeltaQueryKeyValueGate,
  kDeltaQueryKeyValue,  // without the gate
  kDeltaQuery,
  kDeltaKey,
  kDeltaValue,
  kDeltaGate,
  kDeltaBetaDecay,  // update weight and decay fused in one map
  kDeltaBeta,
  kDeltaDecay,
  kDeltaFilter,  // the convolution's taps over queries, keys and values
  kDeltaQueryFilter,
  kDeltaKeyFilter,
  kDeltaValueFilter,
  kDeltaDecayLog,    // A, per head: the decay's rate is exp(A)
  kDeltaDecayShift,  // added to the decay's map, per head or per channel
  kDeltaNorm,        // norm of each head's result
  kDeltaOutput,
  kConvolutionInput,  // short convolution: its input gate, its output gate, and its input
  kConvolutionFilter,
  kConvolutionOutput,
  kQueryDown,  // latent attention: from the stream to the queries' latent
  kQueryDownNorm,
  kQueryUp,       // from the latent to the heads
  kKeyValueDown,  // from the stream to the latent of keys and values, and to the rotary key
  kKeyValueDownNorm,
  kKeyValueUp,
  kAttentionNorm,  // norm of the mixer's output
  kMlpInputNorm,   // norm of the stream before the MLP
  kGate,           // the map that is activated
  kUp,             // multiplied with the activated gate; absent in an MLP without a gate
  kGateUp,         // gate and up fused in one map
  kDown,
  kRouter,      // the router of a mixture of experts
  kSharedGate,  // the shared expert, which processes every token
  kSharedUp,
  kSharedDown,
  kSharedSwitch,      // gate of the shared expert's output, per token
  kDenseNorm,         // norm of a dense MLP's output if a mixture runs in parallel
  kExpertsNorm,       // norm of that mixture's output
  kExpertsInputNorm,  // norm of the stream before the experts
  kRouterScale,       // per feature, scales the normalised stream before the router
  kExpertScale,       // per expert, scales the weights of the chosen experts
  kMlpNorm,           // norm of the MLP's output
  kLayerInputGate,    // from the stream, gates the layer's own input
  kLayerInputMap,
  kLayerInputNorm,  // norm of the layer input's contribution
  kLayerScale,      // scales the block's output
  kQueryBias,
  kKeyBias,
  kValueBias,
  kQueryKeyValueBias,
  kOutputBias,
  kConvolutionInputBias,
  kConvolutionFilterBias,
  kConvolutionOutputBias,
  kQueryDownBias,
  kKeyValueDownBias,
  kGateBias,
  kUpBias,
  kDownBias,
  // All experts stacked in one tensor (ExpertStorage), instead of a matrix per expert.
  kExpertsGateUp,
  kExpertsDown,
  kExpertsGateUpBias,
  kExpertsDownBias,
  kRouterBias,
  kRouterCorrection,  // added to the scores for choosing experts, not to the weights
  kSinks,             // sinks of attention's softmax, one per query head
  kDeltaDecayDown,    // the decay as a low-rank product of two maps
  kDeltaDecayUp,
  kDeltaGateDown,  // the output gate as a low-rank product of two maps
  kDeltaGateUp,
  kStateInput,      // state space: gate, u, B, C and step fused in one map
  kStateFilter,     // the convolution's taps over u, B and C
  kStateDecayLog,   // A, per head: the decay's rate is exp(A)
  kStateStepShift,  // added to the step, per head
  kStateSkip,       // D, per head: factor of the skip connection around the state
  kStateNorm,       // norm of the gated result
  kStateOutput,
  kStateInputBias,
  kStateFilterBias,
  kStateOutputBias,
  kExpertsInput,   // from the stream to the features of a mixture's experts
  kExpertsOutput,  // from the experts' features back to the stream
  kBlockWeights,
};

// The maps of one expert.
enum ExpertWeight : int { kExpertGate, kExpertUp, kExpertDown, kExpertWeights };

inline int ExpertWeightPlace(int expert, ExpertWeight weight) {
  return kBlockWeights + expert * kExpertWeights + weight;
}

// How a weight is named and used.
enum class WeightKind {
  kMap,      // a linear module's matrix, "NAME.weight"; may have an adapter
  kBias,     // a map's bias, "NAME.bias" with the map's name
  kNorm,     // "NAME.weight", used in the wide dtype
  kStack,    // all experts, "NAME", used in the matmul dtype; has no adapters
  kFilter,   // a convolution's taps, "NAME.weight"
  kNumbers,  // another parameter of the block, "NAME", used in the wide dtype
  kBuffer,   // like kNumbers, but never trained: saved in the dtype of its file
};

// The component of a block that a weight belongs to. A layer without the component lacks the
// weight.
enum class BlockPart {
  kEvery,         // every layer
  kMixer,         // a mixer, whatever its kind
  kMlp,           // an MLP, dense or of experts
  kOfMixer,       // the layer's mixer, which says whether it has the weight (Mixer::shape)
  kDense,         // dense MLP
  kMixture,       // mixture of experts
  kSharedExpert,  // shared expert of a mixture
  kLayerInput,    // input from the second embedding
};

struct PlaceFacts {
  WeightKind kind;
  BlockPart part;
  bool feeds_mixer = false;  // true: used before or in the mixer; false: after it
  int map = -1;              // the map that the bias belongs to; -1: not a bias
};

// Returns the properties of a weight. `place` is a BlockWeight, or an ExpertWeightPlace.
const PlaceFacts& FactsOf(int place);

inline bool IsNorm(int place) { return FactsOf(place).kind == WeightKind::kNorm; }
inline bool IsBias(int place) { return FactsOf(place).kind == WeightKind::kBias; }
// Whether the weight is used in fp32 (fp64 for fp64), whatever the matmul dtype is.
inline bool IsWide(int place) {
  const WeightKind kind = FactsOf(place).kind;
  return kind == WeightKind::kNorm || kind == WeightKind::kNumbers || kind == WeightKind::kBuffer;
}

// The map that a bias belongs to.
inline int MapOfBias(int bias) { return FactsOf(bias).map; }

}  // namespace moonring::model

#endif  // MOONRING_MODEL_CONFIG_BLOCK_WEIGHTS_H_
