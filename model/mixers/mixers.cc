#include "model/mixers/mixers.h"

namespace moonring::model {
namespace {

constexpr const Mixer* kTable[] = {
    &kSoftmaxAttention, &kLatentAttention, &kGatedDelta, &kStateSpace, &kGatedConvolution,
};

}  // namespace

absl::Span<const Mixer* const> Mixers() { return kTable; }

}  // namespace moonring::model
