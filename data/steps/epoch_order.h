// The order in which an epoch visits the n examples. It depends only on (n, seed, epoch) and is the
// same on every machine.
//
// With `shuffle`, it is torch.randperm(n) from a CPU generator seeded with seed + epoch, as in
// accelerate's SeedableRandomSampler, so that a shuffled run of LLaMA-Factory has the same loss
// curve. Without `shuffle`, the order is 0 .. n-1. Cost: O(n).
#ifndef MOONRING_DATA_STEPS_EPOCH_ORDER_H_
#define MOONRING_DATA_STEPS_EPOCH_ORDER_H_

#include <cstdint>
#include <vector>

namespace moonring::data {

std::vector<int64_t> EpochOrder(int64_t n, int64_t seed, int64_t epoch, bool shuffle);

}  // namespace moonring::data

#endif  // MOONRING_DATA_STEPS_EPOCH_ORDER_H_
