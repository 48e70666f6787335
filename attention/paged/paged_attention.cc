#include "attention/paged/paged_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>

#include "attention/kernels/device_tile_runner.h"
#include "attention/kernels/head_split.h"
#include "attention/kernels/softmax_merge.h"
#include "attention/kernels/tile_plan.h"
#include "attention/kernels/tile_runner.h"
#include "attention/paged/paged_rows.h"
#include "base/memory/to_device.h"
#include "base/threads/parallel_tasks.h"
#include "comm/layout.h"
#include "kernels/choice.h"

namespace moonring::attention {
namespace {

// Rows per task, where each query head of a token counts as a row. Their q, scores and sums fit a
// core's cache together with one block of keys and values.
constexpr int64_t kTaskRows = 64;

PagedNumbers NumbersOf(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return PagedNumbers::kFloat;
    case at::kDouble:
      return PagedNumbers::kDouble;
    case at::kBFloat16:
      return PagedNumbers::kBFloat16;
    case at::kHalf:
      return PagedNumbers::kHalf;
    default:
      TORCH_CHECK(false, "paged attention: keys in ", type,
                  ", expected Float, Double, BFloat16 or Half");
  }
}

// Rows of a run that one task computes. The first is row `row` of q and token `position` of the
// sequence.
struct RunPart {
  int64_t row = 0, rows = 0, position = 0;
  absl::Span<const KeyBlock> blocks;
};

// The number of leading blocks that two sequences have in common. A block counts only if both
// sequences have the same tokens of it.
int64_t Common(absl::Span<const KeyBlock> a, absl::Span<const KeyBlock> b) {
  const size_t most = std::min(a.size(), b.size());
  size_t common = 0;
  while (common < most && a[common] == b[common]) ++common;
  return static_cast<int64_t>(common);
}

// The rows of one task, for each kv head.
struct Group {
  std::vector<RunPart> parts;
  int64_t common = 0;  // number of leading blocks that all parts share
  int64_t rows() const {
    int64_t rows = 0;
    for (const RunPart& part : parts) rows += part.rows;
    return rows;
  }
};

// Divides the runs into groups. `wanted`: the minimal number of groups, unless the runs are too few
// to be divided.
std::vector<Group> GroupsOf(const std::vector<PagedRun>& runs, int64_t heads, int64_t wanted) {
  const int64_t most = std::max<int64_t>(1, kTaskRows / heads);
  std::vector<Group> groups;
  int64_t row = 0;
  for (const PagedRun& run : runs) {
    for (int64_t begin = 0; begin < run.rows; begin += most) {
      RunPart part{row + begin, std::min(most, run.rows - begin), run.position + begin, run.blocks};
      Group* last = groups.empty() ? nullptr : &groups.back();
      const int64_t common =
          last == nullptr || run.rows > 1 || last->rows() >= most
              ? 0
              : std::min(last->common, Common(last->parts[0].blocks, run.blocks));
      if (common > 0) {
        last->parts.push_back(part);
        last->common = common;
      } else {
        groups.push_back({{part}, static_cast<int64_t>(run.blocks.size())});
      }
    }
    row += run.rows;
  }
  // Divides the largest group in two until there are `wanted` groups. Blocks that the two halves
  // have in common are then read twice.
  while (static_cast<int64_t>(groups.size()) < wanted) {
    const auto largest = std::max_element(
        groups.begin(), groups.end(),
        [](const Group& a, const Group& b) { return a.parts.size() < b.parts.size(); });
    if (largest == groups.end() || largest->parts.size() < 2) break;
    const auto middle = largest->parts.begin() + static_cast<int64_t>(largest->parts.size()) / 2;
    Group second{{middle, largest->parts.end()}, largest->common};
    largest->parts.erase(middle, largest->parts.end());
    groups.insert(largest + 1, std::move(second));
  }
  return groups;
}

// The sweep over the blocks [begin, end) of a task, for the rows of `parts`. These are rows of the
// task from `first` on.
PagedSweep SweepOf(absl::Span<const RunPart> parts, int64_t first, int64_t heads, int64_t begin,
                   int64_t end, int64_t window) {
  PagedSweep sweep{first, first, {}, {}};
  for (const RunPart& part : parts) sweep.end += part.rows * heads;
  std::vector<SeenRows> seen;
  for (int64_t b = begin; b < end; ++b) {
    const KeyBlock& block = parts[0].blocks[b];
    bool any = false;
    seen.clear();
    for (const RunPart& part : parts) {
      for (int64_t r = 0; r < part.rows; ++r) {
        const SeenRows rows = Seen(block, part.position + r, window);
        any = any || rows.begin < rows.end;
        seen.insert(seen.end(), heads, rows);
      }
    }
    if (!any) continue;
    sweep.blocks.push_back(block.block);
    sweep.seen.insert(sweep.seen.end(), seen.begin(), seen.end());
  }
  return sweep;
}

std::vector<PagedSweep> SweepsOf(const Group& group, int64_t heads, int64_t window) {
  std::vector<PagedSweep> sweeps;
  const auto add = [&](PagedSweep sweep) {
    if (!sweep.blocks.empty()) sweeps.push_back(std::move(sweep));
  };
  add(SweepOf(group.parts, 0, heads, 0, group.common, window));
  int64_t first = 0;
  for (const RunPart& part : group.parts) {
    add(SweepOf({&part, 1}, first, heads, group.common, static_cast<int64_t>(part.blocks.size()),
                window));
    first += part.rows * heads;
  }
  return sweeps;
}

double CostOf(const std::vector<PagedSweep>& sweeps) {
  double cost = 0;
  for (const PagedSweep& sweep : sweeps)
    cost += static_cast<double>(sweep.blocks.size()) *
            static_cast<double>(kTaskRows / 4 + sweep.end - sweep.first);
  return cost;
}

template <typename Number>
void RunOnHost(const at::Tensor& q_THD, const PagedKeys& keys, const std::vector<PagedRun>& runs,
               const PagedRule& rule, const PartialAttention& results) {
  const int64_t heads = q_THD.size(1), kv_heads = keys.keys_NKDB().size(1),
                queries = heads / kv_heads, dim = q_THD.size(2),
                value_dim = keys.values_NKBD().size(3);
  const int64_t threads = at::get_num_threads();
  const std::vector<Group> groups = GroupsOf(runs, queries, (threads + kv_heads - 1) / kv_heads);
  std::vector<std::vector<PagedSweep>> sweeps;
  std::vector<double> cost;
  for (const Group& group : groups) {
    sweeps.push_back(SweepsOf(group, queries, rule.window));
    cost.insert(cost.end(), kv_heads, CostOf(sweeps.back()));
  }
  const Number* const q = q_THD.const_data_ptr<Number>();
  Number* const out = results.out_MHD.mutable_data_ptr<Number>();
  Number* const lse = results.lse_MH.mutable_data_ptr<Number>();
  const PagedNumbers numbers = NumbersOf(keys.keys_NKDB().scalar_type());
  const auto scale = static_cast<Number>(rule.score.scale);
  base::RunParallelTasks(cost, [&](int64_t number) {
    const Group& group = groups[number / kv_heads];
    const int64_t kv_head = number % kv_heads, rows = group.rows() * queries;
    std::vector<Number> of_q(rows * dim), of_out(rows * value_dim), of_lse(rows);
    // The query heads of a row that read this kv head are adjacent.
    int64_t at = 0;
    for (const RunPart& part : group.parts) {
      for (int64_t r = 0; r < part.rows; ++r, at += queries) {
        const Number* from = q + ((part.row + r) * heads + kv_head * queries) * dim;
        for (int64_t c = 0; c < queries * dim; ++c) of_q[at * dim + c] = from[c] * scale;
      }
    }
    const PagedTask task{keys.keys_NKDB().const_data_ptr(),
                         keys.values_NKBD().const_data_ptr(),
                         kv_heads,
                         kv_head,
                         dim,
                         value_dim,
                         rule.score.softcap,
                         sweeps[number / kv_heads]};
    RunPagedTask(task, numbers, rows, of_q.data(), of_out.data(), of_lse.data());
    at = 0;
    for (const RunPart& part : group.parts) {
      for (int64_t r = 0; r < part.rows; ++r, at += queries) {
        const int64_t place = (part.row + r) * heads + kv_head * queries;
        std::copy_n(of_out.data() + at * value_dim, queries * value_dim, out + place * value_dim);
        std::copy_n(of_lse.data() + at, queries, lse + place);
      }
    }
  });
}

void Check(const at::Tensor& q_THD, const PagedKeys& keys, const std::vector<PagedRun>& runs,
           const PagedRule& rule) {
  TORCH_CHECK(keys.blocks() > 0, "paged attention: no keys have been written");
  const at::Tensor& held = keys.keys_NKDB();
  TORCH_CHECK(q_THD.dim() == 3 && q_THD.size(2) == held.size(2) &&
                  q_THD.size(1) % held.size(1) == 0 && q_THD.scalar_type() == held.scalar_type() &&
                  q_THD.device() == held.device(),
              "paged attention: q ", q_THD.scalar_type(), " ", q_THD.sizes(), ", keys ",
              held.scalar_type(), " ", held.sizes());
  TORCH_CHECK(rule.score.softcap >= 0.0 && std::isfinite(rule.score.softcap),
              "paged attention: a softcap of ", rule.score.softcap,
              ", expected more than 0, or 0 for none");
  TORCH_CHECK(rule.window >= 0, "paged attention: a window of ", rule.window);
  int64_t rows = 0;
  for (const PagedRun& run : runs) {
    rows += run.rows;
    for (const KeyBlock& block : run.blocks)
      TORCH_CHECK(block.block >= 0 && block.block < keys.blocks() && block.tokens <= kKeyBlock,
                  "paged attention: ", block.tokens, " tokens in block ", block.block, " of ",
                  keys.blocks());
  }
  TORCH_CHECK(rows == q_THD.size(0), "paged attention: runs of ", rows, " rows, q has ",
              q_THD.size(0));
}

PartialAttention EmptyResults(const at::Tensor& q_THD, const PagedKeys& keys) {
  const at::TensorOptions options = q_THD.options().dtype(AccumulateType(q_THD.scalar_type()));
  return {at::empty({q_THD.size(0), q_THD.size(1), keys.values_NKBD().size(3)}, options),
          at::empty({q_THD.size(0), q_THD.size(1)}, options)};
}

bool TakesKernel(const at::Tensor& q_THD, const PagedKeys& keys) {
  return kernels::PagedAttentionTakes(q_THD.scalar_type(), q_THD.size(2),
                                      keys.values_NKBD().size(3)) &&
         kernels::UseKernel(q_THD, kernels::kPagedAttention);
}

KeptTasks::Table TableOf(const std::vector<PagedRun>& runs, int64_t queries, int64_t window,
                         c10::Device device) {
  std::vector<int64_t> rows;
  int64_t row = 0;
  for (const PagedRun& run : runs) {
    for (const int64_t end = row + run.rows; row < end; ++row) {
      if (IsDecoded(run)) rows.push_back(row);
    }
  }
  KeptTasks::Table made{kernels::TableOf(PagedTasks(runs, queries, window), rows), {}};
  made.there = base::ToDevice(made.table.words, device);
  made.table.words.clear();
  return made;
}

// The kernel computes the runs for which IsDecoded is true; GatheredAttention computes all other
// runs together.
PartialAttention FusedAttention(const at::Tensor& q_THD, const PagedKeys& keys,
                                const std::vector<PagedRun>& runs, const PagedRule& rule,
                                KeptTasks& kept) {
  std::vector<PagedRun> others;
  std::vector<RowRange> other_rows;
  int64_t row = 0;
  for (const PagedRun& run : runs) {
    if (!IsDecoded(run)) {
      others.push_back(run);
      other_rows.push_back({row, row + run.rows});
    }
    row += run.rows;
  }
  if (others.size() == runs.size()) return internal::GatheredAttention(q_THD, keys, runs, rule);
  const PartialAttention results = EmptyResults(q_THD, keys);
  const int64_t queries = q_THD.size(1) / keys.keys_NKDB().size(1);
  KeptTasks::Table& entry = kept.tables[{queries, rule.window}];
  if (!entry.there.defined()) entry = TableOf(runs, queries, rule.window, q_THD.device());
  kernels::PagedAttention(
      {q_THD, keys.keys_NKDB(), keys.values_NKBD(), entry.there, results.out_MHD, results.lse_MH},
      entry.table, rule.score.scale, rule.score.softcap);
  if (others.empty()) return results;
  std::vector<at::Tensor> q;
  for (const RowRange& rows : other_rows) q.push_back(RowsOfRange(q_THD, rows));
  const PartialAttention gathered = internal::GatheredAttention(at::cat(q), keys, others, rule);
  row = 0;
  for (const RowRange& rows : other_rows) {
    const RowRange from{row, row + rows.rows()};
    RowsOfRange(results.out_MHD, rows).copy_(RowsOfRange(gathered.out_MHD, from));
    RowsOfRange(results.lse_MH, rows).copy_(RowsOfRange(gathered.lse_MH, from));
    row = from.end;
  }
  return results;
}

}  // namespace

namespace internal {

PartialAttention GatheredAttention(const at::Tensor& q_THD, const PagedKeys& keys,
                                   const std::vector<PagedRun>& runs, const PagedRule& rule) {
  // Each run (one sequence's new rows) becomes a document. The rows of the sequence's blocks are
  // concatenated; adjacent tokens form one key segment.
  std::vector<int64_t> blocks, rows, lengths;
  std::vector<comm::Span> queries;
  std::vector<KeySegment> segments;
  for (const PagedRun& run : runs) {
    const auto document = static_cast<int64_t>(lengths.size());
    lengths.push_back(run.position + run.rows);
    queries.push_back({document, run.position, run.position + run.rows});
    for (const KeyBlock& block : run.blocks) {
      const int64_t tokens = std::min(block.end(), lengths.back()) - block.first;
      if (tokens <= 0) continue;
      const bool goes_on = !segments.empty() && segments.back().tokens.document == document &&
                           segments.back().tokens.end == block.first;
      if (goes_on) {
        segments.back().tokens.end += tokens;
      } else {
        segments.push_back(
            {{document, block.first, block.first + tokens}, static_cast<int64_t>(rows.size())});
      }
      for (int64_t row = 0; row < tokens; ++row) {
        rows.push_back(static_cast<int64_t>(blocks.size()) * kKeyBlock + row);
      }
      blocks.push_back(block.block);
    }
  }
  const at::Device device = q_THD.device();
  const at::Tensor blocks_there = base::ToDevice(blocks, device),
                   rows_there = base::ToDevice(rows, device);
  const auto gather = [&](const at::Tensor& held, at::IntArrayRef order) {
    const at::Tensor some = held.index_select(0, blocks_there).permute(order);
    return some.reshape({-1, some.size(2), some.size(3)}).index_select(0, rows_there);
  };
  const std::shared_ptr<const TileRunner> runner = DeviceTileRunner(device);
  const int64_t heads = q_THD.size(1), kv_heads = keys.keys_NKDB().size(1),
                value_dim = keys.values_NKBD().size(3);
  const TilePlan plan =
      PlanTiles(lengths, queries, segments, {.window = rule.window, .grid = runner->grid()});
  const RunHeads run{GroupHeads({{0, heads}, {0, kv_heads}}, heads / kv_heads), rule.score};
  const at::ScalarType type = runner->ComputeType(q_THD.scalar_type()),
                       sums = AccumulateType(q_THD.scalar_type());
  SoftmaxState state =
      SoftmaxState::Empty(q_THD.size(0), heads, value_dim, q_THD.options().dtype(sums));
  runner->Forward(run, plan,
                  {q_THD.to(type), gather(keys.keys_NKDB(), {0, 3, 1, 2}).to(type),
                   gather(keys.values_NKBD(), {0, 2, 1, 3}).to(type)},
                  state);
  return Finish(std::move(state));
}

}  // namespace internal

PartialAttention PagedAttention(const at::Tensor& q_THD, const PagedKeys& keys,
                                const std::vector<PagedRun>& runs, const PagedRule& rule,
                                KeptTasks* kept) {
  Check(q_THD, keys, runs, rule);
  if (q_THD.size(0) == 0) return EmptyResults(q_THD, keys);
  if (TakesKernel(q_THD, keys)) {
    KeptTasks own;
    return FusedAttention(q_THD, keys, runs, rule, kept == nullptr ? own : *kept);
  }
  if (!q_THD.is_cpu()) return internal::GatheredAttention(q_THD, keys, runs, rule);
  const PartialAttention results = EmptyResults(q_THD, keys);
  const at::Tensor q = q_THD.to(results.out_MHD.scalar_type()).contiguous();
  if (q.scalar_type() == at::kDouble) {
    RunOnHost<double>(q, keys, runs, rule, results);
  } else {
    RunOnHost<float>(q, keys, runs, rule, results);
  }
  return results;
}

}  // namespace moonring::attention
