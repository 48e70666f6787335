#include "mixers/document_chunks.h"

#include <algorithm>
#include <numeric>

#include <ATen/ops/zeros.h>

#include "comm/memory/to_device.h"

namespace moonring::mixers {

DocumentChunks::DocumentChunks(const std::vector<int64_t>& lengths, int64_t chunk,
                               at::Device device)
    : chunk_(chunk) {
  std::vector<int64_t> order(lengths.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return lengths[a] > lengths[b]; });
  std::vector<int64_t> round_begin = {0};
  for (int64_t begin = 0; !order.empty() && begin < lengths[order[0]]; begin += chunk) {
    rounds_.push_back(std::count_if(lengths.begin(), lengths.end(),
                                    [&](int64_t length) { return length > begin; }));
    chunks_ += rounds_.back();
    round_begin.push_back(chunks_);
  }
  std::vector<int64_t> restore(lengths.size());
  for (size_t place = 0; place < order.size(); ++place) restore[order[place]] = place;
  std::vector<int64_t> slots;
  slots.reserve(std::accumulate(lengths.begin(), lengths.end(), int64_t{0}));
  for (size_t document = 0; document < lengths.size(); ++document) {
    int64_t round_begin = 0;
    for (int64_t token = 0; token < lengths[document]; ++token) {
      const int64_t row = token % chunk;
      if (token > 0 && row == 0) round_begin += rounds_[token / chunk - 1];
      slots.push_back((round_begin + restore[document]) * chunk + row);
    }
  }
  std::vector<int64_t> tokens(static_cast<size_t>(chunks_ * chunk), -1);
  for (size_t token = 0; token < slots.size(); ++token)
    tokens[static_cast<size_t>(slots[token])] = static_cast<int64_t>(token);
  token_S_ = comm::ToDevice(tokens, device);
  round_begin_ = comm::ToDevice(round_begin, device);
  slot_T_ = comm::ToDevice(slots, device);
  order_D_ = comm::ToDevice(order, device);
  restore_D_ = comm::ToDevice(restore, device);
}

at::Tensor DocumentChunks::Pack(const at::Tensor& x_THX, at::ScalarType dtype) const {
  at::Tensor rows =
      at::zeros({chunks_ * chunk_, x_THX.size(1), x_THX.size(2)}, x_THX.options().dtype(dtype));
  rows.index_copy_(0, slot_T_, x_THX.to(dtype));
  return rows.view({chunks_, chunk_, x_THX.size(1), x_THX.size(2)}).transpose(1, 2).contiguous();
}

at::Tensor DocumentChunks::Unpack(const at::Tensor& x_NHCX) const {
  return x_NHCX.transpose(1, 2)
      .reshape({chunks_ * chunk_, x_NHCX.size(1), x_NHCX.size(3)})
      .index_select(0, slot_T_);
}

at::Tensor DocumentChunks::Order(const at::Tensor& x) const { return x.index_select(0, order_D_); }

at::Tensor DocumentChunks::Restore(const at::Tensor& x) const {
  return x.index_select(0, restore_D_);
}

}  // namespace moonring::mixers
