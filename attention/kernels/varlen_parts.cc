#include "attention/kernels/varlen_parts.h"

#include <algorithm>
#include <limits>
#include <memory>

#include "attention/kernels/cudnn_attention.h"

namespace moonring::attention {
namespace {

// Flash attention launches as many thread blocks for each tile of a call as the longest tile needs.
// Empty ones take about 5 ns each: 10,000 documents of 100 tokens together with one of 32k would
// waste 0.2 s. So a call of more than kFewBlocks thread blocks is divided where more than three
// quarters of its rows would be empty. The number of tiles of a call is the second dimension of the
// CUDA grid, at most kMostTiles.
constexpr int64_t kBlockRows = 128, kFewBlocks = 1 << 15, kMostOfRows = 4, kMostTiles = 65535;

// Whether a tile with `queries` queries may be added to the kernel call of `part`. `heads`: number
// of query heads, a dimension of the CUDA grid.
bool Takes(const VarlenPart& part, int64_t queries, int64_t heads) {
  const auto tiles = static_cast<int64_t>(part.last - part.first) + 1;
  const int64_t length = std::max(part.longest, queries);
  const bool few = tiles * ((length + kBlockRows - 1) / kBlockRows) * heads <= kFewBlocks;
  return tiles <= kMostTiles && (few || tiles * length <= kMostOfRows * (part.rows + queries));
}

}  // namespace

int64_t GreaterDim(const VarlenTiles& tiles) {
  return std::max(tiles.q_MHD.size(2), tiles.v_NKD.size(2));
}

std::vector<VarlenPart> PartsOf(const VarlenTiles& tiles, const KernelChoice& choice) {
  std::vector<VarlenPart> parts;
  for (size_t i = 0; i + 1 < tiles.query_offsets.size(); ++i) {
    const int64_t queries = tiles.query_offsets[i + 1] - tiles.query_offsets[i],
                  keys = tiles.key_offsets[i + 1] - tiles.key_offsets[i];
    const bool is_cudnns =
        choice.IsCudnns(queries, keys) &&
        CudnnTakes(tiles.q_MHD.scalar_type(), GreaterDim(tiles), tiles.kind, tiles.window, queries,
                   keys) &&
        std::max(queries * tiles.q_MHD.size(1), keys * tiles.k_NKD.size(1)) * GreaterDim(tiles) <=
            std::numeric_limits<int32_t>::max();
    if (is_cudnns || parts.empty() || parts.back().is_cudnns ||
        !Takes(parts.back(), queries, tiles.q_MHD.size(1))) {
      parts.push_back({i, i, is_cudnns});
    }
    VarlenPart& part = parts.back();
    part.last = i + 1;
    part.rows += queries;
    part.longest = std::max(part.longest, queries);
  }
  return parts;
}

at::Tensor RowsOfPart(const at::Tensor& rows, const std::vector<int64_t>& offsets,
                      const VarlenPart& part) {
  return rows.narrow(0, offsets[part.first], offsets[part.last] - offsets[part.first]);
}

VarlenTiles CallOfPart(const VarlenTiles& tiles, const VarlenPart& part, size_t number) {
  VarlenTiles call = tiles;
  const auto offsets_of = [&](const std::vector<int64_t>& offsets) {
    std::vector<int64_t> own;
    for (size_t i = part.first; i <= part.last; ++i)
      own.push_back(offsets[i] - offsets[part.first]);
    return own;
  };
  call.q_MHD = RowsOfPart(tiles.q_MHD, tiles.query_offsets, part);
  call.k_NKD = RowsOfPart(tiles.k_NKD, tiles.key_offsets, part);
  call.v_NKD = RowsOfPart(tiles.v_NKD, tiles.key_offsets, part);
  call.query_offsets = offsets_of(tiles.query_offsets);
  call.key_offsets = offsets_of(tiles.key_offsets);
  if (tiles.on_device != nullptr) {
    auto& of_parts = tiles.on_device->of_parts;
    if (of_parts.size() <= number) of_parts.resize(number + 1);
    if (of_parts[number] == nullptr) of_parts[number] = std::make_shared<DeviceOffsets>();
    call.on_device = of_parts[number];
  }
  return call;
}

}  // namespace moonring::attention
