#include "model/config/block_weights.h"

#include <iterator>

namespace moonring::model {
namespace {

constexpr PlaceFacts Map(BlockPart part) { return {WeightKind::kMap, part}; }
constexpr PlaceFacts Norm(BlockPart part) { return {WeightKind::kNorm, part}; }
constexpr PlaceFacts Filter(BlockPart part) { return {WeightKind::kFilter, part}; }
constexpr PlaceFacts Numbers(BlockPart part) { return {WeightKind::kNumbers, part}; }
constexpr PlaceFacts BiasOf(BlockWeight map, BlockPart part) {
  return {WeightKind::kBias, part, false, map};
}
constexpr PlaceFacts kStacked = {WeightKind::kStack, BlockPart::kMixture};
constexpr PlaceFacts FeedsMixer(PlaceFacts facts) {
  facts.feeds_mixer = true;
  return facts;
}

// The properties of each weight, in the order of the enumeration BlockWeight.
constexpr PlaceFacts kFacts[] = {
    FeedsMixer(Norm(BlockPart::kMixer)),          // kInputNorm
    FeedsMixer(Map(BlockPart::kWholeQuery)),      // kQuery
    FeedsMixer(Map(BlockPart::kOwnKeys)),         // kKey
    FeedsMixer(Map(BlockPart::kOwnValues)),       // kValue
    FeedsMixer(Map(BlockPart::kSoftmax)),         // kQueryKeyValue
    FeedsMixer(Norm(BlockPart::kSoftmax)),        // kQueryNorm
    FeedsMixer(Norm(BlockPart::kOwnKeys)),        // kKeyNorm
    Map(BlockPart::kSoftmax),                     // kOutput
    FeedsMixer(Map(BlockPart::kDelta)),           // kDeltaQueryKeyValueGate
    FeedsMixer(Map(BlockPart::kDelta)),           // kDeltaQueryKeyValue
    FeedsMixer(Map(BlockPart::kDelta)),           // kDeltaQuery
    FeedsMixer(Map(BlockPart::kDelta)),           // kDeltaKey
    FeedsMixer(Map(BlockPart::kDelta)),           // kDeltaValue
    FeedsMixer(Map(BlockPart::kDelta)),           // kDeltaGate
    FeedsMixer(Map(BlockPart::kDelta)),           // kDeltaBetaDecay
    FeedsMixer(Map(BlockPart::kDelta)),           // kDeltaBeta
    FeedsMixer(Map(BlockPart::kDelta)),           // kDeltaDecay
    FeedsMixer(Filter(BlockPart::kDelta)),        // kDeltaFilter
    FeedsMixer(Filter(BlockPart::kDelta)),        // kDeltaQueryFilter
    FeedsMixer(Filter(BlockPart::kDelta)),        // kDeltaKeyFilter
    FeedsMixer(Filter(BlockPart::kDelta)),        // kDeltaValueFilter
    FeedsMixer(Numbers(BlockPart::kDelta)),       // kDeltaDecayLog
    FeedsMixer(Numbers(BlockPart::kDelta)),       // kDeltaDecayShift
    FeedsMixer(Norm(BlockPart::kDelta)),          // kDeltaNorm
    Map(BlockPart::kDelta),                       // kDeltaOutput
    FeedsMixer(Map(BlockPart::kConvolution)),     // kConvolutionInput
    FeedsMixer(Filter(BlockPart::kConvolution)),  // kConvolutionFilter
    Map(BlockPart::kConvolution),                 // kConvolutionOutput
    FeedsMixer(Map(BlockPart::kLatentQuery)),     // kQueryDown
    FeedsMixer(Norm(BlockPart::kLatentQuery)),    // kQueryDownNorm
    FeedsMixer(Map(BlockPart::kLatentQuery)),     // kQueryUp
    FeedsMixer(Map(BlockPart::kLatent)),          // kKeyValueDown
    FeedsMixer(Norm(BlockPart::kLatent)),         // kKeyValueDownNorm
    FeedsMixer(Map(BlockPart::kLatent)),          // kKeyValueUp
    Norm(BlockPart::kMixer),                      // kAttentionNorm
    Norm(BlockPart::kMlp),                        // kMlpInputNorm
    Map(BlockPart::kDense),                       // kGate
    Map(BlockPart::kDense),                       // kUp
    Map(BlockPart::kDense),                       // kGateUp
    Map(BlockPart::kDense),                       // kDown
    Map(BlockPart::kMixture),                     // kRouter
    Map(BlockPart::kSharedExpert),                // kSharedGate
    Map(BlockPart::kSharedExpert),                // kSharedUp
    Map(BlockPart::kSharedExpert),                // kSharedDown
    Map(BlockPart::kSharedExpert),                // kSharedSwitch
    Norm(BlockPart::kMixture),                    // kDenseNorm
    Norm(BlockPart::kMixture),                    // kExpertsNorm
    Norm(BlockPart::kMixture),                    // kExpertsInputNorm
    Numbers(BlockPart::kMixture),                 // kRouterScale
    Numbers(BlockPart::kMixture),                 // kExpertScale
    Norm(BlockPart::kMlp),                        // kMlpNorm
    Map(BlockPart::kLayerInput),                  // kLayerInputGate
    Map(BlockPart::kLayerInput),                  // kLayerInputMap
    Norm(BlockPart::kLayerInput),                 // kLayerInputNorm
    {WeightKind::kBuffer, BlockPart::kEvery},     // kLayerScale
    BiasOf(kQuery, BlockPart::kWholeQuery),
    BiasOf(kKey, BlockPart::kOwnKeys),
    BiasOf(kValue, BlockPart::kOwnValues),
    BiasOf(kQueryKeyValue, BlockPart::kSoftmax),
    BiasOf(kOutput, BlockPart::kSoftmax),
    BiasOf(kConvolutionInput, BlockPart::kConvolution),
    BiasOf(kConvolutionFilter, BlockPart::kConvolution),
    BiasOf(kConvolutionOutput, BlockPart::kConvolution),
    BiasOf(kQueryDown, BlockPart::kLatentQuery),
    BiasOf(kKeyValueDown, BlockPart::kLatent),
    BiasOf(kGate, BlockPart::kDense),
    BiasOf(kUp, BlockPart::kDense),
    BiasOf(kDown, BlockPart::kDense),
    kStacked,  // kExpertsGateUp
    kStacked,  // kExpertsDown
    kStacked,  // kExpertsGateUpBias
    kStacked,  // kExpertsDownBias
    BiasOf(kRouter, BlockPart::kMixture),
    {WeightKind::kBuffer, BlockPart::kMixture},               // kRouterCorrection
    FeedsMixer({WeightKind::kNumbers, BlockPart::kSoftmax}),  // kSinks
    FeedsMixer(Map(BlockPart::kDelta)),                       // kDeltaDecayDown
    FeedsMixer(Map(BlockPart::kDelta)),                       // kDeltaDecayUp
    FeedsMixer(Map(BlockPart::kDelta)),                       // kDeltaGateDown
    FeedsMixer(Map(BlockPart::kDelta)),                       // kDeltaGateUp
    FeedsMixer(Map(BlockPart::kStateSpace)),                  // kStateInput
    FeedsMixer(Filter(BlockPart::kStateSpace)),               // kStateFilter
    FeedsMixer(Numbers(BlockPart::kStateSpace)),              // kStateDecayLog
    FeedsMixer(Numbers(BlockPart::kStateSpace)),              // kStateStepShift
    FeedsMixer(Numbers(BlockPart::kStateSpace)),              // kStateSkip
    FeedsMixer(Norm(BlockPart::kStateSpace)),                 // kStateNorm
    Map(BlockPart::kStateSpace),                              // kStateOutput
    BiasOf(kStateInput, BlockPart::kStateSpace),
    BiasOf(kStateFilter, BlockPart::kStateSpace),
    BiasOf(kStateOutput, BlockPart::kStateSpace),
    Map(BlockPart::kMixture),  // kExpertsInput
    Map(BlockPart::kMixture),  // kExpertsOutput
};
static_assert(std::size(kFacts) == kBlockWeights);

constexpr PlaceFacts kOfExpert = Map(BlockPart::kMixture);

}  // namespace

const PlaceFacts& FactsOf(int place) { return place < kBlockWeights ? kFacts[place] : kOfExpert; }

}  // namespace moonring::model
