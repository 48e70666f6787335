#include "mixers/rule/document_chunks.h"

#include <algorithm>
#include <numeric>

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include "base/memory/to_device.h"

namespace moonring::mixers {
namespace {

bool IsRun(const std::vector<int64_t>& numbers) {
  for (size_t i = 1; i < numbers.size(); ++i)
    if (numbers[i] != numbers[i - 1] + 1) return false;
  return true;
}

}  // namespace

DocumentChunks::DocumentChunks(const std::vector<int64_t>& lengths, int64_t chunk,
                               at::Device device)
    : lengths_(lengths),
      restore_(lengths.size()),
      device_(device),
      chunk_(chunk),
      documents_(static_cast<int64_t>(lengths.size())) {
  std::vector<int64_t> order(lengths.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return lengths[a] > lengths[b]; });
  for (int64_t begin = 0; !order.empty() && begin < lengths[order[0]]; begin += chunk) {
    rounds_.push_back(std::count_if(lengths.begin(), lengths.end(),
                                    [&](int64_t length) { return length > begin; }));
  }
  for (size_t place = 0; place < order.size(); ++place)
    restore_[order[place]] = static_cast<int64_t>(place);
  Place(0);
  order_D_ = base::ToDevice(order, device);
  restore_D_ = base::ToDevice(restore_, device);
}

DocumentChunks::DocumentChunks(const DocumentChunks& whole, int64_t first, int64_t count)
    : lengths_(whole.lengths_),
      restore_(whole.restore_),
      device_(whole.device_),
      chunk_(whole.chunk_),
      rounds_(whole.rounds_.begin() + first, whole.rounds_.begin() + first + count) {
  chunks_before_ =
      std::accumulate(whole.rounds_.begin(), whole.rounds_.begin() + first, whole.chunks_before_);
  documents_ = rounds_.empty() ? 0 : rounds_[0];
  Place(first);
}

DocumentChunks DocumentChunks::Part(int64_t first, int64_t count) const {
  return {*this, first, count};
}

void DocumentChunks::Place(int64_t first_round) {
  chunks_ = std::accumulate(rounds_.begin(), rounds_.end(), int64_t{0});
  const int64_t first = first_round * chunk_,
                end = first + static_cast<int64_t>(rounds_.size()) * chunk_;
  std::vector<int64_t> round_begin = {0};
  for (const int64_t count : rounds_) round_begin.push_back(round_begin.back() + count);
  round_begin_ = base::ToDevice(round_begin, device_);
  std::vector<int64_t> tokens, slots;
  int64_t offset = 0;
  for (size_t document = 0; document < lengths_.size(); ++document) {
    int64_t chunk = 0;  // first chunk of its round
    for (int64_t token = first; token < std::min(end, lengths_[document]); ++token) {
      const int64_t row = token % chunk_;
      if (token > first && row == 0) chunk += rounds_[(token - first) / chunk_ - 1];
      tokens.push_back(offset + token);
      slots.push_back((chunk + restore_[document]) * chunk_ + row);
    }
    offset += lengths_[document];
  }
  tokens_ = static_cast<int64_t>(tokens.size());
  if (tokens_ == 0) return;
  begin_ = tokens[0];
  if (!IsRun(tokens)) token_T_ = base::ToDevice(tokens, device_);
  if (slots[0] != 0 || !IsRun(slots)) slot_T_ = base::ToDevice(slots, device_);
  if (!device_.is_cuda()) return;
  std::vector<int64_t> token_of_slot(static_cast<size_t>(chunks_ * chunk_), -1);
  for (size_t i = 0; i < slots.size(); ++i)
    token_of_slot[static_cast<size_t>(slots[i])] = tokens[i];
  token_of_slot_ = base::ToDevice(token_of_slot, device_);
}

at::Tensor DocumentChunks::Tokens(const at::Tensor& x_T) const {
  return token_T_.defined() ? x_T.index_select(0, token_T_) : x_T.narrow(0, begin_, tokens_);
}

at::Tensor DocumentChunks::Pack(const at::Tensor& x_THX, at::ScalarType dtype) const {
  const int64_t heads = x_THX.size(1), width = x_THX.size(2);
  const at::TensorOptions options = x_THX.options().dtype(dtype);
  if (!slot_T_.defined()) {  // consecutive rows; the last chunk is padded
    const at::Tensor packed = at::empty({chunks_, heads, chunk_, width}, options);
    const int64_t whole = tokens_ / chunk_, rest = tokens_ % chunk_;
    const at::Tensor rows = Tokens(x_THX);
    packed.narrow(0, 0, whole)
        .copy_(rows.narrow(0, 0, whole * chunk_).unflatten(0, {whole, chunk_}).transpose(1, 2));
    if (whole == chunks_) return packed;
    packed.narrow(0, whole, chunks_ - whole).zero_();
    packed.select(0, whole)
        .narrow(1, 0, rest)
        .copy_(rows.narrow(0, whole * chunk_, rest).transpose(0, 1));
    return packed;
  }
  at::Tensor rows = at::zeros({chunks_ * chunk_, heads, width}, options);
  rows.index_copy_(0, slot_T_, Tokens(x_THX).to(dtype));
  return rows.view({chunks_, chunk_, heads, width}).transpose(1, 2).contiguous();
}

void DocumentChunks::Unpack(const at::Tensor& x_NHCX, const at::Tensor& x_THX) const {
  if (tokens_ == 0) return;
  at::Tensor rows = x_NHCX.transpose(1, 2).reshape({chunks_ * chunk_, x_NHCX.size(1), -1});
  rows = slot_T_.defined() ? rows.index_select(0, slot_T_) : rows.narrow(0, 0, tokens_);
  if (token_T_.defined()) {
    x_THX.index_copy_(0, token_T_, rows.to(x_THX.scalar_type()));
  } else {
    x_THX.narrow(0, begin_, tokens_).copy_(rows);
  }
}

at::Tensor DocumentChunks::Order(const at::Tensor& x) const { return x.index_select(0, order_D_); }

at::Tensor DocumentChunks::Restore(const at::Tensor& x) const {
  return x.index_select(0, restore_D_);
}

}  // namespace moonring::mixers
