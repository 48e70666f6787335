#include "attention/kernels/varlen_tile_runner.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>

#include "attention/kernels/varlen_rounds.h"

namespace moonring::attention {
namespace {

// Consecutive kv heads with the same number of query heads each.
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

// The runs of heads, cut into slices such that the workspace of a backward (varlen_tile_runner.h)
// is at most `bytes`.
std::vector<HeadRun> RunSlicesOf(const std::vector<HeadRun>& runs, const QueryKeyValue& inputs,
                                 int64_t bytes) {
  if (inputs.q_THD.element_size() != 2) return runs;
  const int64_t head_dim = std::max(inputs.q_THD.size(2), inputs.v_SKD.size(2)),
                of_head = inputs.q_THD.size(0) * head_dim * 8;
  std::vector<HeadRun> slices;
  for (const HeadRun& run : runs) {
    const int64_t kv = run.kv.heads(), group = run.queries.heads() / kv,
                  wanted = (of_head * run.queries.heads() + bytes - 1) / bytes,
                  count = std::clamp<int64_t>(wanted, 1, kv);
    for (int64_t s = 0; s < count; ++s) {
      const int64_t first = s * kv / count, last = (s + 1) * kv / count;
      slices.push_back({{run.queries.begin + first * group, run.queries.begin + last * group},
                        {run.kv.begin + first, run.kv.begin + last}});
    }
  }
  return slices;
}

void MergePart(const PartialAttention& part, const Rows& rows, const SoftmaxState& state) {
  if (!rows.is_run()) return Merge(part, rows.index(), state);
  SoftmaxState views{rows.Of(state.max_TH), rows.Of(state.sum_TH), rows.Of(state.weighted_THD)};
  Merge(part, views);
}

// The kernel call for one round (varlen_rounds.h) and one run of heads.
VarlenTiles CallOfRound(const Round& round, const HeadRun& run, const ScoreFunction& score,
                        const QueryKeyValue& inputs) {
  VarlenTiles call = round.tiles;
  call.score = score;
  const QueryKeyValue rows = run.Of(inputs);
  call.q_MHD = round.queries.Of(rows.q_THD);
  call.k_NKD = round.keys.Of(rows.k_SKD);
  call.v_NKD = round.keys.Of(rows.v_SKD);
  return call;
}

TileGradients GradientsOf(const VarlenAttention& varlen, const Round& round, const HeadRun& run,
                          const ScoreFunction& score, const QueryKeyValue& inputs,
                          const QueryResults& results) {
  const auto of_queries = [&](const at::Tensor& rows) {
    return round.queries.Of(run.Queries(rows));
  };
  return varlen.Backward(CallOfRound(round, run, score, inputs), of_queries(results.dout_THD),
                         of_queries(results.out_THD), of_queries(results.lse_TH));
}

// Collects the results of consecutive runs of heads in one tensor. If there is one run, its tensor
// is returned without a copy.
class Joined {
 public:
  // `freed`: a tensor in whose memory the results are stored; when a run is added, the run's heads
  // of `freed` must not be needed any more. May be undefined.
  Joined(int64_t heads, size_t runs, at::Tensor freed = {})
      : heads_(heads), runs_(runs), freed_(std::move(freed)) {}

  void Add(at::Tensor of_run) {
    if (runs_ == 1) {
      all_ = std::move(of_run);
      return;
    }
    if (!all_.defined()) {
      std::vector<int64_t> sizes = of_run.sizes().vec();
      sizes[1] = heads_;
      const bool fits = freed_.defined() && freed_.is_contiguous() && freed_.sizes() == sizes &&
                        freed_.scalar_type() == of_run.scalar_type();
      all_ = fits ? std::move(freed_) : at::empty(sizes, of_run.options());
    }
    all_.narrow(1, at_, of_run.size(1)).copy_(of_run);
    at_ += of_run.size(1);
  }
  at::Tensor Take() { return std::move(all_); }

 private:
  int64_t heads_, at_ = 0;
  size_t runs_;
  at::Tensor freed_, all_;
};

void AddKeys(const Round& round, const TileGradients& add, const QueryKeyValue& sums) {
  for (const KeyWave& wave : round.waves) {
    wave.to.Add(wave.from.Of(add.dk_NKD), sums.k_SKD);
    wave.to.Add(wave.from.Of(add.dv_NKD), sums.v_SKD);
  }
}

void CheckRows(const TilePlan& plan, const QueryKeyValue& inputs) {
  TORCH_INTERNAL_ASSERT(inputs.q_THD.size(0) == plan.query_rows &&
                        inputs.k_SKD.size(0) == plan.key_rows);
}

}  // namespace

TileGrid VarlenTileRunner::GridFor(at::ScalarType input, int64_t head_dim,
                                   const ScoreFunction& score) const {
  return varlen_->TakesBands(input, head_dim, score) ? TileGrid::kBands : grid();
}

void VarlenTileRunner::Forward(const RunHeads& heads, const TilePlan& plan,
                               const QueryKeyValue& inputs, const SoftmaxState& state) const {
  CheckRows(plan, inputs);
  const std::vector<HeadRun> runs = HeadRunsOf(heads.groups);
  for (const Round& round : RoundsOf(plan, inputs.q_THD.device())) {
    for (const HeadRun& run : runs) {
      const PartialAttention part = varlen_->Forward(CallOfRound(round, run, heads.score, inputs));
      MergePart(
          part, round.queries,
          {run.Queries(state.max_TH), run.Queries(state.sum_TH), run.Queries(state.weighted_THD)});
    }
  }
}

void VarlenTileRunner::Backward(const RunHeads& heads, const TilePlan& plan,
                                const QueryKeyValue& inputs, const QueryResults& results,
                                const QueryKeyValue& gradients) const {
  CheckRows(plan, inputs);
  const std::vector<HeadRun> runs = RunSlicesOf(HeadRunsOf(heads.groups), inputs, workspace_bytes_);
  for (const Round& round : RoundsOf(plan, inputs.q_THD.device())) {
    for (const HeadRun& run : runs) {
      const TileGradients add = GradientsOf(*varlen_, round, run, heads.score, inputs, results);
      const QueryKeyValue sums = run.Of(gradients);
      round.queries.Add(add.dq_MHD, sums.q_THD);
      AddKeys(round, add, sums);
    }
  }
}

bool VarlenTileRunner::IsOneCall(const TilePlan& plan, const at::Device& device) const {
  const std::vector<Round>& rounds = RoundsOf(plan, device);
  return rounds.size() == 1 && rounds[0].queries.AreAllOf(plan.query_rows);
}

PartialAttention VarlenTileRunner::ForwardAtOnce(const RunHeads& heads, const TilePlan& plan,
                                                 const QueryKeyValue& inputs) const {
  CheckRows(plan, inputs);
  const Round& round = RoundsOf(plan, inputs.q_THD.device())[0];
  const std::vector<HeadRun> runs = HeadRunsOf(heads.groups);
  Joined out(inputs.q_THD.size(1), runs.size()), lse = out;
  for (const HeadRun& run : runs) {
    PartialAttention part = varlen_->Forward(CallOfRound(round, run, heads.score, inputs));
    out.Add(std::move(part.out_MHD));
    lse.Add(std::move(part.lse_MH));
  }
  return {out.Take(), lse.Take()};
}

QueryKeyValue VarlenTileRunner::BackwardAtOnce(const RunHeads& heads, const TilePlan& plan,
                                               const QueryKeyValue& inputs,
                                               const QueryResults& results,
                                               const QueryKeyValue& freed) const {
  CheckRows(plan, inputs);
  const Round& round = RoundsOf(plan, inputs.q_THD.device())[0];
  const bool are_keys_whole = round.keys.AreAllOf(plan.key_rows);
  const std::vector<HeadRun> runs = RunSlicesOf(HeadRunsOf(heads.groups), inputs, workspace_bytes_);
  Joined dq(inputs.q_THD.size(1), runs.size(), freed.q_THD),
      dk(inputs.k_SKD.size(1), runs.size(), freed.k_SKD),
      dv(inputs.k_SKD.size(1), runs.size(), freed.v_SKD);
  for (const HeadRun& run : runs) {
    TileGradients part = GradientsOf(*varlen_, round, run, heads.score, inputs, results);
    dq.Add(std::move(part.dq_MHD));
    if (!are_keys_whole) {
      const auto zeros = [&](const at::Tensor& of_all) {
        const at::Tensor rows = run.Keys(of_all);
        return at::zeros(rows.sizes(), rows.options().dtype(AccumulateType(rows.scalar_type())));
      };
      const at::Tensor sums_k = zeros(inputs.k_SKD), sums_v = zeros(inputs.v_SKD);
      AddKeys(round, part, {at::Tensor(), sums_k, sums_v});
      part.dk_NKD = sums_k;
      part.dv_NKD = sums_v;
    }
    dk.Add(std::move(part.dk_NKD));
    dv.Add(std::move(part.dv_NKD));
  }
  return {dq.Take(), dk.Take(), dv.Take()};
}

}  // namespace moonring::attention
