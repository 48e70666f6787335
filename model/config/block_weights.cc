#include "model/config/block_weights.h"

#include <iterator>

namespace moonring::model {
namespace {

constexpr PlaceFacts Map(BlockPart part) { return {WeightKind::kMap, part}; }
constexpr PlaceFacts Norm(BlockPart part) { return {WeightKind::kNorm, part}; }
constexpr PlaceFacts BiasOf(BlockWeight map, BlockPart part) {
  return {WeightKind::kBias, part, false, map};
}
constexpr PlaceFacts kStacked = {WeightKind::kStack, BlockPart::kMixture};
constexpr PlaceFacts FeedsMixer(PlaceFacts facts) {
  facts.feeds_mixer = true;
  return facts;
}

// In the order of the enumeration.
constexpr PlaceFacts kFacts[] = {
    FeedsMixer(Norm(BlockPart::kEvery)),       // kInputNorm
    FeedsMixer(Map(BlockPart::kSoftmax)),      // kQuery
    FeedsMixer(Map(BlockPart::kOwnKeys)),      // kKey
    FeedsMixer(Map(BlockPart::kOwnValues)),    // kValue
    FeedsMixer(Map(BlockPart::kSoftmax)),      // kQueryKeyValue
    FeedsMixer(Norm(BlockPart::kSoftmax)),     // kQueryNorm
    FeedsMixer(Norm(BlockPart::kOwnKeys)),     // kKeyNorm
    Map(BlockPart::kSoftmax),                  // kOutput
    Norm(BlockPart::kEvery),                   // kAttentionNorm
    Norm(BlockPart::kEvery),                   // kMlpInputNorm
    Map(BlockPart::kDense),                    // kGate
    Map(BlockPart::kDense),                    // kUp
    Map(BlockPart::kDense),                    // kGateUp
    Map(BlockPart::kDense),                    // kDown
    Map(BlockPart::kMixture),                  // kRouter
    Map(BlockPart::kSharedExpert),             // kSharedGate
    Map(BlockPart::kSharedExpert),             // kSharedUp
    Map(BlockPart::kSharedExpert),             // kSharedDown
    Map(BlockPart::kSharedExpert),             // kSharedSwitch
    Norm(BlockPart::kEvery),                   // kMlpNorm
    Map(BlockPart::kLayerInput),               // kLayerInputGate
    Map(BlockPart::kLayerInput),               // kLayerInputMap
    Norm(BlockPart::kLayerInput),              // kLayerInputNorm
    {WeightKind::kBuffer, BlockPart::kEvery},  // kLayerScale
    BiasOf(kQuery, BlockPart::kSoftmax),
    BiasOf(kKey, BlockPart::kOwnKeys),
    BiasOf(kValue, BlockPart::kOwnValues),
    BiasOf(kQueryKeyValue, BlockPart::kSoftmax),
    BiasOf(kOutput, BlockPart::kSoftmax),
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
};
static_assert(std::size(kFacts) == kBlockWeights);

constexpr PlaceFacts kOfExpert = Map(BlockPart::kMixture);

}  // namespace

const PlaceFacts& FactsOf(int place) { return place < kBlockWeights ? kFacts[place] : kOfExpert; }

}  // namespace moonring::model
