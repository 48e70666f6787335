#include "mixers/over_ranks/mixing_planner.h"

#include <map>
#include <utility>

#include "mixers/over_ranks/halo_convolution.h"
#include "mixers/over_ranks/heads_mixing.h"
#include "mixers/over_ranks/local_mixing.h"
#include "mixers/over_ranks/mixing_cost.h"
#include "mixers/over_ranks/relay_mixing.h"
#include "mixers/over_ranks/spans_mixing.h"

namespace moonring::mixers {
namespace {

std::shared_ptr<PlannedMixing> Create(MixingStrategy strategy,
                                      std::shared_ptr<const comm::Layout> layout,
                                      std::shared_ptr<comm::Communicator> group,
                                      const std::vector<comm::Parent>& parents) {
  if (strategy == MixingStrategy::kSpans)
    return std::make_shared<SpansMixing>(std::move(layout), std::move(group), parents);
  if (strategy == MixingStrategy::kRelay)
    return std::make_shared<RelayMixing>(std::move(layout), std::move(group), parents);
  return std::make_shared<HeadsMixing>(std::move(layout), std::move(group), parents);
}

// Chooses a strategy by the sizes of each call. Layers of the same sizes share a choice.
class AutoMixing : public PlannedMixing {
 public:
  AutoMixing(std::shared_ptr<const comm::Layout> layout, std::shared_ptr<comm::Communicator> group,
             std::vector<comm::Parent> parents)
      : layout_(std::move(layout)),
        group_(std::move(group)),
        parents_(std::move(parents)),
        convolution_(comm::SpansOf(*layout_), group_, parents_) {}

  at::Tensor Delta(const DeltaCall& call) override { return Chosen(call).Delta(call); }
  at::Tensor Convolve(const ConvolutionCall& call) override { return convolution_(call); }

 private:
  PlannedMixing& Chosen(const DeltaCall& call) {
    const MixingSizes sizes{.key_heads = call.key_heads,
                            .value_heads = call.value_heads,
                            .key_dim = call.key_dim,
                            .value_dim = call.value_dim,
                            .taps = call.taps_CW.defined() ? call.taps_CW.size(1) : 0,
                            .by_channel = call.g.dim() == 3,
                            .element_bytes = static_cast<int64_t>(call.x_TC.element_size()),
                            .state_bytes = static_cast<int64_t>(call.g.element_size())};
    std::shared_ptr<PlannedMixing>& of_sizes = by_sizes_[sizes];
    if (of_sizes == nullptr) {
      const MixingStrategy strategy =
          ChooseMixing(*layout_, sizes, call.x_TC.is_cuda() ? kGpuMachine : MachineModel());
      std::shared_ptr<PlannedMixing>& mixing = mixings_[strategy];
      if (mixing == nullptr) mixing = Create(strategy, layout_, group_, parents_);
      of_sizes = mixing;
    }
    return *of_sizes;
  }

  std::shared_ptr<const comm::Layout> layout_;
  std::shared_ptr<comm::Communicator> group_;
  std::vector<comm::Parent> parents_;
  HaloConvolution convolution_;
  std::map<MixingStrategy, std::shared_ptr<PlannedMixing>> mixings_;
  std::map<MixingSizes, std::shared_ptr<PlannedMixing>> by_sizes_;
};

}  // namespace

std::shared_ptr<PlannedMixing> PlanMixing(std::shared_ptr<const comm::Layout> layout,
                                          std::shared_ptr<comm::Communicator> group,
                                          const MixingOptions& options,
                                          std::vector<comm::Parent> parents) {
  if (group->size() == 1)
    return std::make_shared<LocalMixing>(layout->lengths(), std::move(parents));
  if (options.strategy == MixingStrategy::kAuto)
    return std::make_shared<AutoMixing>(std::move(layout), std::move(group), std::move(parents));
  return Create(options.strategy, std::move(layout), std::move(group), parents);
}

}  // namespace moonring::mixers
