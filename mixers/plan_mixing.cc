#include "mixers/plan_mixing.h"

#include <utility>

#include "mixers/local_mixing.h"

namespace moonring::mixers {
namespace {

class NoMixing : public PlannedMixing {
 public:
  at::Tensor Delta(const DeltaCall&) override { return Refuse(); }
  at::Tensor Convolve(const ConvolutionCall&) override { return Refuse(); }

 private:
  static at::Tensor Refuse() { TORCH_CHECK_NOT_IMPLEMENTED(false, "mixing over several ranks"); }
};

}  // namespace

std::shared_ptr<PlannedMixing> PlanMixing(std::shared_ptr<const comm::Layout> layout,
                                          std::shared_ptr<comm::Communicator> group) {
  if (group->size() == 1) return std::make_shared<LocalMixing>(layout->lengths());
  return std::make_shared<NoMixing>();
}

}  // namespace moonring::mixers
