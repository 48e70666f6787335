#include "data/steps/length_groups.h"

#include <algorithm>
#include <utility>

namespace moonring::data {

std::vector<int64_t> GroupByLength(std::vector<int64_t> order, const std::vector<int64_t>& lengths,
                                   int64_t batch) {
  const int64_t n = static_cast<int64_t>(order.size());
  const int64_t group = std::clamp<int64_t>(n / (4 * batch), 1, 50) * batch;
  int64_t longest = 0;  // start of the first group that contains the longest example
  for (int64_t begin = 0; begin < n; begin += group) {
    std::stable_sort(order.begin() + begin, order.begin() + std::min(begin + group, n),
                     [&](int64_t a, int64_t b) { return lengths[a] > lengths[b]; });
    if (lengths[order[begin]] > lengths[order[longest]]) longest = begin;
  }
  if (n > 0) std::swap(order[0], order[longest]);
  return order;
}

}  // namespace moonring::data
