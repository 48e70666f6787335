#include "attention/paged/paged_keys.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include <ATen/Parallel.h>
#include <ATen/TensorIndexing.h>
#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>

#include "base/memory/to_device.h"

namespace moonring::attention {
namespace {

// A larger copy of `held`, with a quarter more blocks than requested, so that the cache is seldom
// copied and little memory is unused.
at::Tensor Grown(const at::Tensor& held, int64_t blocks) {
  std::vector<int64_t> sizes = held.sizes().vec();
  sizes[0] = blocks + blocks / 4;
  at::Tensor grown = at::empty(sizes, held.options());
  grown.narrow(0, 0, held.size(0)).copy_(held);
  return grown;
}

// Copies rows [T, Hk, D] to the blocks and rows in `places`. Numbers are copied as words, without
// conversion.
template <typename Word>
void WriteOnHost(absl::Span<const KeyPlace> places, const at::Tensor& rows_TKD, bool by_column,
                 const at::Tensor& blocks) {
  const at::Tensor rows = rows_TKD.contiguous();
  const int64_t heads = rows.size(1), dim = rows.size(2);
  const auto* const from = static_cast<const Word*>(rows.const_data_ptr());
  auto* const to = static_cast<Word*>(blocks.mutable_data_ptr());
  const int64_t grain = std::max<int64_t>(1, at::internal::GRAIN_SIZE / (heads * dim));
  at::parallel_for(0, rows.size(0), grain, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      for (int64_t head = 0; head < heads; ++head) {
        const Word* row = from + (t * heads + head) * dim;
        Word* block = to + (places[t].block * heads + head) * dim * kKeyBlock;
        if (!by_column) {
          std::memcpy(block + places[t].row * dim, row, dim * sizeof(Word));
          continue;
        }
        for (int64_t c = 0; c < dim; ++c) block[c * kKeyBlock + places[t].row] = row[c];
      }
    }
  });
}

void WriteRows(absl::Span<const KeyPlace> places, const at::Tensor& rows_TKD, bool by_column,
               const at::Tensor& blocks) {
  if (blocks.is_cpu()) {
    const int64_t size = static_cast<int64_t>(rows_TKD.element_size());
    if (size == 2) return WriteOnHost<uint16_t>(places, rows_TKD, by_column, blocks);
    if (size == 4) return WriteOnHost<uint32_t>(places, rows_TKD, by_column, blocks);
    return WriteOnHost<uint64_t>(places, rows_TKD, by_column, blocks);
  }
  std::vector<int64_t> block, row;
  for (const KeyPlace& place : places) {
    block.push_back(place.block);
    row.push_back(place.row);
  }
  const at::indexing::Slice all;
  const at::Tensor to = by_column ? blocks.permute({0, 3, 1, 2}) : blocks.permute({0, 2, 1, 3});
  at::Tensor(to).index_put_(
      {base::ToDevice(block, blocks.device()), base::ToDevice(row, blocks.device()), all, all},
      rows_TKD);
}

}  // namespace

void PagedKeys::Fit(const at::Tensor& k_TKD, const at::Tensor& v_TKD) {
  const int64_t heads = k_TKD.size(1), dim = k_TKD.size(2), value_dim = v_TKD.size(2);
  TORCH_CHECK(v_TKD.size(0) == k_TKD.size(0) && v_TKD.size(1) == heads &&
                  v_TKD.scalar_type() == k_TKD.scalar_type(),
              "paged keys: keys ", k_TKD.scalar_type(), " ", k_TKD.sizes(), ", values ",
              v_TKD.scalar_type(), " ", v_TKD.sizes());
  if (!keys_NKDB_.defined()) {
    keys_NKDB_ = at::empty({0, heads, dim, kKeyBlock}, k_TKD.options());
    values_NKBD_ = at::empty({0, heads, kKeyBlock, value_dim}, v_TKD.options());
  }
  TORCH_CHECK(keys_NKDB_.size(1) == heads && keys_NKDB_.size(2) == dim &&
                  values_NKBD_.size(3) == value_dim &&
                  keys_NKDB_.scalar_type() == k_TKD.scalar_type(),
              "paged keys: ", keys_NKDB_.scalar_type(), " blocks ", keys_NKDB_.sizes(), " and ",
              values_NKBD_.sizes(), ", got keys ", k_TKD.scalar_type(), " ", k_TKD.sizes(),
              " and values ", v_TKD.sizes());
}

void PagedKeys::Reserve(int64_t blocks) {
  if (blocks <= this->blocks()) return;
  keys_NKDB_ = Grown(keys_NKDB_, blocks);
  values_NKBD_ = Grown(values_NKBD_, blocks);
}

void PagedKeys::Write(absl::Span<const KeyPlace> places, const at::Tensor& k_TKD,
                      const at::Tensor& v_TKD) {
  TORCH_CHECK(static_cast<int64_t>(places.size()) == k_TKD.size(0), "paged keys: ", places.size(),
              " places for ", k_TKD.size(0), " rows");
  if (places.empty()) return;
  WriteRows(places, k_TKD, /*by_column=*/true, keys_NKDB_);
  WriteRows(places, v_TKD, /*by_column=*/false, values_NKBD_);
}

void PagedKeys::Copy(int64_t from, int64_t to) {
  for (const at::Tensor* blocks : {&keys_NKDB_, &values_NKBD_})
    blocks->select(0, to).copy_(blocks->select(0, from));
}

int64_t PagedKeys::bytes() const {
  if (!keys_NKDB_.defined()) return 0;
  return static_cast<int64_t>(keys_NKDB_.nbytes() + values_NKBD_.nbytes());
}

}  // namespace moonring::attention
