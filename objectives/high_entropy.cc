#include "objectives/high_entropy.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <ATen/ATen.h>

#include "base/status/torch_status.h"

namespace moonring::objectives {
namespace {

at::Tensor OfAllRanks(const at::Tensor& mine_N, comm::Communicator& world) {
  at::Tensor sizes_P = at::zeros({world.size()}, at::kLong);
  sizes_P[world.rank()] = mine_N.size(0);
  base::ThrowIfError(world.AllReduceSum(sizes_P));
  const int64_t* sizes = sizes_P.const_data_ptr<int64_t>();
  return at::cat(base::ValueOrThrow(
      world.AllGather(mine_N, std::vector<int64_t>(sizes, sizes + world.size()))));
}

}  // namespace

double EntropyThreshold(const at::Tensor& entropies_N, double share, comm::Communicator& world) {
  TORCH_CHECK(share >= 0.0 && share <= 1.0, "objectives.entropy_threshold: the share is ", share,
              ", expected 0 to 1");
  TORCH_CHECK(entropies_N.dim() == 1 && at::isFloatingType(entropies_N.scalar_type()),
              "objectives.entropy_threshold: entropies ", entropies_N.sizes(), " of ",
              entropies_N.scalar_type(), ", expected a floating type [tokens]");
  const at::Tensor all_N =
      OfAllRanks(entropies_N.detach().to(at::kCPU, at::kDouble).contiguous(), world);
  const int64_t tokens = all_N.size(0);
  if (tokens == 0) return std::numeric_limits<double>::infinity();
  const at::Tensor sorted_N = std::get<0>(all_N.sort());
  const double place = (1.0 - share) * static_cast<double>(tokens - 1);
  const auto below = static_cast<int64_t>(std::floor(place)),
             above = std::min(below + 1, tokens - 1);
  return at::lerp(sorted_N[below], sorted_N[above], place - std::floor(place)).item<double>();
}

}  // namespace moonring::objectives
