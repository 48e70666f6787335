#ifndef MOONRING_MODEL_ROLLOUT_BLOCK_POOL_H_
#define MOONRING_MODEL_ROLLOUT_BLOCK_POOL_H_

// Which blocks of keys are in use, and by how many sequences. Numbers only: what lies in a block is
// attention/paged_keys.h's, of each layer.

#include <cstdint>
#include <vector>

namespace moonring::model {

class BlockPool {
 public:
  // A block of one user: one that was freed, or the next number.
  int64_t Take();
  // One user more.
  void Share(int64_t block);
  // One less; the last frees it.
  void Free(int64_t block);

  int64_t users(int64_t block) const { return users_.at(block); }
  int64_t size() const { return static_cast<int64_t>(users_.size()); }  // numbers there are
  int64_t used() const { return size() - static_cast<int64_t>(free_.size()); }
  int64_t most_used() const { return most_used_; }

 private:
  std::vector<int64_t> users_, free_;
  int64_t most_used_ = 0;
};

}  // namespace moonring::model

#endif  // MOONRING_MODEL_ROLLOUT_BLOCK_POOL_H_
