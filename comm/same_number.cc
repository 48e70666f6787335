#include "comm/same_number.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/tensor.h>

#include "base/status/status_macros.h"

namespace moonring::comm {

absl::StatusOr<bool> IsSameNumber(Communicator& group, int64_t number) {
  at::Tensor bounds = at::tensor({number, ~number}, at::kLong);  // maxima of number and ~number
  RETURN_IF_ERROR(group.AllReduceMax(bounds));
  return bounds[0].item<int64_t>() == ~bounds[1].item<int64_t>();
}

}  // namespace moonring::comm
