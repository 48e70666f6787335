#ifndef MOONRING_MODEL_ROLLOUT_BLOCK_POOL_H_
#define MOONRING_MODEL_ROLLOUT_BLOCK_POOL_H_

// Allocates key-value blocks (fixed numbers of tokens, as in paged attention) and counts the
// sequences that use each block. It handles only block numbers: attention/paged/paged_keys.h stores
// the keys and values, per layer.

#include <cstdint>
#include <vector>

namespace moonring::model {

class BlockPool {
 public:
  // Allocates a block for one sequence: a freed block, or else the next unused number.
  int64_t Take();
  // Adds a sequence that uses `block`.
  void Share(int64_t block);
  // Removes a sequence from the users of `block`. The block is free when no sequence uses it.
  void Free(int64_t block);

  int64_t users(int64_t block) const { return users_.at(block); }
  int64_t size() const { return static_cast<int64_t>(users_.size()); }  // blocks ever allocated
  int64_t used() const { return size() - static_cast<int64_t>(free_.size()); }
  int64_t most_used() const { return most_used_; }

 private:
  std::vector<int64_t> users_, free_;
  int64_t most_used_ = 0;
};

}  // namespace moonring::model

#endif  // MOONRING_MODEL_ROLLOUT_BLOCK_POOL_H_
