#include "attention/varlen_tile_runner.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include <c10/util/Exception.h>

#include "comm/memory/to_device.h"

namespace moonring::attention {
namespace {

// Some rows of a buffer, range after range.
class Rows {
 public:
  Rows(const std::vector<RowRange>& ranges, const at::Device& device) : run_(ranges.front()) {
    bool is_run = true;
    for (size_t i = 1; i < ranges.size(); ++i) {
      is_run = is_run && ranges[i].begin == run_.end;
      run_.end = is_run ? ranges[i].end : run_.end;
    }
    if (!is_run) index_ = Index(ranges, device);
  }

  // A view where they are one run, else a copy.
  at::Tensor Of(const at::Tensor& buffer) const {
    return index_.defined() ? buffer.index_select(0, index_)
                            : buffer.narrow(0, run_.begin, run_.rows());
  }
  bool is_run() const { return !index_.defined(); }

  // No row may occur twice: what such rows get would depend on the order in which a GPU comes to
  // them.
  void Put(const at::Tensor& values, const at::Tensor& buffer) const {
    index_.defined() ? buffer.index_copy_(0, index_, values) : Of(buffer).copy_(values);
  }
  void Add(const at::Tensor& values, const at::Tensor& buffer) const {
    index_.defined() ? buffer.index_add_(0, index_, values) : Of(buffer).add_(values);
  }

 private:
  static at::Tensor Index(const std::vector<RowRange>& ranges, const at::Device& device) {
    int64_t count = 0;
    for (const RowRange& range : ranges) count += range.rows();
    const at::Tensor index = comm::HostTensorFor(device, {count}, at::kLong);
    int64_t* next = index.mutable_data_ptr<int64_t>();
    for (const RowRange& range : ranges) {
      std::iota(next, next + range.rows(), range.begin);
      next += range.rows();
    }
    return comm::ToDevice(index, device);
  }

  RowRange run_;
  at::Tensor index_;  // int64; undefined for a run
};

// Deals ranges out so that none overlaps another of its wave: their numbers, in order, by wave. One
// wave where none overlap.
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

// Query rows and all the keys that they meet by one kind of tile.
struct GatheredTile {
  RowRange queries;
  std::vector<RowRange> keys;
};

std::vector<GatheredTile> TilesOf(const TilePlan& plan, TileKind kind) {
  std::vector<GatheredTile> tiles;
  for (const QueryBlock& block : plan.blocks) {
    const auto first = static_cast<std::ptrdiff_t>(
        tiles.size());  // blocks do not overlap: equal ranges are of one block
    for (const TileRows& tile : block.tiles) {
      if (tile.kind != kind) continue;
      const auto same =
          std::find_if(tiles.begin() + first, tiles.end(),
                       [&](const GatheredTile& other) { return other.queries == tile.queries; });
      if (kind == TileKind::kFull && same != tiles.end()) {
        same->keys.push_back(tile.keys);
      } else {
        tiles.push_back({tile.queries, {tile.keys}});
      }
    }
  }
  return tiles;
}

// One call for each run of heads.
struct Round {
  Rows queries, keys;
  std::vector<RowRange> key_ranges;  // those of `keys`
  VarlenTiles tiles;                 // without tensors

  VarlenTiles Of(const QueryKeyValue& inputs) const {
    VarlenTiles call = tiles;
    call.q_MHD = queries.Of(inputs.q_THD);
    call.k_NKD = keys.Of(inputs.k_SKD);
    call.v_NKD = keys.Of(inputs.v_SKD);
    return call;
  }
};

Round RoundOf(const std::vector<GatheredTile>& tiles, const std::vector<size_t>& members,
              const VarlenTiles& like, const at::Device& device) {
  VarlenTiles call = like;
  call.query_offsets = call.key_offsets = {0};
  std::vector<RowRange> queries, keys;
  for (const size_t i : members) {
    queries.push_back(tiles[i].queries);
    keys.insert(keys.end(), tiles[i].keys.begin(), tiles[i].keys.end());
    call.query_offsets.push_back(call.query_offsets.back() + tiles[i].queries.rows());
    call.key_offsets.push_back(
        std::accumulate(tiles[i].keys.begin(), tiles[i].keys.end(), call.key_offsets.back(),
                        [](int64_t rows, const RowRange& range) { return rows + range.rows(); }));
  }
  return {Rows(queries, device), Rows(keys, device), keys, std::move(call)};
}

std::vector<Round> RoundsOf(const TilePlan& plan, const ScoreFunction& score,
                            const at::Device& device) {
  std::vector<Round> rounds;
  for (const TileKind kind : {TileKind::kFull, TileKind::kCausal, TileKind::kWindowEdge}) {
    const std::vector<GatheredTile> tiles = TilesOf(plan, kind);
    std::vector<RowRange> queries;
    for (const GatheredTile& tile : tiles) queries.push_back(tile.queries);
    for (const std::vector<size_t>& wave : Waves(queries))
      rounds.push_back(RoundOf(tiles, wave, {.kind = kind, .score = score}, device));
  }
  return rounds;
}

// kv heads one after another with equally many query heads each.
struct HeadRun {
  HeadRange queries, kv;

  at::Tensor Queries(const at::Tensor& rows) const {
    return rows.narrow(1, queries.begin, queries.heads());
  }
  at::Tensor Keys(const at::Tensor& rows) const { return rows.narrow(1, kv.begin, kv.heads()); }
  QueryKeyValue Of(const QueryKeyValue& rows) const {
    return {Queries(rows.q_THD), Keys(rows.k_SKD), Keys(rows.v_SKD)};
  }
};

std::vector<HeadRun> HeadRunsOf(const std::vector<HeadGroup>& groups) {
  std::vector<HeadRun> runs;
  for (const HeadGroup& group : groups) {
    HeadRun* last = runs.empty() ? nullptr : &runs.back();
    if (last != nullptr && last->queries.end == group.queries.begin && last->kv.end == group.kv &&
        last->queries.heads() == group.queries.heads() * last->kv.heads()) {
      last->queries.end = group.queries.end;
      ++last->kv.end;
    } else {
      runs.push_back({group.queries, {group.kv, group.kv + 1}});
    }
  }
  return runs;
}

void MergeRows(const PartialAttention& part, const Rows& rows, const SoftmaxState& state) {
  SoftmaxState some{rows.Of(state.max_TH), rows.Of(state.sum_TH), rows.Of(state.weighted_THD)};
  Merge(part, some);
  if (rows.is_run()) return;  // it was a view
  rows.Put(some.max_TH, state.max_TH);
  rows.Put(some.sum_TH, state.sum_TH);
  rows.Put(some.weighted_THD, state.weighted_THD);
}

// Where the gradients of a round's keys go.
struct KeyWave {
  Rows from, to;
};

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

void CheckRows(const TilePlan& plan, const QueryKeyValue& inputs) {
  TORCH_INTERNAL_ASSERT(inputs.q_THD.size(0) == plan.query_rows &&
                        inputs.k_SKD.size(0) == plan.key_rows);
}

}  // namespace

void VarlenTileRunner::Forward(const RunHeads& heads, const TilePlan& plan,
                               const QueryKeyValue& inputs, const SoftmaxState& state) const {
  CheckRows(plan, inputs);
  const std::vector<HeadRun> runs = HeadRunsOf(heads.groups);
  for (const Round& round : RoundsOf(plan, heads.score, inputs.q_THD.device())) {
    for (const HeadRun& run : runs) {
      const PartialAttention part = varlen_->Forward(round.Of(run.Of(inputs)));
      MergeRows(
          part, round.queries,
          {run.Queries(state.max_TH), run.Queries(state.sum_TH), run.Queries(state.weighted_THD)});
    }
  }
}

void VarlenTileRunner::Backward(const RunHeads& heads, const TilePlan& plan,
                                const QueryKeyValue& inputs, const QueryResults& results,
                                const QueryKeyValue& gradients) const {
  CheckRows(plan, inputs);
  const at::Device device = inputs.q_THD.device();
  const std::vector<HeadRun> runs = HeadRunsOf(heads.groups);
  for (const Round& round : RoundsOf(plan, heads.score, device)) {
    const std::vector<KeyWave> waves = KeyWavesOf(round.key_ranges, device);
    for (const HeadRun& run : runs) {
      const auto of_queries = [&](const at::Tensor& rows) {
        return round.queries.Of(run.Queries(rows));
      };
      const TileGradients add =
          varlen_->Backward(round.Of(run.Of(inputs)), of_queries(results.dout_THD),
                            of_queries(results.out_THD), of_queries(results.lse_TH));
      const QueryKeyValue sums = run.Of(gradients);
      round.queries.Add(add.dq_MHD, sums.q_THD);
      for (const KeyWave& wave : waves) {
        wave.to.Add(wave.from.Of(add.dk_NKD), sums.k_SKD);
        wave.to.Add(wave.from.Of(add.dv_NKD), sums.v_SKD);
      }
    }
  }
}

}  // namespace moonring::attention
