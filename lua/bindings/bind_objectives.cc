// Lua bindings for log-probs of tokens and for training objectives.

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/autograd/parameter.h"
#include "base/status/torch_status.h"
#include "base/text/nearest_name.h"
#include "comm/layout.h"
#include "comm/mesh.h"
#include "comm/sequence.h"
#include "lua/binding/class.h"
#include "lua/binding/dtype_names.h"
#include "lua/binding/handles.h"
#include "lua/binding/options.h"
#include "lua/binding/tensor.h"
#include "lua/bindings/bindings.h"
#include "lua/bindings/head_options.h"
#include "lua/bindings/objective_sums.h"
#include "lua/bindings/script_call.h"
#include "objectives/composed_log_prob.h"
#include "objectives/documents.h"
#include "objectives/kto.h"
#include "objectives/log_prob.h"
#include "objectives/preference.h"
#include "objectives/preference_losses.h"
#include "objectives/reward.h"
#include "objectives/router_balance.h"
#include "objectives/sft.h"
#include "objectives/sums.h"

namespace moonring::lua {

namespace {

std::shared_ptr<objectives::Sft> MakeSft(Options options) {
  using Sft = objectives::SftOptions;
  const std::string count = options.Get<std::string>("count", "labels");
  const bool dft = options.Get<bool>("dft", false), eaft = options.Get<bool>("eaft", false);
  const std::optional<double> alpha = options.Find<double>("eaft_alpha");
  options.Finish();
  const auto refuse = [](absl::string_view why) {
    base::ThrowIfError(absl::InvalidArgumentError(why));
  };
  if (count != "labels" && count != "targets")
    refuse(absl::StrCat("count: expected labels or targets, got '", count, "'"));
  if (dft && eaft) refuse("dft and eaft weigh the same tokens: expected one of them");
  if (!(alpha.value_or(1.0) >= 0.0))
    refuse(absl::StrCat("eaft_alpha is ", *alpha, ", expected 0 or more"));
  return std::make_shared<objectives::Sft>(
      Sft{.count = count == "labels" ? Sft::CountBy::kLabels : Sft::CountBy::kTargets,
          .weight = dft    ? Sft::Weight::kDft
                    : eaft ? Sft::Weight::kEaft
                           : Sft::Weight::kNone,
          .eaft_alpha = alpha.value_or(1.0)});
}

objectives::Sums SftLoss(objectives::Sft& sft, at::Tensor log_prob_T, at::Tensor targets_T,
                         Options statistics) {
  const at::Tensor greedy_T = TensorOption(statistics, "greedy"),
                   top_entropy_T = TensorOption(statistics, "top_entropy");
  for (const char* other : {"mean_logit", "entropy"})  // log_prob may return these too
    TensorOption(statistics, other);
  statistics.Finish();
  return sft.Loss(log_prob_T, targets_T, greedy_T, top_entropy_T);
}

std::shared_ptr<objectives::Preference> MakePreference(Options options) {
  objectives::PreferenceOptions wanted;
  wanted.loss = options.Get<std::string>("loss", wanted.loss);
  wanted.beta = options.Get<double>("beta", wanted.beta);
  wanted.ftx = options.Get<double>("ftx", wanted.ftx);
  wanted.simpo_gamma = options.Get<double>("simpo_gamma", wanted.simpo_gamma);
  wanted.label_smoothing = options.Get<double>("label_smoothing", wanted.label_smoothing);
  wanted.bco_weight = options.Get<double>("bco_weight", wanted.bco_weight);
  options.Finish();
  return base::ValueOrThrow(objectives::Preference::Create(std::move(wanted)));
}

objectives::Sums PreferenceLoss(objectives::Preference& preference, Options batch) {
  objectives::PreferenceBatch pairs;
  pairs.policy = NeededTensor(batch, "policy");
  pairs.reference = TensorOption(batch, "reference");
  pairs.targets = NeededTensor(batch, "targets");
  pairs.mean_logits = TensorOption(batch, "mean_logits");
  pairs.places = batch.Get<std::vector<int64_t>>("places", {});
  batch.Finish();
  return preference.Loss(pairs);
}

std::shared_ptr<objectives::Kto> MakeKto(Options options) {
  objectives::KtoOptions wanted;
  wanted.beta = options.Get<double>("beta", wanted.beta);
  wanted.chosen_weight = options.Get<double>("chosen_weight", wanted.chosen_weight);
  wanted.rejected_weight = options.Get<double>("rejected_weight", wanted.rejected_weight);
  wanted.ftx = options.Get<double>("ftx", wanted.ftx);
  options.Finish();
  return base::ValueOrThrow(objectives::Kto::Create(wanted));
}

objectives::Sums KtoLoss(objectives::Kto& kto, Options batch) {
  objectives::KtoBatch examples;
  examples.policy = NeededTensor(batch, "policy");
  examples.reference = NeededTensor(batch, "reference");
  examples.targets = NeededTensor(batch, "targets");
  examples.mean_logits = TensorOption(batch, "mean_logits");
  examples.desirable = batch.Require<std::vector<bool>>("desirable");
  examples.places = batch.Require<std::vector<int64_t>>("places");
  batch.Finish();
  return kto.Loss(examples);
}

struct LogProbCall {
  objectives::LogProbOptions options;
  objectives::Statistics statistics;
  // The head's weights as part of autograd's graph; undefined: those of the head.
  at::Tensor weight_VD;
  objectives::LowRankTensors low_rank;
};

// A weight of the head in a table of weights by name (the option weights of Model:forward).
at::Tensor GivenHeadWeight(const base::Parameter& weight,
                           const std::map<std::string, at::Tensor>& weights) {
  const auto found = weights.find(weight.name());
  return found == weights.end() ? weight.Lease(weight.dtype()) : found->second;
}

LogProbCall LogProbCallOf(const Head& head, Options options) {
  LogProbCall call;
  call.options.head = HeadOptionsOf(head);
  call.options.matmul_dtype = DtypeNamed(options.Get<std::string>("dtype", "fp32"));
  call.options.label_smoothing = options.Get<double>("label_smoothing", 0.0);
  call.options.temperature = options.Get<double>("temperature", 1.0);
  call.options.chunk_bytes = options.Get<int64_t>("chunk_bytes", call.options.chunk_bytes);
  call.options.chunk_rows = options.Get<int64_t>("chunk_rows", 0);
  const auto names = options.Get<std::vector<std::string>>("statistics", {});
  const auto weights = options.Find<std::map<std::string, at::Tensor>>("weights");
  options.Finish();
  if (weights.has_value()) {
    call.weight_VD = GivenHeadWeight(*head.weight_VD, *weights);
    if (head.low_rank.has_value()) {
      call.low_rank = {GivenHeadWeight(*head.low_rank->a_RD, *weights),
                       GivenHeadWeight(*head.low_rank->b_VR, *weights)};
    }
  }
  TORCH_CHECK_VALUE(!weights.has_value() || (names.empty() && call.options.label_smoothing == 0.0),
                    "weights: not with statistics or label_smoothing");
  const std::pair<std::string, bool*> known[] = {{"mean_logit", &call.statistics.mean_logit},
                                                 {"greedy", &call.statistics.greedy},
                                                 {"top_entropy", &call.statistics.top_entropy},
                                                 {"entropy", &call.statistics.entropy}};
  std::vector<std::string> known_names;
  for (const auto& [statistic, wanted] : known) known_names.emplace_back(statistic);
  for (const std::string& name : names) {
    bool found = false;
    for (const auto& [statistic, wanted] : known) {
      if (name == statistic) *wanted = found = true;
    }
    if (!found) {
      base::ThrowIfError(absl::InvalidArgumentError(
          absl::StrCat("statistics: unknown '", name, "'", base::DidYouMean(name, known_names),
                       "; known: ", absl::StrJoin(known_names, ", "))));
    }
  }
  return call;
}

Pushed LogProb(lua_State* L, at::Tensor hidden_TD, std::shared_ptr<Head> head, at::Tensor targets_T,
               Options options) {
  const LogProbCall call = LogProbCallOf(*head, options);
  if (call.weight_VD.defined()) {
    Value<at::Tensor>::Push(
        L, objectives::ComposedLogProb(hidden_TD, call.weight_VD, targets_T, call.options.head,
                                       call.options.temperature, call.low_rank));
    return {1};
  }
  const objectives::LogProbs result = objectives::TokenLogProb(
      hidden_TD, head->weight_VD, targets_T, call.options, call.statistics);
  Value<at::Tensor>::Push(L, result.log_prob_T);
  const objectives::TokenStatistics& statistics = result.statistics;
  const std::pair<const char*, const at::Tensor&> all[] = {
      {"mean_logit", statistics.mean_logit_T},
      {"greedy", statistics.greedy_T},
      {"top_entropy", statistics.top_entropy_T},
      {"entropy", statistics.entropy_T}};
  lua_newtable(L);
  bool any = false;
  for (const auto& [name, values] : all) {
    if (!values.defined()) continue;
    Value<at::Tensor>::Push(L, values);
    lua_setfield(L, -2, name);
    any = true;
  }
  if (!any) lua_pop(L, 1);
  return {any ? 2 : 1};
}

std::tuple<at::Tensor, at::Tensor> LogitsOfRows(at::Tensor hidden_ND, Head& head, int64_t first_ids,
                                                Options options) {
  objectives::LogProbOptions wanted;
  wanted.head = HeadOptionsOf(head);
  wanted.matmul_dtype = DtypeNamed(options.Get<std::string>("dtype", "fp32"));
  options.Finish();
  const objectives::RowLogits rows =
      objectives::Logits(hidden_ND, *head.weight_VD, first_ids, wanted);
  return {rows.logits_NK, rows.logsumexp_N};
}

// A call that sums over the documents of a layout; the ranks have different tokens of them.
std::string OfDocuments(const char* function, const at::Tensor& values,
                        const comm::Layout& layout) {
  return absl::StrCat(function, " of ", NameOfDtype(values.scalar_type()), ", ",
                      layout.lengths().size(), " documents");
}

at::Tensor DocumentSums(lua_State* L, at::Tensor values_T, comm::Layout& layout, comm::Mesh& mesh) {
  MatchScriptCall(L, mesh.sp(), OfDocuments("objectives.document_sums", values_T, layout));
  return objectives::DocumentSums(values_T, layout, mesh.sp_group());
}

at::Tensor DocumentScores(lua_State* L, at::Tensor hidden_TD,
                          std::shared_ptr<base::Parameter> weight,
                          std::shared_ptr<base::Parameter> bias, comm::Layout& layout,
                          comm::Mesh& mesh, Options options) {
  objectives::ScoreDropout dropout;
  dropout.probability = options.Get<double>("dropout", 0.0);
  dropout.seed = options.Get<uint64_t>("seed", 0);
  dropout.step = options.Get<uint64_t>("step", 0);
  dropout.identity_T = TensorOption(options, "identity");
  options.Find<double>(
      "neftune_alpha");  // ignored here: it is one of the noise options that Model:forward accepts
  TensorOption(options, "lengths");
  options.Finish();
  MatchScriptCall(L, mesh.sp(), OfDocuments("objectives.document_scores", hidden_TD, layout));
  return objectives::DocumentScores(hidden_TD, weight, bias, layout, mesh.sp_group(), dropout);
}

at::Tensor RouterWeights(at::Tensor chosen_GE, Options options) {
  const auto per_token = options.Require<int64_t>("per_token");
  const auto coefficient = options.Require<double>("coefficient");
  options.Finish();
  return objectives::RouterWeights(chosen_GE, per_token, coefficient);
}

// Pushes the properties of each loss, so that a configuration can be checked before its model is
// loaded.
Pushed PushPreferenceLosses(lua_State* L) {
  lua_newtable(L);
  for (const objectives::PreferenceLoss& loss : objectives::PreferenceLosses()) {
    lua_createtable(L, 0, 4);
    lua_pushstring(L, loss.name);
    lua_setfield(L, -2, "name");
    lua_pushboolean(L, loss.needs_reference);
    lua_setfield(L, -2, "needs_reference");
    lua_pushnumber(L, loss.most_smoothing);
    lua_setfield(L, -2, "most_smoothing");
    lua_pushboolean(L, loss.smoothing_below_most);
    lua_setfield(L, -2, "smoothing_below_most");
    lua_rawseti(L, -2, static_cast<int>(lua_objlen(L, -2)) + 1);
  }
  return {1};
}

}  // namespace

void OpenObjectives(lua_State* L) {
  Class<objectives::Sft>::Register(
      L, "Sft",
      {
          {"count",
           Bind<[](objectives::Sft& sft, at::Tensor labels_T, std::vector<int64_t> lengths) {
             return sft.Count(labels_T, lengths);
           }>},
          {"loss", Bind<&SftLoss>},
      });
  Class<objectives::Preference>::Register(
      L, "Preference",
      {
          {"needs_reference",
           Bind<[](objectives::Preference& preference) { return preference.needs_reference(); }>},
          {"needs_survey",
           Bind<[](objectives::Preference& preference) { return preference.needs_survey(); }>},
          {"survey", Bind<[](objectives::Preference& preference, at::Tensor policy,
                             at::Tensor reference, at::Tensor targets, int64_t group) {
             preference.Survey(policy, reference, targets, group);
           }>},
          {"loss", Bind<&PreferenceLoss>},
          {"state", Bind<[](objectives::Preference& preference) { return preference.State(); }>},
          {"load_state", Bind<[](objectives::Preference& preference, std::string text) {
             return preference.LoadState(text);
           }>},
      });
  Class<objectives::Kto>::Register(
      L, "Kto",
      {
          {"survey", Bind<[](objectives::Kto& kto, at::Tensor policy, at::Tensor reference,
                             int64_t group) { return kto.Survey(policy, reference, group); }>},
          {"loss", Bind<&KtoLoss>},
      });
  PushModule(
      L, "moonring.objectives",
      {
          {"sft", Bind<&MakeSft>},
          {"preference", Bind<&MakePreference>},
          {"preference_losses", Bind<&PushPreferenceLosses>},
          {"kto", Bind<&MakeKto>},
          {"log_prob", Bind<&LogProb>},
          {"router_weights", Bind<&RouterWeights>},
          {"logits", Bind<&LogitsOfRows>},
          {"document_scores", Bind<&DocumentScores>},
          {"reward_loss", Bind<[](at::Tensor scores) { return objectives::RewardLoss(scores); }>},
          {"document_sums", Bind<&DocumentSums>},
          {"document_targets",
           Bind<[](comm::Sequence& sequence) { return objectives::DocumentTargets(sequence); }>},
          {"desensitized", Bind<[](comm::Sequence& sequence, double alpha) {
             return objectives::Desensitized(sequence, alpha);
           }>},
      });
  AddVocabularyLosses(L);
  AddPolicyGradient(L);
}

}  // namespace moonring::lua
