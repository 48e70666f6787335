#ifndef MOONRING_MODEL_CONFIG_BLOCK_WEIGHTS_H_
#define MOONRING_MODEL_CONFIG_BLOCK_WEIGHTS_H_

// The weights that a decoder block of any family may have, by what they do. A family has some of
// them, under names of its own (family.h); what a block does with them is transformer_block.h's.
// Each is a place here and a row of the table in block_weights.cc.

namespace moonring::model {

// The places of a block's weights in a list of them. Those of the experts follow
// (ExpertWeightPlace).
enum BlockWeight : int {
  kInputNorm,  // of the stream, before the mixer
  kQuery,
  kKey,
  kValue,
  kQueryKeyValue,  // the three as one map
  kQueryNorm,
  kKeyNorm,
  kOutput,
  kDeltaQueryKeyValueGate,  // of a gated delta rule: what is mixed and the gate after it, as one
                            // map
  kDeltaQueryKeyValue,      // what is mixed alone
  kDeltaQuery,
  kDeltaKey,
  kDeltaValue,
  kDeltaGate,
  kDeltaBetaDecay,  // the update's weight and the decay as one map
  kDeltaBeta,
  kDeltaDecay,
  kDeltaFilter,  // the convolution's taps over queries, keys and values
  kDeltaQueryFilter,
  kDeltaKeyFilter,
  kDeltaValueFilter,
  kDeltaDecayLog,    // A, by head: the decay's rate is exp(A)
  kDeltaDecayShift,  // of the decay's map, by head or by channel
  kDeltaNorm,        // of each head's result
  kDeltaOutput,
  kConvolutionInput,  // of a short convolution: its gate before, its gate after, what is mixed
  kConvolutionFilter,
  kConvolutionOutput,
  kQueryDown,  // of latent attention: the stream to the queries' latent
  kQueryDownNorm,
  kQueryUp,       // and that to the heads
  kKeyValueDown,  // the stream to the latent of keys and values, and to the key that turns
  kKeyValueDownNorm,
  kKeyValueUp,
  kAttentionNorm,  // of what the mixer adds to the stream
  kMlpInputNorm,   // of the stream, before the MLP
  kGate,           // what is activated
  kUp,             // what that is multiplied by; an MLP without a gate has none
  kGateUp,         // the two as one map
  kDown,
  kRouter,      // of a mixture of experts
  kSharedGate,  // of the expert that sees every token
  kSharedUp,
  kSharedDown,
  kSharedSwitch,      // how much of it a token gets
  kDenseNorm,         // of a dense MLP's result, where a mixture stands beside it
  kExpertsNorm,       // of the mixture's
  kExpertsInputNorm,  // of the stream, before the experts
  kRouterScale,       // by feature, of the normed stream before the router
  kExpertScale,       // by expert, of the weights of those chosen
  kMlpNorm,           // of what the MLP adds to the stream
  kLayerInputGate,    // of the stream, by which the layer's own input is weighed
  kLayerInputMap,
  kLayerInputNorm,  // of what that adds to the stream
  kLayerScale,      // of the stream that the block gives
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
  kExpertsGateUp,  // of all experts in one tensor (ExpertStorage), in place of each one's own
  kExpertsDown,
  kExpertsGateUpBias,
  kExpertsDownBias,
  kRouterBias,
  kRouterCorrection,  // added to the scores that choose, and to no weight
  kSinks,             // of attention's softmax, one a query head
  kDeltaDecayDown,    // the decay by two maps, through few features
  kDeltaDecayUp,
  kDeltaGateDown,  // and the gate
  kDeltaGateUp,
  kStateInput,      // of a state space: gate, what is mixed, B, C and the step as one map
  kStateFilter,     // the convolution's taps over what is mixed, B and C
  kStateDecayLog,   // A, by head: the decay's rate is exp(A)
  kStateStepShift,  // of the step, by head
  kStateSkip,       // how much of what is mixed goes by the state, by head
  kStateNorm,       // of the gated result
  kStateOutput,
  kStateInputBias,
  kStateFilterBias,
  kStateOutputBias,
  kExpertsInput,   // the stream to the features that a mixture's experts see
  kExpertsOutput,  // and back
  kBlockWeights,
};

// The maps of one expert.
enum ExpertWeight : int { kExpertGate, kExpertUp, kExpertDown, kExpertWeights };

inline int ExpertWeightPlace(int expert, ExpertWeight weight) {
  return kBlockWeights + expert * kExpertWeights + weight;
}

// How a weight is called and used.
enum class WeightKind {
  kMap,      // a linear module's matrix, "NAME.weight"; adapters go on these
  kBias,     // of a map, "NAME.bias" by the map's name
  kNorm,     // "NAME.weight", used in the wide dtype
  kStack,    // of all experts, "NAME", used in the matmul dtype; no module, so none to adapt
  kFilter,   // a convolution's taps, "NAME.weight"
  kNumbers,  // a parameter of the block's own, "NAME", used in the wide dtype
  kBuffer,   // as kNumbers, but it never learns: saved in the dtype of its file
};

// What of a block has it. A layer without that part has no such weight.
enum class BlockPart {
  kEvery,         // layer has it
  kMixer,         // of any kind
  kMlp,           // dense or of experts
  kSoftmax,       // attention
  kDelta,         // rule
  kConvolution,   // as the mixer
  kStateSpace,    // as the mixer
  kDense,         // MLP
  kMixture,       // of experts
  kSharedExpert,  // of a mixture
  kLayerInput,    // second embedding
  kOwnKeys,       // attention, and keys and values of its own
  kOwnValues,     // the same, and a map for values
  kWholeQuery,    // attention, and queries of one map
  kLatent,        // attention whose keys and values come of a latent
  kLatentQuery,   // and its queries too
};

struct PlaceFacts {
  WeightKind kind;
  BlockPart part;
  bool feeds_mixer = false;  // used before the mixer's result is there, not after
  int map = -1;              // whose bias it is
};

// Those of a place of the enumeration, or of an expert's.
const PlaceFacts& FactsOf(int place);

inline bool IsNorm(int place) { return FactsOf(place).kind == WeightKind::kNorm; }
inline bool IsBias(int place) { return FactsOf(place).kind == WeightKind::kBias; }
// Used in the wide dtype, whatever the matmul's is.
inline bool IsWide(int place) {
  const WeightKind kind = FactsOf(place).kind;
  return kind == WeightKind::kNorm || kind == WeightKind::kNumbers || kind == WeightKind::kBuffer;
}

// The map that a bias belongs to.
inline int MapOfBias(int bias) { return FactsOf(bias).map; }

}  // namespace moonring::model

#endif  // MOONRING_MODEL_CONFIG_BLOCK_WEIGHTS_H_
