// The order in which an epoch visits the n examples: a pure function of (n, seed, epoch), the same
// on every machine.
//
// Shuffled it is torch.randperm(n) of a CPU generator seeded with seed + epoch, as accelerate's
// SeedableRandomSampler draws it, so that a shuffled run of LLaMA-Factory has the same curve here.
// Else 0 .. n-1. Cost: O(n).
#ifndef MOONRING_DATA_STEPS_EPOCH_ORDER_H_
#define MOONRING_DATA_STEPS_EPOCH_ORDER_H_

#include <cstdint>
#include <vector>

namespace moonring::data {

std::vector<int64_t> EpochOrder(int64_t n, int64_t seed, int64_t epoch, bool shuffle);

}  // namespace moonring::data

#endif  // MOONRING_DATA_STEPS_EPOCH_ORDER_H_
