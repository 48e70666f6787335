#include "comm/rank_clocks.h"

#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include "base/status/status_macros.h"
#include "base/text/fnv1a.h"

namespace moonring::comm {
namespace {

std::string Contents(const char* path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

absl::Status Send(Communicator& group, const at::Tensor& numbers, int peer) {
  ASSIGN_OR_RETURN(Communicator::Transfer transfer, group.Exchange({{numbers, peer}}, {}));
  return transfer.Wait();
}

absl::Status Receive(Communicator& group, const at::Tensor& numbers, int peer) {
  ASSIGN_OR_RETURN(Communicator::Transfer transfer, group.Exchange({}, {{numbers, peer}}));
  return transfer.Wait();
}

// Runs on rank 0: measures the offset that `peer` must add to its clock, and sends it to `peer`.
absl::Status Ask(Communicator& group, int peer, const std::function<int64_t()>& clock,
                 int round_trips) {
  at::Tensor token = at::zeros({1}, at::kLong), found = at::zeros({2}, at::kLong);
  int64_t* const offset = found.mutable_data_ptr<int64_t>();
  int64_t quickest = std::numeric_limits<int64_t>::max();
  for (int trip = 0; trip < round_trips; ++trip) {
    const int64_t asked = clock();
    RETURN_IF_ERROR(Send(group, token, peer));
    RETURN_IF_ERROR(Receive(group, token, peer));
    const int64_t took = clock() - asked;
    if (took >= quickest) continue;
    quickest = took;
    offset[0] = asked + took / 2 - token.const_data_ptr<int64_t>()[0];
    offset[1] = (took + 1) / 2;
  }
  return Send(group, found, peer);
}

absl::StatusOr<ClockOffset> Answer(Communicator& group, const std::function<int64_t()>& clock,
                                   int round_trips) {
  at::Tensor token = at::empty({1}, at::kLong), found = at::empty({2}, at::kLong);
  for (int trip = 0; trip < round_trips; ++trip) {
    RETURN_IF_ERROR(Receive(group, token, 0));
    token.mutable_data_ptr<int64_t>()[0] = clock();
    RETURN_IF_ERROR(Send(group, token, 0));
  }
  RETURN_IF_ERROR(Receive(group, found, 0));
  const auto* offset = found.const_data_ptr<int64_t>();
  return ClockOffset{clock(), offset[0], offset[1]};
}

}  // namespace

int64_t SteadyClockId() {
  const std::string boot = Contents("/proc/sys/kernel/random/boot_id");
  if (boot.empty()) return 0;
  const uint64_t id = base::Fnv1a(boot + Contents("/proc/self/timens_offsets"));
  return static_cast<int64_t>(id >> 1);
}

absl::StatusOr<ClockOffset> MeasureClock(Communicator& group, const std::function<int64_t()>& clock,
                                         int64_t clock_id, int round_trips) {
  const std::vector<int64_t> one_each(group.size(), 1);
  ASSIGN_OR_RETURN(const std::vector<at::Tensor> ids,
                   group.AllGather(at::full({1}, clock_id, at::kLong), one_each));
  const auto is_first = [&](int rank) {
    const int64_t id = ids[rank].const_data_ptr<int64_t>()[0];
    return rank == 0 || (id != 0 && id == ids[0].const_data_ptr<int64_t>()[0]);
  };
  if (group.rank() == 0) {
    for (int peer = 1; peer < group.size(); ++peer) {
      if (!is_first(peer)) RETURN_IF_ERROR(Ask(group, peer, clock, round_trips), "clocks");
    }
  } else if (!is_first(group.rank())) {
    return Answer(group, clock, round_trips);
  }
  return ClockOffset{.at = clock()};
}

int64_t ByFirstClock(int64_t time, const ClockOffset& before, const ClockOffset& after) {
  const double between = static_cast<double>(after.at - before.at);
  const double part = between <= 0 ? 0.0 : static_cast<double>(time - before.at) / between;
  return time + before.to_first +
         static_cast<int64_t>(part * static_cast<double>(after.to_first - before.to_first));
}

}  // namespace moonring::comm
