#include "attention/hooks/composed_attention.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <initializer_list>
#include <string>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/bitwise_not.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>

#include "base/autograd/custom_function.h"

namespace moonring::attention {
namespace {

using base::Tensors;

// The inputs of a tile in one list: q, k, v, the sink if there is one, rows, given.
class TileInputs {
 public:
  explicit TileInputs(const ComposedCall& call) : sink_(call.rule.sink_H.defined() ? 1 : 0) {
    for (const auto& row : call.rows) rows_.push_back(row.first);
    for (const auto& each : call.given) given_.push_back(each.first);
  }

  // What a tile uses of the i-th input: its queries, its keys, or the whole input.
  at::Tensor Cut(const at::Tensor& whole, size_t i, const KeyTile& tile) const {
    if (i == 0) return whole.narrow(0, tile.queries.begin, tile.queries.rows());
    if (i >= 3 && (i < 3 + sink_ || i >= 3 + sink_ + rows_.size())) return whole;
    return whole.narrow(0, tile.keys.begin, tile.keys.rows());
  }
  at::Tensor Sink(const Tensors& inputs) const { return sink_ == 0 ? at::Tensor() : inputs[3]; }
  NamedTensors Rows(const Tensors& inputs) const { return Named(rows_, inputs, 3 + sink_); }
  NamedTensors Given(const Tensors& inputs) const {
    return Named(given_, inputs, 3 + sink_ + rows_.size());
  }

 private:
  static NamedTensors Named(const std::vector<std::string>& names, const Tensors& inputs,
                            size_t first) {
    NamedTensors named;
    for (size_t i = 0; i < names.size(); ++i) named.emplace_back(names[i], inputs[first + i]);
    return named;
  }

  size_t sink_;
  std::vector<std::string> rows_, given_;
};

// Repeats a dim 0 of 1 or of the kv heads for each of `heads`; throws if it is neither these nor
// all heads.
at::Tensor OfHeads(const at::Tensor& given, int64_t heads, int64_t kv_heads) {
  const int64_t count = given.size(0);
  if (count == heads || count == 1) return given;
  return count == kv_heads ? given.repeat_interleave(heads / kv_heads, 0) : at::Tensor();
}

class TileAttention {
 public:
  explicit TileAttention(const ComposedCall& call)
      : call_(call),
        inputs_(call),
        window_(call.keys->WindowOf(call.rule.layer, call.rule.window)) {
    // The autograd node keeps this object: tensors are its inputs.
    call_.record = nullptr;
    call_.rule.sink_H.reset();
    call_.rows.clear();
    call_.given.clear();
  }

  const TileInputs& inputs() const { return inputs_; }

  // bool [H or 1, M, blocks]: the blocks of keys that the hook chooses; undefined without a hook.
  at::Tensor Choose(const KeyTile& tile, const Tensors& cut, HookRecord* record) const {
    if (call_.hooks == nullptr || call_.hooks->blocks == nullptr) return {};
    const at::NoGradGuard no_grad;
    Tensors plain;
    for (const at::Tensor& each : cut) plain.push_back(each.detach());
    const HookTile seen = Seen(tile, plain);
    const int64_t m = tile.queries.rows(), heads = seen.keys.q_THD.size(1),
                  kv_heads = seen.keys.k_SKD.size(1), size = call_.hooks->block_size,
                  count = (tile.keys.rows() + size - 1) / size;
    const at::Tensor chosen = call_.hooks->blocks(seen);
    const bool fits = chosen.scalar_type() == at::kBool && chosen.dim() == 3 &&
                      (chosen.size(0) == m || chosen.size(0) == 1) && chosen.size(2) == count;
    const at::Tensor chosen_HMB =
        fits ? OfHeads(chosen.permute({1, 0, 2}), heads, kv_heads) : at::Tensor();
    TORCH_CHECK_VALUE(chosen_HMB.defined(), Where(), "blocks returned ", chosen.scalar_type(), " ",
                      chosen.sizes(), ", expected Bool [queries or 1, heads, blocks] with ", m,
                      " queries, ", heads, " or ", kv_heads, " or 1 heads and ", count,
                      " blocks of ", size, " keys");
    if (record != nullptr) record->Note("blocks", call_.rule.layer, chosen_HMB);
    return chosen_HMB.to(cut[0].device());
  }

  // Returns the tile's result [M, H, Dv] in AccumulateType. `records` compare what `bias` returns.
  at::Tensor Run(const KeyTile& tile, const Tensors& cut, const at::Tensor& chosen_HMB,
                 std::initializer_list<HookRecord*> records) const {
    const HookTile seen = Seen(tile, cut);
    const at::Tensor &q_MHD = seen.keys.q_THD, &k_NKD = seen.keys.k_SKD, &v_NKD = seen.keys.v_SKD;
    const int64_t m = q_MHD.size(0), heads = q_MHD.size(1), kv_heads = k_NKD.size(1);
    const at::Tensor bias = Bias(seen, cut, records);
    at::Tensor allowed = AllowedKeys(tile, window_, q_MHD.device()).unsqueeze(0), used_N;
    if (chosen_HMB.defined()) {
      const auto keys_of = [&](const at::Tensor& of_blocks) {
        return of_blocks.repeat_interleave(call_.hooks->block_size, -1)
            .narrow(-1, 0, tile.keys.rows());
      };
      allowed = allowed & keys_of(chosen_HMB);
      CheckQueries(tile, allowed);
      const at::Tensor used_B = chosen_HMB.any(0).any(0);
      if (!used_B.all().item<bool>()) used_N = keys_of(used_B).nonzero().squeeze(1);
    }
    const auto pick = [&](const at::Tensor& whole, int64_t dim) {
      const bool all = !used_N.defined() || whole.size(dim) == 1;
      return all ? whole : whole.index_select(dim, used_N);
    };
    const at::Tensor rows_KRD =
        q_MHD.permute({1, 0, 2}).reshape({kv_heads, heads / kv_heads * m, q_MHD.size(2)});
    at::Tensor scores_HMN =
        at::matmul(rows_KRD, pick(k_NKD, 0).permute({1, 2, 0})).view({heads, m, -1}) *
        call_.rule.scale;
    if (const double cap = call_.rule.softcap; cap != 0.0)
      scores_HMN = at::tanh(scores_HMN / cap) * cap;
    if (bias.defined()) scores_HMN = scores_HMN + pick(bias, -1);
    scores_HMN = scores_HMN.masked_fill(at::bitwise_not(pick(allowed, -1)), -INFINITY);
    const at::Tensor values_KND = pick(v_NKD, 0).permute({1, 0, 2});
    const at::Tensor out_HMD =
        at::matmul(
            Weights(scores_HMN, inputs_.Sink(cut)).reshape({kv_heads, -1, scores_HMN.size(2)}),
            values_KND)
            .view({heads, m, -1});
    return out_HMD.permute({1, 0, 2});
  }

 private:
  std::string Where() const {
    return "inside: block " + std::to_string(call_.rule.layer + 1) + ": ";
  }

  HookTile Seen(const KeyTile& tile, const Tensors& cut) const {
    const at::ScalarType type = AccumulateType(cut[0].scalar_type());
    HookTile seen{.layer = call_.rule.layer,
                  .document = tile.document,
                  .keys = {cut[0].to(type), cut[1].to(type), cut[2].to(type)},
                  .places_M = {},
                  .rows = inputs_.Rows(cut),
                  .given = inputs_.Given(cut)};
    if (call_.hooks != nullptr) {
      seen.places_M = at::arange(tile.place, tile.place + tile.queries.rows(),
                                 cut[0].options().dtype(at::kLong));
    }
    return seen;
  }

  at::Tensor Bias(const HookTile& seen, const Tensors& cut,
                  std::initializer_list<HookRecord*> records) const {
    if (call_.hooks == nullptr || call_.hooks->bias == nullptr) return {};
    at::Tensor bias = call_.hooks->bias(seen);
    const int64_t sizes[] = {seen.keys.q_THD.size(1), seen.keys.q_THD.size(0),
                             seen.keys.k_SKD.size(0)};
    bool fits = bias.is_floating_point() && bias.dim() <= 3;
    for (int64_t d = 1; fits && d <= bias.dim(); ++d)
      fits = bias.size(-d) == 1 || bias.size(-d) == sizes[3 - d];
    TORCH_CHECK_VALUE(fits, Where(), "bias returned ", bias.scalar_type(), " ", bias.sizes(),
                      ", expected numbers that broadcast to [", sizes[0], " heads, ", sizes[1],
                      " queries, ", sizes[2], " keys]");
    if (!call_.keeps_graph) CheckGraph("bias", call_.rule.layer, bias, Boundary(seen, cut));
    for (HookRecord* const record : records) {
      // One query's numbers: a sum over all would cost as much as the softmax.
      if (record != nullptr)
        record->Note("bias", call_.rule.layer, bias.dim() < 2 ? bias : bias.select(-2, -1));
    }
    while (bias.dim() < 3) bias = bias.unsqueeze(0);
    return bias.to(seen.keys.q_THD.options());
  }

  // The tensors through which a hook may reach the tile's inputs.
  static Tensors Boundary(const HookTile& seen, const Tensors& cut) {
    Tensors boundary = cut;
    boundary.insert(boundary.end(), {seen.keys.q_THD, seen.keys.k_SKD, seen.keys.v_SKD});
    return boundary;
  }

  void CheckQueries(const KeyTile& tile, const at::Tensor& allowed_HMN) const {
    const at::Tensor none_M = at::bitwise_not(allowed_HMN.any(-1).all(0));
    if (!none_M.any().item<bool>()) return;
    const int64_t place = tile.place + none_M.to(at::kLong).argmax().item<int64_t>();
    TORCH_CHECK_VALUE(false, Where(), "blocks chose no key that the query at place ", place,
                      " of document ", tile.document + 1,
                      " may attend to; the query's own block is always possible (block ",
                      place / call_.hooks->block_size, ")");
  }

  // The softmax over the keys, and over the sink if there is one.
  static at::Tensor Weights(const at::Tensor& scores_HMN, const at::Tensor& sink_H) {
    if (!sink_H.defined()) return at::softmax(scores_HMN, -1);
    const at::Tensor sink_HM1 = sink_H.to(scores_HMN.options())
                                    .view({-1, 1, 1})
                                    .expand({scores_HMN.size(0), scores_HMN.size(1), 1});
    return at::softmax(at::cat({scores_HMN, sink_HM1}, -1), -1).narrow(-1, 0, scores_HMN.size(2));
  }

  ComposedCall call_;
  TileInputs inputs_;
  int64_t window_;
};

// The work that both directions share, kept by the autograd node.
struct Work {
  TileAttention attention;
  std::vector<KeyTile> tiles;
  Tensors chosen;                   // by tile
  std::vector<HookRecord> records;  // by tile: the backward's bias must be that of the forward

  Tensors Cut(const KeyTile& tile, const Tensors& inputs) const {
    Tensors cut;
    for (size_t i = 0; i < inputs.size(); ++i)
      cut.push_back(attention.inputs().Cut(inputs[i], i, tile));
    return cut;
  }
};

// The number of queries of a tile: a multiple of 64, so that its scores fit kTileBytes if possible.
int64_t RowsOfTiles(const ComposedCall& call, const at::Tensor& q_THD) {
  const int64_t keys = std::max<int64_t>(1, call.keys->most_keys(call.rule.layer));
  const int64_t row =
      keys * q_THD.size(1) * (AccumulateType(q_THD.scalar_type()) == at::kDouble ? 8 : 4);
  return std::clamp<int64_t>(kTileBytes / row / 64 * 64, 64, 512);
}

// The gradients of the inputs, summed over the tiles.
Tensors Backward(Work& work, const base::BackwardCall& call, const at::Tensor& dout_THD) {
  const Tensors& inputs = call.saved;
  Tensors sums(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (call.wanted[i] && inputs[i].is_floating_point())
      sums[i] = at::zeros(inputs[i].sizes(),
                          inputs[i].options().dtype(AccumulateType(inputs[i].scalar_type())));
  }
  const at::ScalarType type = AccumulateType(inputs[0].scalar_type());
  for (size_t t = 0; t < work.tiles.size(); ++t) {
    const KeyTile& tile = work.tiles[t];
    Tensors cut = work.Cut(tile, inputs), leaves;
    std::vector<size_t> places;
    for (size_t i = 0; i < cut.size(); ++i) {
      cut[i] = cut[i].detach();
      if (!sums[i].defined()) continue;
      leaves.push_back(cut[i].requires_grad_());
      places.push_back(i);
    }
    at::Tensor out_MHD;
    {
      const at::AutoGradMode record(true);
      work.records[t].Begin();
      out_MHD = work.attention.Run(tile, cut, work.chosen[t], {&work.records[t]});
    }
    if (!out_MHD.requires_grad()) continue;
    const Tensors gradients = base::Differentiate(
        {out_MHD}, leaves, {dout_THD.narrow(0, tile.queries.begin, tile.queries.rows()).to(type)});
    for (size_t i = 0; i < gradients.size(); ++i) {
      if (gradients[i].defined())
        work.attention.inputs().Cut(sums[places[i]], places[i], tile).add_(gradients[i]);
    }
  }
  for (size_t i = 0; i < sums.size(); ++i)
    if (sums[i].defined()) sums[i] = sums[i].to(inputs[i].scalar_type());
  return sums;
}

at::Tensor Joined(const Tensors& outs, const Tensors& inputs) {
  if (!outs.empty()) return at::cat(outs, 0);
  // A rank without queries still takes part in the other ranks' backward.
  const at::Tensor &q_THD = inputs[0], &v_NKD = inputs[2];
  at::Tensor out = at::zeros({0, q_THD.size(1), v_NKD.size(2)}, q_THD.options());
  for (const at::Tensor& input : inputs)
    if (input.requires_grad()) out = out + input.sum().to(out.scalar_type());
  return out;
}

}  // namespace

at::Tensor ComposedAttention(const ComposedCall& call, const QueryKeyValue& local) {
  const int64_t layer = call.rule.layer;
  Tensors sent = {local.k_SKD, local.v_SKD};
  for (const auto& row : call.rows) sent.push_back(row.second);
  const Tensors gathered = call.keys->Gather(layer, std::move(sent));
  Tensors inputs = {local.q_THD, gathered[0], gathered[1]};
  if (call.rule.sink_H.defined()) inputs.push_back(call.rule.sink_H);
  inputs.insert(inputs.end(), gathered.begin() + 2, gathered.end());
  for (const auto& each : call.given) inputs.push_back(each.second);

  const auto work = std::make_shared<Work>(
      Work{TileAttention(call), call.keys->Tiles(layer, RowsOfTiles(call, local.q_THD)), {}, {}});
  const at::ScalarType type = local.q_THD.scalar_type();
  const auto run = [&] {
    Tensors outs;
    for (const KeyTile& tile : work->tiles) {
      const Tensors cut = work->Cut(tile, inputs);
      work->chosen.push_back(work->attention.Choose(tile, cut, call.record));
      HookRecord& record = work->records.emplace_back();
      outs.push_back(
          work->attention.Run(tile, cut, work->chosen.back(), {call.record, &record}).to(type));
    }
    return Joined(outs, inputs);
  };
  if (call.keeps_graph) return run();
  return base::ApplyToOne({.name = "composed attention",
                           .forward =
                               [&](Tensors* saved) {
                                 *saved = inputs;
                                 return Tensors{run()};
                               },
                           .backward =
                               [work](base::BackwardCall& backward) {
                                 return Backward(*work, backward, backward.gradients[0]);
                               }},
                          inputs);
}

}  // namespace moonring::attention
