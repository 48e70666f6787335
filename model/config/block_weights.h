#ifndef MOONRING_MODEL_CONFIG_BLOCK_WEIGHTS_H_
#define MOONRING_MODEL_CONFIG_BLOCK_WEIGHTS_H_

// The weights that a decoder block of any family may have, by what they do. A family has some of
// them, under names of its own (family.h); what a block does with them is transformer_block.h's.

namespace moonring::model {

// The places of a block's weights in a list of them. Those of the experts follow
// (ExpertWeightPlace).
enum BlockWeight : int {
  kInputNorm,  // of the stream, before attention
  kQuery,
  kKey,
  kValue,
  kQueryKeyValue,  // the three as one map
  kQueryNorm,
  kKeyNorm,
  kOutput,
  kAttentionNorm,  // of what attention adds to the stream
  kMlpInputNorm,   // of the stream, before the MLP
  kGate,
  kUp,
  kGateUp,  // the two as one map
  kDown,
  kRouter,      // of a mixture of experts
  kSharedGate,  // of the expert that sees every token
  kSharedUp,
  kSharedDown,
  kSharedSwitch,  // how much of it a token gets
  kMlpNorm,       // of what the MLP adds to the stream
  kQueryBias,
  kKeyBias,
  kValueBias,
  kQueryKeyValueBias,
  kOutputBias,
  kGateBias,
  kUpBias,
  kDownBias,
  kBlockWeights,
};

// The maps of one expert.
enum ExpertWeight : int { kExpertGate, kExpertUp, kExpertDown, kExpertWeights };

inline int ExpertWeightPlace(int expert, ExpertWeight weight) {
  return kBlockWeights + expert * kExpertWeights + weight;
}

inline bool IsNorm(int place) {
  return place == kInputNorm || place == kQueryNorm || place == kKeyNorm ||
         place == kAttentionNorm || place == kMlpInputNorm || place == kMlpNorm;
}

inline bool IsBias(int place) { return place >= kQueryBias && place < kBlockWeights; }

// The map that a bias belongs to.
inline BlockWeight MapOfBias(int bias) {
  constexpr BlockWeight kMaps[] = {kQuery,  kKey,  kValue, kQueryKeyValue,
                                   kOutput, kGate, kUp,    kDown};
  return kMaps[bias - kQueryBias];
}

}  // namespace moonring::model

#endif  // MOONRING_MODEL_CONFIG_BLOCK_WEIGHTS_H_
