// Token log-probs and what a step counts and sums.

#include <memory>
#include <string>
#include <tuple>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "comm/mesh.h"
#include "comm/torch_status.h"
#include "lua/bindings.h"
#include "lua/class.h"
#include "lua/handles.h"
#include "lua/options.h"
#include "lua/tensor.h"
#include "objectives/log_prob.h"
#include "objectives/sft.h"

namespace moonring::lua {
namespace {

std::shared_ptr<objectives::Sft> MakeSft(Options options) {
  const std::string count = options.Get<std::string>("count", "labels");
  options.Finish();
  if (count != "labels" && count != "targets") {
    comm::ThrowIfError(absl::InvalidArgumentError(absl::StrCat("count: wanted labels or targets, got '", count, "'")));
  }
  using CountBy = objectives::SftOptions::CountBy;
  return std::make_shared<objectives::Sft>(objectives::SftOptions{.count = count == "labels" ? CountBy::kLabels : CountBy::kTargets});
}

objectives::LogProbOptions LogProbOptionsOf(Options options) {
  objectives::LogProbOptions result;
  result.matmul_dtype = DtypeNamed(options.Get<std::string>("dtype", "fp32"));
  options.Finish();
  return result;
}

}  // namespace

void OpenObjectives(lua_State* L) {
  Class<objectives::Sft>::Register(
      L, "Sft",
      {
          {"count", Bind<[](objectives::Sft& sft, at::Tensor labels_T, std::vector<int64_t> lengths) { return sft.Count(labels_T, lengths); }>},
          {"loss", Bind<[](objectives::Sft& sft, at::Tensor log_prob_T, at::Tensor targets_T) {
             objectives::Sums sums = sft.Loss(log_prob_T, targets_T);
             return std::make_tuple(sums.loss.value, std::make_shared<objectives::Metrics>(std::move(sums.metrics)));
           }>},
          {"metrics", Bind<[](objectives::Sft& sft) { return std::make_shared<objectives::Metrics>(sft.EmptyMetrics()); }>},
      });
  Class<objectives::Metrics>::Register(
      L, "Metrics",
      {
          {"add", Bind<[](objectives::Metrics& metrics, objectives::Metrics& other) { metrics.Add(other); }>},
          {"reduce", [](lua_State* state) {
             objectives::Metrics& metrics = *Class<objectives::Metrics>::Read(state, 1);
             comm::Mesh& mesh = *Class<comm::Mesh>::Read(state, 2);
             const auto totals = comm::ValueOrThrow(metrics.Reduce(mesh.world(), mesh.dp()));
             lua_newtable(state);
             for (const auto& [name, total] : totals) {
               lua_newtable(state);
               lua_pushnumber(state, total.sum);
               lua_setfield(state, -2, "sum");
               lua_pushnumber(state, static_cast<double>(total.count));
               lua_setfield(state, -2, "count");
               lua_setfield(state, -2, name.c_str());
             }
             return 1;
           }},
      });
  PushModule(L, "moonring.objectives",
             {
                 {"sft", Bind<&MakeSft>},
                 {"log_prob", Bind<[](at::Tensor hidden_TD, std::shared_ptr<comm::Parameter> head_VD, at::Tensor targets_T, Options options) {
                    return objectives::TokenLogProb(hidden_TD, head_VD, targets_T, LogProbOptionsOf(options));
                  }>},
                 {"logits", Bind<[](at::Tensor hidden_ND, comm::Parameter& head_VD, int64_t first_ids, Options options) {
                    objectives::RowLogits rows = objectives::Logits(hidden_ND, head_VD, first_ids, LogProbOptionsOf(options));
                    return std::make_tuple(rows.logits_NK, rows.logsumexp_N);
                  }>},
             });
}

}  // namespace moonring::lua
