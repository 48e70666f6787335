// Lua bindings for the optimizers of trainer/rules, and the size of their states.

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status/torch_status.h"
#include "lua/binding/class.h"
#include "lua/binding/handles.h"
#include "lua/binding/options.h"
#include "lua/bindings.h"
#include "trainer/optimizer/rule_optimizer.h"
#include "trainer/rules/adafactor.h"
#include "trainer/rules/adagrad.h"
#include "trainer/rules/adam.h"
#include "trainer/rules/adam_mini.h"
#include "trainer/rules/ademamix.h"
#include "trainer/rules/apollo.h"
#include "trainer/rules/badam_ratio.h"
#include "trainer/rules/conda.h"
#include "trainer/rules/fira.h"
#include "trainer/rules/galore.h"
#include "trainer/rules/grass.h"
#include "trainer/rules/lion.h"
#include "trainer/rules/muon.h"
#include "trainer/rules/native_rule.h"
#include "trainer/rules/online_subspace.h"
#include "trainer/rules/projection.h"
#include "trainer/rules/rmsprop.h"
#include "trainer/rules/schedule_free.h"
#include "trainer/rules/sgd_momentum.h"
#include "trainer/rules/spam.h"
#include "trainer/rules/swan.h"
#include "trainer/sharding/zero.h"

namespace moonring::lua {
namespace {

using trainer::NativeRule;

absl::StatusOr<NativeRule> Adagrad(Options& options, const base::Parameters& parameters) {
  trainer::AdagradOptions adagrad;
  adagrad.lr_decay = options.Get<double>("lr_decay", adagrad.lr_decay);
  adagrad.initial = options.Get<double>("initial", adagrad.initial);
  adagrad.epsilon = options.Get<double>("epsilon", adagrad.epsilon);
  adagrad.weight_decay = options.Get<double>("weight_decay", adagrad.weight_decay);
  return trainer::AdagradRule(adagrad, parameters);
}

absl::StatusOr<NativeRule> Ademamix(Options& options, const base::Parameters& parameters) {
  trainer::AdemamixOptions ademamix;
  ademamix.beta1 = options.Get<double>("beta1", ademamix.beta1);
  ademamix.beta2 = options.Get<double>("beta2", ademamix.beta2);
  ademamix.beta3 = options.Get<double>("beta3", ademamix.beta3);
  ademamix.alpha = options.Get<double>("alpha", ademamix.alpha);
  ademamix.t_alpha = options.Get<int64_t>("t_alpha", ademamix.t_alpha);
  ademamix.t_beta3 = options.Get<int64_t>("t_beta3", ademamix.t_beta3);
  ademamix.epsilon = options.Get<double>("epsilon", ademamix.epsilon);
  ademamix.weight_decay = options.Get<double>("weight_decay", ademamix.weight_decay);
  return trainer::AdemamixRule(ademamix, parameters);
}

absl::StatusOr<NativeRule> BadamRatio(Options& options, const base::Parameters& parameters) {
  trainer::BadamRatioOptions badam;
  badam.ratio = options.Get<double>("ratio", badam.ratio);
  const std::string mask = options.Get<std::string>("mask", "adjacent");
  TORCH_CHECK_VALUE(mask == "adjacent" || mask == "scatter",
                    "mask: expected adjacent or scatter, got '", mask, "'");
  badam.mask = mask == "scatter" ? trainer::BadamMask::kScatter : trainer::BadamMask::kAdjacent;
  badam.beta1 = options.Get<double>("beta1", badam.beta1);
  badam.beta2 = options.Get<double>("beta2", badam.beta2);
  badam.epsilon = options.Get<double>("epsilon", badam.epsilon);
  badam.seed = options.Get<int64_t>("seed", badam.seed);
  return trainer::BadamRatioRule(badam, parameters);
}

absl::StatusOr<NativeRule> Lion(Options& options, const base::Parameters& parameters) {
  trainer::LionOptions lion;
  lion.beta1 = options.Get<double>("beta1", lion.beta1);
  lion.beta2 = options.Get<double>("beta2", lion.beta2);
  lion.weight_decay = options.Get<double>("weight_decay", lion.weight_decay);
  return trainer::LionRule(lion, parameters);
}

absl::StatusOr<NativeRule> Rmsprop(Options& options, const base::Parameters& parameters) {
  trainer::RmspropOptions rmsprop;
  rmsprop.alpha = options.Get<double>("alpha", rmsprop.alpha);
  rmsprop.epsilon = options.Get<double>("epsilon", rmsprop.epsilon);
  rmsprop.momentum = options.Get<double>("momentum", rmsprop.momentum);
  rmsprop.centered = options.Get<bool>("centered", rmsprop.centered);
  rmsprop.weight_decay = options.Get<double>("weight_decay", rmsprop.weight_decay);
  return trainer::RmspropRule(rmsprop, parameters);
}

absl::StatusOr<NativeRule> ScheduleFree(Options& options, const base::Parameters& parameters) {
  trainer::ScheduleFreeOptions wanted;
  const std::string kind = options.Get<std::string>("kind", "adamw");
  TORCH_CHECK_VALUE(kind == "adamw" || kind == "sgd" || kind == "radam",
                    "kind: expected adamw, sgd or radam, got '", kind, "'");
  wanted.kind = kind == "sgd"     ? trainer::ScheduleFreeKind::kSgd
                : kind == "radam" ? trainer::ScheduleFreeKind::kRAdam
                                  : trainer::ScheduleFreeKind::kAdamW;
  wanted.beta1 = options.Get<double>("beta1", wanted.beta1);
  wanted.beta2 = options.Get<double>("beta2", wanted.beta2);
  wanted.epsilon = options.Get<double>("epsilon", wanted.epsilon);
  wanted.warmup_steps = options.Get<int64_t>("warmup_steps", wanted.warmup_steps);
  wanted.r = options.Get<double>("r", wanted.r);
  wanted.weight_lr_power = options.Get<double>("weight_lr_power", wanted.weight_lr_power);
  wanted.weight_decay = options.Get<double>("weight_decay", wanted.weight_decay);
  return trainer::ScheduleFreeRule(wanted, parameters);
}

absl::StatusOr<NativeRule> SgdMomentum(Options& options, const base::Parameters& parameters) {
  trainer::SgdMomentumOptions sgd;
  sgd.momentum = options.Get<double>("momentum", sgd.momentum);
  sgd.dampening = options.Get<double>("dampening", sgd.dampening);
  sgd.nesterov = options.Get<bool>("nesterov", sgd.nesterov);
  sgd.weight_decay = options.Get<double>("weight_decay", sgd.weight_decay);
  return trainer::SgdMomentumRule(sgd, parameters);
}

absl::StatusOr<NativeRule> Spam(Options& options, const base::Parameters& parameters) {
  trainer::SpamOptions spam;
  spam.beta1 = options.Get<double>("beta1", spam.beta1);
  spam.beta2 = options.Get<double>("beta2", spam.beta2);
  spam.epsilon = options.Get<double>("epsilon", spam.epsilon);
  spam.threshold = options.Get<double>("threshold", spam.threshold);
  spam.reset = options.Get<int64_t>("reset", spam.reset);
  spam.warmup = options.Get<int64_t>("warmup", spam.warmup);
  spam.quiet = options.Get<int64_t>("quiet", spam.quiet);
  spam.density = options.Get<double>("density", spam.density);
  spam.seed = options.Get<int64_t>("seed", spam.seed);
  spam.weight_decay = options.Get<double>("weight_decay", spam.weight_decay);
  return trainer::SpamRule(spam, parameters);
}

trainer::AdamOptions ReadAdam(Options& options) {
  trainer::AdamOptions adam;
  adam.beta1 = options.Get<double>("beta1", adam.beta1);
  adam.beta2 = options.Get<double>("beta2", adam.beta2);
  adam.epsilon = options.Get<double>("epsilon", adam.epsilon);
  return adam;
}

// Reads an option whose value must be one of the given words.
template <typename Choice>
Choice ReadChoice(Options& options, const char* key, const std::map<std::string, Choice>& words,
                  Choice absent) {
  const std::optional<std::string> word = options.Find<std::string>(key);
  if (!word.has_value()) return absent;
  const auto found = words.find(*word);
  TORCH_CHECK_VALUE(
      found != words.end(), key, ": expected ",
      absl::StrJoin(words, ", ",
                    [](std::string* text, const auto& each) { absl::StrAppend(text, each.first); }),
      ", got '", *word, "'");
  return found->second;
}

trainer::ProjectionType ReadProjection(Options& options) {
  using Type = trainer::ProjectionType;
  return ReadChoice<Type>(options, "projection",
                          {{"std", Type::kStd},
                           {"reverse_std", Type::kReverseStd},
                           {"left", Type::kLeft},
                           {"right", Type::kRight},
                           {"full", Type::kFull}},
                          Type::kStd);
}

absl::StatusOr<NativeRule> Muon(Options& options, const base::Parameters& parameters) {
  using trainer::MuonForm, trainer::MuonScale;
  trainer::MuonOptions muon;
  muon.form = ReadChoice<MuonForm>(
      options, "form", {{"torch", MuonForm::kTorch}, {"llamafactory", MuonForm::kLlamaFactory}},
      muon.form);
  muon.scale = ReadChoice<MuonScale>(
      options, "scale",
      {{"original", MuonScale::kOriginal}, {"match_rms_adamw", MuonScale::kMatchRmsAdamW}},
      muon.scale);
  muon.momentum = options.Get<double>("momentum", muon.momentum);
  muon.nesterov = options.Get<bool>("nesterov", muon.nesterov);
  muon.iterations = options.Get<int>("iterations", muon.iterations);
  muon.bf16 = options.Get<bool>("bf16", muon.bf16);
  muon.adam = ReadAdam(options);
  muon.weight_decay = options.Get<double>("weight_decay", muon.weight_decay);
  return trainer::MuonRule(muon, parameters);
}

absl::StatusOr<NativeRule> Galore(Options& options, const base::Parameters& parameters) {
  trainer::GaloreOptions galore;
  galore.rank = options.Get<int64_t>("rank", galore.rank);
  galore.gap = options.Get<int64_t>("gap", galore.gap);
  galore.scale = options.Get<double>("scale", galore.scale);
  galore.type = ReadProjection(options);
  galore.targets = options.Get<std::vector<std::string>>("targets", {});
  galore.adam = ReadAdam(options);
  galore.weight_decay = options.Get<double>("weight_decay", galore.weight_decay);
  return trainer::GaloreRule(galore, parameters);
}

absl::StatusOr<NativeRule> Apollo(Options& options, const base::Parameters& parameters) {
  using trainer::ApolloScale, trainer::ApolloSource;
  trainer::ApolloOptions apollo;
  apollo.rank = options.Get<int64_t>("rank", apollo.rank);
  apollo.gap = options.Get<int64_t>("gap", apollo.gap);
  apollo.scale = options.Get<double>("scale", apollo.scale);
  apollo.source = ReadChoice<ApolloSource>(
      options, "source", {{"random", ApolloSource::kRandom}, {"svd", ApolloSource::kSvd}},
      apollo.source);
  apollo.type = ReadProjection(options);
  apollo.scale_by = ReadChoice<ApolloScale>(
      options, "scale_by", {{"channel", ApolloScale::kChannel}, {"tensor", ApolloScale::kTensor}},
      apollo.scale_by);
  apollo.scale_front = options.Get<bool>("scale_front", apollo.scale_front);
  apollo.targets = options.Get<std::vector<std::string>>("targets", {});
  apollo.adam = ReadAdam(options);
  apollo.weight_decay = options.Get<double>("weight_decay", apollo.weight_decay);
  apollo.seed = options.Get<int64_t>("seed", apollo.seed);
  return trainer::ApolloRule(apollo, parameters);
}

absl::StatusOr<NativeRule> AdamMini(Options& options, const base::Parameters& parameters) {
  trainer::AdamMiniOptions mini;
  mini.hidden_size = options.Require<int64_t>("hidden_size");
  mini.heads = options.Require<int64_t>("heads");
  mini.adam = ReadAdam(options);
  mini.weight_decay = options.Get<double>("weight_decay", mini.weight_decay);
  return trainer::AdamMiniRule(mini, parameters);
}

absl::StatusOr<NativeRule> Adafactor(Options& options, const base::Parameters& parameters) {
  using trainer::AdafactorForm;
  trainer::AdafactorOptions adafactor;
  adafactor.form = ReadChoice<AdafactorForm>(
      options, "form",
      {{"transformers", AdafactorForm::kTransformers}, {"torch", AdafactorForm::kTorch}},
      adafactor.form);
  adafactor.decay_rate = options.Get<double>("decay_rate", adafactor.decay_rate);
  adafactor.clip = options.Get<double>("clip", adafactor.clip);
  adafactor.weight_decay = options.Get<double>("weight_decay", adafactor.weight_decay);
  return trainer::AdafactorRule(adafactor, parameters);
}

absl::StatusOr<NativeRule> Fira(Options& options, const base::Parameters& parameters) {
  trainer::FiraOptions fira;
  fira.rank = options.Get<int64_t>("rank", fira.rank);
  fira.gap = options.Get<int64_t>("gap", fira.gap);
  fira.alpha = options.Get<double>("alpha", fira.alpha);
  fira.type = ReadProjection(options);
  fira.targets = options.Get<std::vector<std::string>>("targets", {});
  fira.adam = ReadAdam(options);
  fira.weight_decay = options.Get<double>("weight_decay", fira.weight_decay);
  return trainer::FiraRule(fira, parameters);
}

absl::StatusOr<NativeRule> Conda(Options& options, const base::Parameters& parameters) {
  trainer::CondaOptions conda;
  conda.gap = options.Get<int64_t>("gap", conda.gap);
  conda.scale = options.Get<double>("scale", conda.scale);
  conda.targets = options.Get<std::vector<std::string>>("targets", {});
  conda.adam = ReadAdam(options);
  conda.weight_decay = options.Get<double>("weight_decay", conda.weight_decay);
  return trainer::CondaRule(conda, parameters);
}

absl::StatusOr<NativeRule> OnlineSubspace(Options& options, const base::Parameters& parameters) {
  trainer::OnlineSubspaceOptions online;
  online.rank = options.Get<int64_t>("rank", online.rank);
  online.gap = options.Get<double>("gap", online.gap);
  online.scale = options.Get<double>("scale", online.scale);
  online.learning_rate = options.Require<double>("learning_rate");
  online.targets = options.Get<std::vector<std::string>>("targets", {});
  online.adam = ReadAdam(options);
  online.weight_decay = options.Get<double>("weight_decay", online.weight_decay);
  return trainer::OnlineSubspaceRule(online, parameters);
}

absl::StatusOr<NativeRule> Swan(Options& options, const base::Parameters& parameters) {
  trainer::SwanOptions swan;
  swan.alpha = options.Get<double>("alpha", swan.alpha);
  swan.iterations = options.Get<int64_t>("ns_steps", swan.iterations);
  swan.beta = options.Get<double>("ns_beta", swan.beta);
  swan.adam = ReadAdam(options);
  swan.weight_decay = options.Get<double>("weight_decay", swan.weight_decay);
  return trainer::SwanRule(swan, parameters);
}

absl::StatusOr<NativeRule> Grass(Options& options, const base::Parameters& parameters) {
  using trainer::GrassSampling;
  trainer::GrassOptions grass;
  grass.rank = options.Get<int64_t>("rank", grass.rank);
  grass.gap = options.Get<int64_t>("gap", grass.gap);
  grass.alpha = options.Get<double>("alpha", grass.alpha);
  grass.sampling = ReadChoice<GrassSampling>(
      options, "sampling",
      {{"top", GrassSampling::kTop}, {"multinomial", GrassSampling::kMultinomial}}, grass.sampling);
  grass.targets = options.Get<std::vector<std::string>>("targets", {});
  grass.adam = ReadAdam(options);
  grass.weight_decay = options.Get<double>("weight_decay", grass.weight_decay);
  grass.seed = options.Get<int64_t>("seed", grass.seed);
  return trainer::GrassRule(grass, parameters);
}

// Creates an optimizer from its update rule. Reads the options that all rules accept:
// NativeRuleOptions in lua/types/trainer.lua.
template <auto rule_of>
std::shared_ptr<trainer::Optimizer> MakeRule(ParameterList& list, Options options) {
  NativeRule made = base::ValueOrThrow(rule_of(options, list.parameters));
  trainer::RuleOptimizerOptions wanted;
  if (const auto zero = options.Find<std::shared_ptr<trainer::Zero>>("zero")) {
    TORCH_CHECK_VALUE((*zero)->memory() == nullptr, "offload_optimizer: disk: of the optimizers ",
                      "AdamW alone has its state there; `cpu` puts this one's into the host's "
                      "memory");
    wanted.shards = (*zero)->shards();
    wanted.bucket_bytes = (*zero)->options().bucket_bytes;
  }
  wanted.whole = std::move(made.whole);
  wanted.loraplus_ratio = options.Get<double>("loraplus_lr_ratio", wanted.loraplus_ratio);
  options.Finish();
  return base::ValueOrThrow(
      trainer::RuleOptimizer::Create(std::move(made.rule), std::move(wanted), list.parameters));
}

std::shared_ptr<ParameterList> MetaParameters(std::vector<std::string> names,
                                              std::vector<std::vector<int64_t>> shapes) {
  TORCH_CHECK_VALUE(names.size() == shapes.size(), "meta_parameters: ", names.size(),
                    " names, and shapes of ", shapes.size());
  auto list = std::make_shared<ParameterList>();
  for (size_t i = 0; i < names.size(); ++i) {
    list->parameters.push_back(std::make_shared<base::Parameter>(
        names[i], at::empty(shapes[i], at::TensorOptions().device(at::kMeta))));
  }
  return list;
}

int64_t NewStateBytes(trainer::Optimizer& optimizer) {
  const auto* const rule = dynamic_cast<const trainer::RuleOptimizer*>(&optimizer);
  TORCH_CHECK_VALUE(rule != nullptr, "new_state_bytes: expected an optimizer of a rule");
  return rule->NewStateBytes();
}

}  // namespace

void AddOptimizerRules(lua_State* L) {
  AddToModule(L, "moonring.trainer",
              {
                  {"adafactor", Bind<&MakeRule<&Adafactor>>},
                  {"adagrad", Bind<&MakeRule<&Adagrad>>},
                  {"adam_mini", Bind<&MakeRule<&AdamMini>>},
                  {"ademamix", Bind<&MakeRule<&Ademamix>>},
                  {"apollo", Bind<&MakeRule<&Apollo>>},
                  {"badam_ratio", Bind<&MakeRule<&BadamRatio>>},
                  {"conda", Bind<&MakeRule<&Conda>>},
                  {"fira", Bind<&MakeRule<&Fira>>},
                  {"galore", Bind<&MakeRule<&Galore>>},
                  {"grass", Bind<&MakeRule<&Grass>>},
                  {"lion", Bind<&MakeRule<&Lion>>},
                  {"muon", Bind<&MakeRule<&Muon>>},
                  {"online_subspace", Bind<&MakeRule<&OnlineSubspace>>},
                  {"rmsprop", Bind<&MakeRule<&Rmsprop>>},
                  {"schedule_free", Bind<&MakeRule<&ScheduleFree>>},
                  {"sgd_momentum", Bind<&MakeRule<&SgdMomentum>>},
                  {"spam", Bind<&MakeRule<&Spam>>},
                  {"swan", Bind<&MakeRule<&Swan>>},
                  {"meta_parameters", Bind<&MetaParameters>},
                  {"new_state_bytes", Bind<&NewStateBytes>},
              });
}

}  // namespace moonring::lua
