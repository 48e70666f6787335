#include "attention/kernels/varlen_rounds.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>

#include <c10/util/Exception.h>

#include "base/memory/to_device.h"

namespace moonring::attention {
namespace {

at::Tensor Index(const std::vector<RowRange>& ranges, const at::Device& device) {
  int64_t count = 0;
  for (const RowRange& range : ranges) count += range.rows();
  const at::Tensor index = base::HostTensorFor(device, {count}, at::kLong);
  int64_t* next = index.mutable_data_ptr<int64_t>();
  for (const RowRange& range : ranges) {
    std::iota(next, next + range.rows(), range.begin);
    next += range.rows();
  }
  return base::ToDevice(index, device);
}

// Distributes ranges to waves such that no two ranges of a wave overlap. Returns the indices of the
// ranges, in order, by wave; one wave where none overlap.
std::vector<std::vector<size_t>> Waves(const std::vector<RowRange>& ranges) {
  std::vector<size_t> order(ranges.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return ranges[a].begin < ranges[b].begin; });
  std::vector<std::vector<size_t>> waves;
  std::vector<int64_t> ends;
  for (const size_t i : order) {
    size_t wave = 0;
    while (wave < waves.size() && ends[wave] > ranges[i].begin) ++wave;
    if (wave == waves.size()) {
      waves.emplace_back();
      ends.push_back(0);
    }
    waves[wave].push_back(i);
    ends[wave] = ranges[i].end;
  }
  for (std::vector<size_t>& wave : waves) std::sort(wave.begin(), wave.end());
  return waves;
}

// A range of query rows and all their keys in tiles of one kind.
struct GatheredTile {
  RowRange queries;
  std::vector<RowRange> keys;
  int64_t window = 0;
};

std::vector<GatheredTile> TilesOf(const TilePlan& plan, TileKind kind) {
  std::vector<GatheredTile> tiles;
  for (const QueryBlock& block : plan.blocks) {
    const auto first = static_cast<std::ptrdiff_t>(
        tiles.size());  // query blocks do not overlap, so equal ranges are of one block
    for (const TileRows& tile : block.tiles) {
      if (tile.kind != kind) continue;
      const auto same =
          std::find_if(tiles.begin() + first, tiles.end(),
                       [&](const GatheredTile& other) { return other.queries == tile.queries; });
      if (kind == TileKind::kFull && same != tiles.end()) {
        same->keys.push_back(tile.keys);
      } else {
        tiles.push_back({tile.queries, {tile.keys}, tile.window});
      }
    }
  }
  return tiles;
}

std::vector<KeyWave> KeyWavesOf(const std::vector<RowRange>& ranges, const at::Device& device) {
  std::vector<RowRange> from;
  int64_t row = 0;
  for (const RowRange& range : ranges) {
    from.push_back({row, row + range.rows()});
    row += range.rows();
  }
  std::vector<KeyWave> waves;
  for (const std::vector<size_t>& wave : Waves(ranges)) {
    std::vector<RowRange> of_wave, to;
    for (const size_t i : wave) {
      of_wave.push_back(from[i]);
      to.push_back(ranges[i]);
    }
    waves.push_back({Rows(of_wave, device), Rows(to, device)});
  }
  return waves;
}

Round RoundOf(const std::vector<GatheredTile>& tiles, const std::vector<size_t>& members,
              TileKind kind, const at::Device& device) {
  VarlenTiles call{.query_offsets = {0},
                   .key_offsets = {0},
                   .kind = kind,
                   .window = tiles[members.front()].window,
                   .on_device = std::make_shared<DeviceOffsets>()};
  std::vector<RowRange> queries, keys;
  for (const size_t i : members) {
    TORCH_INTERNAL_ASSERT(tiles[i].window == call.window);
    queries.push_back(tiles[i].queries);
    keys.insert(keys.end(), tiles[i].keys.begin(), tiles[i].keys.end());
    call.query_offsets.push_back(call.query_offsets.back() + tiles[i].queries.rows());
    call.key_offsets.push_back(
        std::accumulate(tiles[i].keys.begin(), tiles[i].keys.end(), call.key_offsets.back(),
                        [](int64_t rows, const RowRange& range) { return rows + range.rows(); }));
  }
  return {Rows(queries, device), Rows(keys, device), KeyWavesOf(keys, device), std::move(call)};
}

struct RoundNotes final : public PlanNotes {
  explicit RoundNotes(const at::Device& of) : device(of) {}
  at::Device device;
  std::vector<Round> rounds;
};

std::shared_ptr<const RoundNotes> NotesOf(const TilePlan& plan, const at::Device& device) {
  auto notes = std::make_shared<RoundNotes>(device);
  for (const TileKind kind :
       {TileKind::kFull, TileKind::kCausal, TileKind::kWindowEdge, TileKind::kBand}) {
    const std::vector<GatheredTile> tiles = TilesOf(plan, kind);
    std::vector<RowRange> queries;
    for (const GatheredTile& tile : tiles) queries.push_back(tile.queries);
    for (const std::vector<size_t>& wave : Waves(queries))
      notes->rounds.push_back(RoundOf(tiles, wave, kind, device));
  }
  return notes;
}

}  // namespace

Rows::Rows(const std::vector<RowRange>& ranges, const at::Device& device) : run_(ranges.front()) {
  bool is_run = true;
  for (size_t i = 1; i < ranges.size(); ++i) {
    is_run = is_run && ranges[i].begin == run_.end;
    run_.end = is_run ? ranges[i].end : run_.end;
  }
  if (!is_run) index_ = Index(ranges, device);
}

at::Tensor Rows::Of(const at::Tensor& buffer) const {
  return index_.defined() ? buffer.index_select(0, index_)
                          : buffer.narrow(0, run_.begin, run_.rows());
}

void Rows::Put(const at::Tensor& values, const at::Tensor& buffer) const {
  index_.defined() ? buffer.index_copy_(0, index_, values) : Of(buffer).copy_(values);
}

void Rows::Add(const at::Tensor& values, const at::Tensor& buffer) const {
  index_.defined() ? buffer.index_add_(0, index_, values.to(buffer.scalar_type()))
                   : Of(buffer).add_(values);
}

const std::vector<Round>& RoundsOf(const TilePlan& plan, const at::Device& device) {
  const auto* notes = dynamic_cast<const RoundNotes*>(plan.notes.get());
  if (notes == nullptr || notes->device != device) {
    std::shared_ptr<const RoundNotes> made = NotesOf(plan, device);
    notes = made.get();
    plan.notes = std::move(made);
  }
  return notes->rounds;
}

}  // namespace moonring::attention
