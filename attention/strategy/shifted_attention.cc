#include "attention/strategy/shifted_attention.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

#include <ATen/ops/cat.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/split_with_sizes.h>
#include <ATen/ops/tensor.h>
#include <c10/util/Exception.h>

#include "base/status/status_macros.h"

namespace moonring::attention {
namespace {

constexpr int64_t kGroups = 4, kMultiple = 8;

// Query-key pairs of the first `tokens` tokens of consecutive groups.
double AreaInGroups(int64_t tokens, int64_t group) {
  const auto causal = [](int64_t of) {
    return static_cast<double>(of) * static_cast<double>(of + 1) / 2;
  };
  return static_cast<double>(tokens / group) * causal(group) + causal(tokens % group);
}

// As AreaInGroups, for the half of the heads whose groups are shifted: the first G / 2 tokens of
// the document also attend to its last tokens.
double AreaInShifted(int64_t tokens, int64_t length, int64_t group) {
  const int64_t half = group / 2, first = std::min(tokens, half),
                last = std::max<int64_t>(0, length - (kGroups * group - half));
  return AreaInGroups(first, group) + static_cast<double>(first) * static_cast<double>(last) +
         AreaInGroups(tokens - first, group);
}

// The heads of k or v that a half reads.
at::Tensor KvHeads(const at::Tensor& rows_TKD, const std::vector<int64_t>& kv) {
  const auto heads = static_cast<int64_t>(kv.size());
  if (kv.back() - kv.front() + 1 == heads) return rows_TKD.narrow(1, kv.front(), heads);
  return at::index_select(rows_TKD, 1, at::tensor(kv, rows_TKD.options().dtype(at::kLong)));
}

// The kv heads that each half reads. If the halves share no kv head, the tensor is split, and its
// gradient is one concatenation.
std::array<at::Tensor, 2> KvOfHalves(const at::Tensor& rows_TKD,
                                     const std::array<ShiftedHeads, 2>& split) {
  const std::vector<int64_t>&one = split[0].kv, &other = split[1].kv;
  if (one.empty()) return {at::Tensor(), KvHeads(rows_TKD, other)};
  if (static_cast<int64_t>(one.size() + other.size()) == rows_TKD.size(1)) {
    std::vector<at::Tensor> parts = at::split_with_sizes(
        rows_TKD, {static_cast<int64_t>(one.size()), static_cast<int64_t>(other.size())}, 1);
    return {parts[0], parts[1]};
  }
  return {KvHeads(rows_TKD, one), KvHeads(rows_TKD, other)};
}

class PlannedShifted final : public PlannedAttention {
 public:
  explicit PlannedShifted(std::array<std::unique_ptr<PlannedAttention>, 2> halves)
      : halves_(std::move(halves)) {}

  at::Tensor Forward(const at::Tensor& q_THD, const at::Tensor& k_TKD, const at::Tensor& v_TKD,
                     const ScoreRule& rule, KeptAttention* kept) override {
    TORCH_CHECK(q_THD.dim() == 3 && k_TKD.dim() == 3 && v_TKD.dim() == 3,
                "attention: expected q [T, H, D], k [T, Hk, D] and v [T, Hk, Dv], got q ",
                q_THD.sizes(), ", k ", k_TKD.sizes(), ", v ", v_TKD.sizes());
    TORCH_CHECK(k_TKD.size(1) == v_TKD.size(1), "attention: heads of k ", k_TKD.sizes(), " and v ",
                v_TKD.sizes(), " differ");
    TORCH_CHECK(rule.window == 0, "shifted attention: a window of ", rule.window,
                " tokens: it has groups in place of windows");
    const std::array<ShiftedHeads, 2> split = SplitHalves(q_THD.size(1), k_TKD.size(1));
    const std::vector<at::Tensor> q =
        at::split_with_sizes(q_THD, {split[0].queries.heads(), split[1].queries.heads()}, 1);
    const std::array<at::Tensor, 2> k = KvOfHalves(k_TKD, split), v = KvOfHalves(v_TKD, split);
    std::array<KeptAttention, 2> kept_of = Apart(kept, split);
    std::vector<at::Tensor> outs;
    for (int half = 0; half < 2; ++half) {
      const HeadRange& heads = split[half].queries;
      if (heads.heads() == 0) continue;
      ScoreRule own = rule;
      if (rule.sink_H.defined()) own.sink_H = rule.sink_H.narrow(0, heads.begin, heads.heads());
      outs.push_back(halves_[half]->Forward(q[half], k[half], v[half], own,
                                            kept != nullptr ? &kept_of[half] : nullptr));
    }
    if (kept != nullptr && kept->empty()) kept->Keep(Together(kept_of));
    return outs.size() == 1 ? outs[0] : at::cat(outs, 1);
  }

 private:
  // Joins the tensors that the two halves of the heads keep for recompute: those of the first half,
  // then those of the second. If both halves have heads, they keep equally many tensors, so Apart
  // can separate them again.
  static std::vector<at::Tensor> Together(const std::array<KeptAttention, 2>& kept_of) {
    std::vector<at::Tensor> tensors;
    for (const KeptAttention& half : kept_of)
      tensors.insert(tensors.end(), half.tensors().begin(), half.tensors().end());
    return tensors;
  }
  static std::array<KeptAttention, 2> Apart(const KeptAttention* kept,
                                            const std::array<ShiftedHeads, 2>& split) {
    std::array<KeptAttention, 2> kept_of;
    if (kept == nullptr || kept->empty()) return kept_of;
    const std::vector<at::Tensor>& tensors = kept->tensors();
    const bool is_one = split[0].queries.heads() == 0;
    const auto middle =
        tensors.begin() + (is_one ? 0 : static_cast<std::ptrdiff_t>(tensors.size() / 2));
    kept_of[0].Keep({tensors.begin(), middle});
    kept_of[1].Keep({middle, tensors.end()});
    return kept_of;
  }

  std::array<std::unique_ptr<PlannedAttention>, 2> halves_;
};

}  // namespace

int64_t ShiftedGroup(int64_t length) {
  return std::max<int64_t>(1, (length + kMultiple - 1) / kMultiple) * kMultiple / kGroups;
}

std::array<ShiftedHeads, 2> SplitHalves(int64_t heads, int64_t kv_heads) {
  TORCH_CHECK(kv_heads > 0 && heads > 0 && heads % kv_heads == 0, "attention: ", heads,
              " query heads are no multiple of ", kv_heads, " kv heads");
  const int64_t group = heads / kv_heads;
  std::array<ShiftedHeads, 2> split = {ShiftedHeads{{0, heads / 2}},
                                       ShiftedHeads{{heads / 2, heads}}};
  for (ShiftedHeads& half : split) {
    // Each kv head of the half, with the number of its query heads in the half.
    std::vector<std::pair<int64_t, int64_t>> readers;
    int64_t share = 0;
    for (int64_t begin = half.queries.begin; begin < half.queries.end;) {
      const int64_t kv = begin / group, end = std::min(half.queries.end, (kv + 1) * group);
      readers.emplace_back(kv, end - begin);
      share = std::gcd(share, end - begin);
      begin = end;
    }
    for (const auto& [kv, count] : readers) half.kv.insert(half.kv.end(), count / share, kv);
  }
  return split;
}

absl::StatusOr<ShiftedDocuments> DocumentsOfHalf(absl::Span<const int64_t> lengths, int half) {
  ShiftedDocuments of;
  std::vector<DocumentMask> masks;
  for (const int64_t length : lengths) {
    const int64_t group = ShiftedGroup(length);
    int64_t given = 0;
    const auto give_to = [&](int64_t end) {
      of.lengths.push_back(std::clamp(end, given, length) - given);
      given += of.lengths.back();
      masks.push_back({});
    };
    const size_t first = of.lengths.size();
    if (half == 1) give_to(group / 2);
    for (int64_t g = 1; g < kGroups; ++g) give_to(g * group + half * (group / 2));
    give_to(length);
    if (half == 1 && of.lengths.back() > 0)
      masks[first] = {0, static_cast<int64_t>(of.lengths.size()) - 1, of.lengths.back()};
  }
  if (half == 1) {
    ASSIGN_OR_RETURN(of.mask, Mask::Create(of.lengths, std::move(masks)));
  }
  return of;
}

double ShiftedArea(int64_t length, int64_t begin, int64_t end) {
  const int64_t group = ShiftedGroup(length);
  const auto before = [&](int64_t tokens) {
    return AreaInGroups(tokens, group) + AreaInShifted(tokens, length, group);
  };
  return (before(end) - before(begin)) / 2;
}

absl::StatusOr<std::unique_ptr<PlannedAttention>> PlanShifted(
    const Attention& attention, std::shared_ptr<const comm::Layout> layout) {
  const Attention& strategy = attention.For(layout->lengths());
  std::array<std::unique_ptr<PlannedAttention>, 2> halves;
  for (int half = 0; half < 2; ++half) {
    ASSIGN_OR_RETURN(ShiftedDocuments documents, DocumentsOfHalf(layout->lengths(), half));
    ASSIGN_OR_RETURN(auto of_half, layout->WithDocuments(std::move(documents.lengths)));
    LayerMasks masks;
    if (documents.mask != nullptr) masks.push_back(std::move(documents.mask));
    ASSIGN_OR_RETURN(halves[half], strategy.Plan(std::move(of_half), std::move(masks)));
  }
  return std::make_unique<PlannedShifted>(std::move(halves));
}

absl::StatusOr<AttentionCost> CostOfShifted(const Strategy& strategy, const comm::Layout& layout,
                                            const AttentionShape& shape, int ranks_per_machine) {
  const HeadDims dims = shape.dims();
  const int64_t e = shape.element_bytes;
  // Whether the out that a half saves for the backward is another tensor than its result.
  const bool keeps_another = layout.division().heads > 1 || e != shape.accumulate_bytes;
  AttentionCost cost(layout.ranks());
  // Bytes, by half and rank.
  struct Memory {
    int64_t peak = 0, saved = 0, out = 0, gradients = 0;
  };
  std::array<std::vector<Memory>, 2> memory;
  const std::array<ShiftedHeads, 2> split = SplitHalves(shape.heads, shape.kv_heads);
  for (int half = 0; half < 2; ++half) {
    memory[half].resize(layout.ranks());
    AttentionShape own = shape;
    own.heads = split[half].queries.heads();
    own.kv_heads = static_cast<int64_t>(split[half].kv.size());
    if (own.heads == 0) continue;
    ASSIGN_OR_RETURN(const ShiftedDocuments documents, DocumentsOfHalf(layout.lengths(), half));
    ASSIGN_OR_RETURN(const auto of_half, layout.WithDocuments(documents.lengths));
    const Mask* const mask =
        documents.mask != nullptr && !documents.mask->is_plain() ? documents.mask.get() : nullptr;
    const AttentionCost of = CostOfAttention(strategy, *of_half, own, ranks_per_machine, mask);
    for (int rank = 0; rank < layout.ranks(); ++rank) {
      RankCost& all = cost[rank];
      all.tile_area += of[rank].tile_area;
      for (Traffic RankCost::*traffic : {&RankCost::exchange_forward, &RankCost::exchange_backward,
                                         &RankCost::context_forward, &RankCost::context_backward})
        all.*traffic += of[rank].*traffic;
      const int64_t rows = layout.local_tokens(rank), out = rows * own.heads * dims.value * e;
      memory[half][rank] = {of[rank].peak_bytes, of[rank].saved_bytes + (keeps_another ? 0 : out),
                            out,
                            rows * RankHeads{{0, own.heads}, {0, own.kv_heads}}.packed(dims) * e};
    }
  }
  for (int rank = 0; rank < layout.ranks(); ++rank) {
    // The backward computes the second half first. The joined output is allocated during the whole
    // backward.
    const Memory &first = memory[0][rank], &second = memory[1][rank];
    cost[rank].saved_bytes = first.saved + second.saved;
    const int64_t queries = layout.local_tokens(rank) * shape.heads * dims.key * e;
    cost[rank].peak_bytes =
        std::max<int64_t>({0, second.peak - first.gradients + (keeps_another ? first.out : 0),
                           first.peak - second.saved, queries - cost[rank].saved_bytes});
  }
  return cost;
}

}  // namespace moonring::attention
