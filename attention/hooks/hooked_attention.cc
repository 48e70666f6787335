#include "attention/hooks/hooked_attention.h"

#include <utility>
#include <vector>

#include <c10/util/Exception.h>

#include "attention/hooks/composed_attention.h"

namespace moonring::attention {
namespace {

void CheckLike(const char* name, int64_t layer, const at::Tensor& given, const at::Tensor& like) {
  TORCH_CHECK_VALUE(given.sizes() == like.sizes() && given.scalar_type() == like.scalar_type() &&
                        given.device() == like.device(),
                    "inside: block ", layer + 1, ": qkv returned ", name, " ", given.scalar_type(),
                    " ", given.sizes(), " on ", given.device(), ", expected ", like.scalar_type(),
                    " ", like.sizes(), " on ", like.device());
}

}  // namespace

HookedAttention::HookedAttention(PlannedAttention& inner, Setting setting)
    : inner_(inner), setting_(std::move(setting)) {}

QueryKeyValue HookedAttention::Replaced(const QueryKeyValue& rows, int64_t layer) const {
  if (setting_.hooks == nullptr || setting_.hooks->qkv == nullptr) return rows;
  const QueryKeyValue made = setting_.hooks->qkv(rows, setting_.given);
  CheckLike("q", layer, made.q_THD, rows.q_THD);
  CheckLike("k", layer, made.k_SKD, rows.k_SKD);
  CheckLike("v", layer, made.v_SKD, rows.v_SKD);
  std::vector<at::Tensor> boundary = {rows.q_THD, rows.k_SKD, rows.v_SKD};
  for (const auto& each : setting_.given) boundary.push_back(each.second);
  for (const at::Tensor& each : {made.q_THD, made.k_SKD, made.v_SKD}) {
    if (!setting_.keeps_graph) CheckGraph("qkv", layer, each, boundary);
    setting_.record->Note("qkv", layer, each);
  }
  return {made.q_THD.contiguous(), made.k_SKD.contiguous(), made.v_SKD.contiguous()};
}

NamedTensors HookedAttention::Rows(int64_t layer) const {
  if (setting_.hooks == nullptr || setting_.hooks->rows == nullptr) return {};
  NamedTensors rows = setting_.hooks->rows(setting_.hidden_TD, setting_.given);
  std::vector<at::Tensor> boundary = {setting_.hidden_TD};
  for (const auto& each : setting_.given) boundary.push_back(each.second);
  for (const auto& [name, tensor] : rows) {
    TORCH_CHECK_VALUE(tensor.dim() >= 1 && tensor.size(0) == setting_.hidden_TD.size(0),
                      "inside: block ", layer + 1, ": rows returned '", name, "' of shape ",
                      tensor.sizes(), ", expected ", setting_.hidden_TD.size(0),
                      " rows, one for each token of this rank");
    if (!setting_.keeps_graph) CheckGraph("rows", layer, tensor, boundary);
    setting_.record->Note("rows", layer, tensor);
  }
  return rows;
}

at::Tensor HookedAttention::Forward(const at::Tensor& q_THD, const at::Tensor& k_TKD,
                                    const at::Tensor& v_TKD, const ScoreRule& rule,
                                    KeptAttention* kept) {
  setting_.record->Begin();
  const QueryKeyValue rows = Replaced({q_THD, k_TKD, v_TKD}, rule.layer);
  const bool composes = setting_.hooks != nullptr && setting_.hooks->composes();
  if (!composes && !setting_.keeps_graph)
    return inner_.Forward(rows.q_THD, rows.k_SKD, rows.v_SKD, rule, kept);
  return ComposedAttention({.keys = setting_.keys,
                            .rule = rule,
                            .hooks = composes ? setting_.hooks : nullptr,
                            .rows = composes ? Rows(rule.layer) : NamedTensors(),
                            .given = composes ? setting_.given : NamedTensors(),
                            .record = setting_.record.get(),
                            .keeps_graph = setting_.keeps_graph},
                           rows);
}

LayerAttention::LayerAttention(std::shared_ptr<PlannedAttention> plan,
                               HookedAttention::Setting setting)
    : plan_(std::move(plan)), setting_(std::move(setting)) {
  setting_.record = std::make_shared<HookRecord>();
  for (auto& each : setting_.given) each.second.reset();  // the graph must not keep them
}

}  // namespace moonring::attention
