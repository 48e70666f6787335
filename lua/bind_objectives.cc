// Token log-probs and what a step counts and sums.

#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "comm/layout.h"
#include "comm/mesh.h"
#include "comm/sequence.h"
#include "comm/torch_status.h"
#include "lua/bindings.h"
#include "lua/class.h"
#include "lua/handles.h"
#include "lua/options.h"
#include "lua/tensor.h"
#include "objectives/documents.h"
#include "objectives/log_prob.h"
#include "objectives/sft.h"
#include "objectives/sums.h"

namespace moonring::lua {

// A sum and a table name -> {sum, count}.
template <>
struct Value<objectives::Sums> {
  static int Push(lua_State* L, const objectives::Sums& sums) {
    Value<at::Tensor>::Push(L, sums.loss);
    lua_newtable(L);
    for (const auto& [name, metric] : sums.metrics) {
      Value<std::vector<double>>::Push(L, {metric.sum, metric.count});
      lua_setfield(L, -2, name.c_str());
    }
    return 2;
  }
};

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
             return sft.Loss(log_prob_T, targets_T);
           }>},
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
                 {"document_sums", Bind<[](at::Tensor values_T, comm::Layout& layout, comm::Mesh& mesh) {
                    return objectives::DocumentSums(values_T, layout, mesh.sp_group());
                  }>},
                 {"document_targets", Bind<[](comm::Sequence& sequence) { return objectives::DocumentTargets(sequence); }>},
                 {"desensitized", Bind<[](comm::Sequence& sequence, double alpha) { return objectives::Desensitized(sequence, alpha); }>},
             });
}

}  // namespace moonring::lua
