#include "data/mixing/turns.h"

#include <algorithm>
#include <numeric>

namespace moonring::data {

Turns::Turns(int64_t datasets, const std::vector<double>& probabilities, NumpyRandom random)
    : datasets_(datasets), cumulated_(probabilities.size()), random_(random) {
  std::partial_sum(probabilities.begin(), probabilities.end(), cumulated_.begin());
  // normalizes the bounds, so that the last one is 1
  for (double& bound : cumulated_) bound /= cumulated_.back();
}

int64_t Turns::Next() {
  if (cumulated_.empty()) return next_++ % datasets_;
  return std::upper_bound(cumulated_.begin(), cumulated_.end(), random_.NextDouble()) -
         cumulated_.begin();
}

void Turns::set_state(const State& state) {
  next_ = state.turns;
  random_.set_state(state.random);
}

}  // namespace moonring::data
