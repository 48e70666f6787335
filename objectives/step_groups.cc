#include "objectives/step_groups.h"

#include <c10/util/Exception.h>

#include "base/memory/to_device.h"

namespace moonring::objectives {

StepGroups::StepGroups(int64_t examples, int64_t size) : examples_(examples), size_(size) {
  TORCH_CHECK(size >= 1, "objectives: groups of ", size, " examples, expected 1 or more");
}

at::Tensor StepGroups::Spread(const std::vector<double>& numbers,
                              const std::vector<int64_t>& places, const at::Tensor& like) const {
  std::vector<double> spread;
  spread.reserve(places.size());
  for (const int64_t place : places) {
    TORCH_CHECK(place >= 0 && place < examples_, "objectives: an example at place ", place,
                " of the step, the survey saw ", examples_, " examples");
    spread.push_back(numbers[place / size_]);
  }
  return base::ToDevice(spread, like.device());
}

}  // namespace moonring::objectives
