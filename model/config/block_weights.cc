#include "model/config/block_weights.h"

#include <iterator>

namespace moonring::model {
namespace {

constexpr PlaceFacts Map(BlockPart part) { return {WeightKind::kMap, part}; }
constexpr PlaceFacts Norm(BlockPart part) { return {WeightKind::kNorm, part}; }
constexpr PlaceFacts Numbers(BlockPart part) { return {WeightKind::kNumbers, part}; }
constexpr PlaceFacts BiasOf(BlockWeight map, BlockPart part = BlockPart::kOfMixer) {
  return {WeightKind::kBias, part, false, map};
}
constexpr PlaceFacts kStacked = {WeightKind::kStack, BlockPart::kMixture};

// Weights of a mixer that it uses itself, and its output map, which follows it.
constexpr PlaceFacts OfMixer(WeightKind kind) { return {kind, BlockPart::kOfMixer, true}; }
constexpr PlaceFacts kMixerMap = OfMixer(WeightKind::kMap), kMixerNorm = OfMixer(WeightKind::kNorm),
                     kMixerFilter = OfMixer(WeightKind::kFilter),
                     kMixerNumbers = OfMixer(WeightKind::kNumbers),
                     kMixerOutput = Map(BlockPart::kOfMixer);

// The properties of each weight, in the order of the enumeration BlockWeight.
constexpr PlaceFacts kFacts[] = {
    {WeightKind::kNorm, BlockPart::kMixer, true},  // kInputNorm
    kMixerMap,                                     // kQuery
    kMixerMap,                                     // kKey
    kMixerMap,                                     // kValue
    kMixerMap,                                     // kQueryKeyValue
    kMixerNorm,                                    // kQueryNorm
    kMixerNorm,                                    // kKeyNorm
    kMixerOutput,                                  // kOutput
    kMixerMap,                                     // kDeltaQueryKeyValueGate
    kMixerMap,                                     // kDeltaQueryKeyValue
    kMixerMap,                                     // kDeltaQuery
    kMixerMap,                                     // kDeltaKey
    kMixerMap,                                     // kDeltaValue
    kMixerMap,                                     // kDeltaGate
    kMixerMap,                                     // kDeltaBetaDecay
    kMixerMap,                                     // kDeltaBeta
    kMixerMap,                                     // kDeltaDecay
    kMixerFilter,                                  // kDeltaFilter
    kMixerFilter,                                  // kDeltaQueryFilter
    kMixerFilter,                                  // kDeltaKeyFilter
    kMixerFilter,                                  // kDeltaValueFilter
    kMixerNumbers,                                 // kDeltaDecayLog
    kMixerNumbers,                                 // kDeltaDecayShift
    kMixerNorm,                                    // kDeltaNorm
    kMixerOutput,                                  // kDeltaOutput
    kMixerMap,                                     // kConvolutionInput
    kMixerFilter,                                  // kConvolutionFilter
    kMixerOutput,                                  // kConvolutionOutput
    kMixerMap,                                     // kQueryDown
    kMixerNorm,                                    // kQueryDownNorm
    kMixerMap,                                     // kQueryUp
    kMixerMap,                                     // kKeyValueDown
    kMixerNorm,                                    // kKeyValueDownNorm
    kMixerMap,                                     // kKeyValueUp
    Norm(BlockPart::kMixer),                       // kAttentionNorm
    Norm(BlockPart::kMlp),                         // kMlpInputNorm
    Map(BlockPart::kDense),                        // kGate
    Map(BlockPart::kDense),                        // kUp
    Map(BlockPart::kDense),                        // kGateUp
    Map(BlockPart::kDense),                        // kDown
    Map(BlockPart::kMixture),                      // kRouter
    Map(BlockPart::kSharedExpert),                 // kSharedGate
    Map(BlockPart::kSharedExpert),                 // kSharedUp
    Map(BlockPart::kSharedExpert),                 // kSharedDown
    Map(BlockPart::kSharedExpert),                 // kSharedSwitch
    Norm(BlockPart::kMixture),                     // kDenseNorm
    Norm(BlockPart::kMixture),                     // kExpertsNorm
    Norm(BlockPart::kMixture),                     // kExpertsInputNorm
    Numbers(BlockPart::kMixture),                  // kRouterScale
    Numbers(BlockPart::kMixture),                  // kExpertScale
    Norm(BlockPart::kMlp),                         // kMlpNorm
    Map(BlockPart::kLayerInput),                   // kLayerInputGate
    Map(BlockPart::kLayerInput),                   // kLayerInputMap
    Norm(BlockPart::kLayerInput),                  // kLayerInputNorm
    {WeightKind::kBuffer, BlockPart::kEvery},      // kLayerScale
    BiasOf(kQuery),
    BiasOf(kKey),
    BiasOf(kValue),
    BiasOf(kQueryKeyValue),
    BiasOf(kOutput),
    BiasOf(kConvolutionInput),
    BiasOf(kConvolutionFilter),
    BiasOf(kConvolutionOutput),
    BiasOf(kQueryDown),
    BiasOf(kKeyValueDown),
    BiasOf(kGate, BlockPart::kDense),
    BiasOf(kUp, BlockPart::kDense),
    BiasOf(kDown, BlockPart::kDense),
    kStacked,  // kExpertsGateUp
    kStacked,  // kExpertsDown
    kStacked,  // kExpertsGateUpBias
    kStacked,  // kExpertsDownBias
    BiasOf(kRouter, BlockPart::kMixture),
    {WeightKind::kBuffer, BlockPart::kMixture},  // kRouterCorrection
    kMixerNumbers,                               // kSinks
    kMixerMap,                                   // kDeltaDecayDown
    kMixerMap,                                   // kDeltaDecayUp
    kMixerMap,                                   // kDeltaGateDown
    kMixerMap,                                   // kDeltaGateUp
    kMixerMap,                                   // kStateInput
    kMixerFilter,                                // kStateFilter
    kMixerNumbers,                               // kStateDecayLog
    kMixerNumbers,                               // kStateStepShift
    kMixerNumbers,                               // kStateSkip
    kMixerNorm,                                  // kStateNorm
    kMixerOutput,                                // kStateOutput
    BiasOf(kStateInput),
    BiasOf(kStateFilter),
    BiasOf(kStateOutput),
    Map(BlockPart::kMixture),  // kExpertsInput
    Map(BlockPart::kMixture),  // kExpertsOutput
};
static_assert(std::size(kFacts) == kBlockWeights);

constexpr PlaceFacts kOfExpert = Map(BlockPart::kMixture);

}  // namespace

const PlaceFacts& FactsOf(int place) { return place < kBlockWeights ? kFacts[place] : kOfExpert; }

}  // namespace moonring::model
