#ifndef MOONRING_TRAINER_SHARDING_TENSOR_GROUPS_H_
#define MOONRING_TRAINER_SHARDING_TENSOR_GROUPS_H_

// Tensor lists for LibTorch's foreach and fused operators, which process many tensors in one launch
// only if all have the same device and dtype, and otherwise process them one by one.
//
// A row is `kLists` tensors that belong together (a weight, its gradient, its moments). Rows with
// equal devices and dtypes in each list, and an equal `key`, form a group. Groups and their rows
// keep the order of Add.

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

namespace moonring::trainer {

template <size_t kLists, class Key = int>
class TensorGroups {
 public:
  struct Group {
    Key key;
    std::array<std::vector<at::Tensor>, kLists> lists;
    std::vector<size_t> members;  // row numbers, in order of Add
  };

  void Add(std::array<at::Tensor, kLists> row, Key key = {}) {
    Group* mine = nullptr;
    for (Group& group : groups_) {
      if (mine == nullptr && group.key == key && Fits(group, row)) mine = &group;
    }
    if (mine == nullptr) mine = &groups_.emplace_back(Group{std::move(key), {}, {}});
    for (size_t i = 0; i < kLists; ++i) mine->lists[i].push_back(std::move(row[i]));
    mine->members.push_back(rows_++);
  }

  const std::vector<Group>& groups() const { return groups_; }

  // The groups, collected by the device of their first list; devices are in order of first
  // occurrence.
  std::vector<std::pair<at::Device, std::vector<const Group*>>> by_device() const {
    std::vector<std::pair<at::Device, std::vector<const Group*>>> all;
    for (const Group& group : groups_) {
      const at::Device device = group.lists[0].front().device();
      std::vector<const Group*>* place = nullptr;
      for (auto& [other, of_other] : all) {
        if (other == device) place = &of_other;
      }
      if (place == nullptr) place = &all.emplace_back(device, std::vector<const Group*>()).second;
      place->push_back(&group);
    }
    return all;
  }

 private:
  static bool Fits(const Group& group, const std::array<at::Tensor, kLists>& row) {
    for (size_t i = 0; i < kLists; ++i) {
      const at::Tensor& first = group.lists[i].front();
      if (first.device() != row[i].device() || first.scalar_type() != row[i].scalar_type()) {
        return false;
      }
    }
    return true;
  }

  std::vector<Group> groups_;
  size_t rows_ = 0;
};

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_SHARDING_TENSOR_GROUPS_H_
