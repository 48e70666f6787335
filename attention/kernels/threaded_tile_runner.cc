#include "attention/kernels/threaded_tile_runner.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <ATen/Parallel.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>

#include "absl/container/flat_hash_map.h"
#include "base/threads/parallel_tasks.h"
#include "base/trace/recorder.h"

namespace moonring::attention {
namespace {

// The kind of a tile's span in a trace: its query rows (row, row_end) and key rows (column,
// column_end) within the plan's buffers, and its heads.
constexpr base::SpanKind TileSpan(const char* name) {
  return {.name = name,
          .category = "tile",
          .numbers = {"row", "row_end", "column", "column_end", "head", "heads"},
          .is_fine = true};
}
constexpr base::SpanKind kTileForward = TileSpan("tile forward"),
                         kTileBackward = TileSpan("tile backward");

at::Tensor Narrow(const at::Tensor& tensor, const RowRange& rows, int64_t first_head,
                  int64_t heads) {
  return tensor.narrow(0, rows.begin, rows.rows()).narrow(1, first_head, heads);
}

// All query blocks of a document (or of documents that share keys), for the query heads of one kv
// head. They add to the same rows of dk and dv.
struct Chain {
  const HeadGroup* group = nullptr;
  std::vector<const QueryBlock*> blocks;
  RowRange keys;  // the rows of dk and dv
  double area = 0;
};

std::vector<Chain> ChainsOf(const TilePlan& plan, const std::vector<HeadGroup>& groups) {
  std::vector<Chain> documents;
  absl::flat_hash_map<int64_t, size_t> chain_of_document;
  for (const QueryBlock& block : plan.blocks) {
    const auto [found, is_new] = chain_of_document.try_emplace(block.document, documents.size());
    if (is_new) documents.push_back({.keys = block.tiles.front().keys});
    Chain& chain = documents[found->second];
    chain.blocks.push_back(&block);
    chain.area += block.area();
    for (const TileRows& tile : block.tiles)
      chain.keys = {std::min(chain.keys.begin, tile.keys.begin),
                    std::max(chain.keys.end, tile.keys.end)};
  }
  std::vector<Chain> chains;
  for (const Chain& document : documents) {
    for (const HeadGroup& group : groups) {
      chains.push_back(document);
      chains.back().group = &group;
      chains.back().area *= static_cast<double>(group.queries.heads());
    }
  }
  return chains;
}

// A share of a chain with its own gradient buffers.
struct Lane {
  const Chain* chain = nullptr;
  int number = 0;
  int lanes = 1;
  at::Tensor dk_SD,
      dv_SD;  // [rows of chain.keys, 1, D or Dv]; lane 0 adds directly to the results
};

// The lane of block i, in the order 0 1 .. n-1 n-1 .. 1 0, since later blocks of a document cost
// more.
int LaneOfBlock(size_t i, int lanes) {
  const int turn = static_cast<int>(i % (2 * lanes));
  return turn < lanes ? turn : 2 * lanes - 1 - turn;
}

// Divides chains into lanes such that no lane has much more than half of a thread's share of all
// work.
std::vector<Lane> LanesOf(const std::vector<Chain>& chains, const QueryKeyValue& gradients,
                          int threads) {
  const double total =
      std::accumulate(chains.begin(), chains.end(), 0.0,
                      [](double sum, const Chain& chain) { return sum + chain.area; });
  std::vector<Lane> lanes;
  for (const Chain& chain : chains) {
    const int wanted =
        threads == 1 ? 1 : static_cast<int>(std::ceil(2 * threads * chain.area / total - 0.01));
    const int count =
        std::clamp(wanted, 1, std::min<int>(threads, static_cast<int>(chain.blocks.size())));
    for (int number = 0; number < count; ++number) {
      Lane lane{.chain = &chain, .number = number, .lanes = count};
      const auto sums = [&](const at::Tensor& all) {
        return number == 0 ? Narrow(all, chain.keys, chain.group->kv, 1)
                           : at::zeros({chain.keys.rows(), 1, all.size(2)}, all.options());
      };
      lane.dk_SD = sums(gradients.k_SKD);
      lane.dv_SD = sums(gradients.v_SKD);
      lanes.push_back(std::move(lane));
    }
  }
  return lanes;
}

Tile TileOfGroup(const QueryKeyValue& inputs, const TileRows& tile, const HeadGroup& group,
                 const ScoreFunction& score) {
  return {Narrow(inputs.q_THD, tile.queries, group.queries.begin, group.queries.heads()),
          Narrow(inputs.k_SKD, tile.keys, group.kv, 1),
          Narrow(inputs.v_SKD, tile.keys, group.kv, 1), tile.kind, score};
}

}  // namespace

void ThreadedTileRunner::Forward(const RunHeads& heads, const TilePlan& plan,
                                 const QueryKeyValue& inputs, const SoftmaxState& state) const {
  TORCH_INTERNAL_ASSERT(inputs.q_THD.size(0) == plan.query_rows &&
                        inputs.k_SKD.size(0) == plan.key_rows);
  const int64_t groups = static_cast<int64_t>(heads.groups.size());
  std::vector<double> cost;
  for (const QueryBlock& block : plan.blocks) {
    for (const HeadGroup& group : heads.groups)
      cost.push_back(block.area() * static_cast<double>(group.queries.heads()));
  }
  base::RunParallelTasks(cost, [&](int64_t task) {
    const HeadGroup& group = heads.groups[task % groups];
    for (const TileRows& tile : plan.blocks[task / groups].tiles) {
      const base::TraceSpan span(
          kTileForward, {tile.queries.begin, tile.queries.end, tile.keys.begin, tile.keys.end,
                         group.queries.begin, group.queries.heads()});
      SoftmaxState part = state.Slice(tile.queries, group.queries.begin, group.queries.heads());
      Merge(block_->Forward(TileOfGroup(inputs, tile, group, heads.score)), part);
    }
  });
}

void ThreadedTileRunner::Backward(const RunHeads& heads, const TilePlan& plan,
                                  const QueryKeyValue& inputs, const QueryResults& results,
                                  const QueryKeyValue& gradients) const {
  TORCH_INTERNAL_ASSERT(inputs.q_THD.size(0) == plan.query_rows &&
                        inputs.k_SKD.size(0) == plan.key_rows);
  const std::vector<Chain> chains = ChainsOf(plan, heads.groups);
  const std::vector<Lane> lanes = LanesOf(chains, gradients, at::get_num_threads());
  std::vector<double> cost;
  for (const Lane& lane : lanes) cost.push_back(lane.chain->area / lane.lanes);
  base::RunParallelTasks(cost, [&](int64_t task) {
    const Lane& lane = lanes[task];
    const HeadGroup& group = *lane.chain->group;
    for (size_t i = 0; i < lane.chain->blocks.size(); ++i) {
      if (LaneOfBlock(i, lane.lanes) != lane.number) continue;
      for (const TileRows& tile : lane.chain->blocks[i]->tiles) {
        const base::TraceSpan span(
            kTileBackward, {tile.queries.begin, tile.queries.end, tile.keys.begin, tile.keys.end,
                            group.queries.begin, group.queries.heads()});
        const auto of_tile = [&](const at::Tensor& rows) {
          return Narrow(rows, tile.queries, group.queries.begin, group.queries.heads());
        };
        const TileGradients add = block_->Backward(
            TileOfGroup(inputs, tile, group, heads.score), of_tile(results.dout_THD),
            of_tile(results.out_THD), of_tile(results.lse_TH));
        const int64_t row = tile.keys.begin - lane.chain->keys.begin;
        of_tile(gradients.q_THD).add_(add.dq_MHD);
        lane.dk_SD.narrow(0, row, tile.keys.rows()).add_(add.dk_NKD);
        lane.dv_SD.narrow(0, row, tile.keys.rows()).add_(add.dv_NKD);
      }
    }
  });
  for (size_t i = 1; i < lanes.size(); ++i) {
    if (lanes[i].number == 0) continue;
    const Lane& first = lanes[i - lanes[i].number];
    first.dk_SD.add_(lanes[i].dk_SD);
    first.dv_SD.add_(lanes[i].dv_SD);
  }
}

}  // namespace moonring::attention
