#include "model/rollout/block_pool.h"

#include <algorithm>

#include <c10/util/Exception.h>

namespace moonring::model {

int64_t BlockPool::Take() {
  int64_t block = size();
  if (free_.empty()) {
    users_.push_back(1);
  } else {
    block = free_.back();
    free_.pop_back();
    users_[block] = 1;
  }
  most_used_ = std::max(most_used_, used());
  return block;
}

void BlockPool::Share(int64_t block) {
  TORCH_INTERNAL_ASSERT(users_.at(block) > 0);
  ++users_[block];
}

void BlockPool::Free(int64_t block) {
  TORCH_INTERNAL_ASSERT(users_.at(block) > 0);
  if (--users_[block] == 0) free_.push_back(block);
}

}  // namespace moonring::model
