// Lua bindings for the optimizers of trainer/rules, and the size of their states.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>

#include "absl/status/statusor.h"
#include "base/status/torch_status.h"
#include "lua/binding/class.h"
#include "lua/binding/fields.h"
#include "lua/binding/handles.h"
#include "lua/binding/options.h"
#include "lua/bindings/bindings.h"
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
#include "trainer/rules/rmsprop.h"
#include "trainer/rules/schedule_free.h"
#include "trainer/rules/sgd_momentum.h"
#include "trainer/rules/spam.h"
#include "trainer/rules/swan.h"
#include "trainer/sharding/zero.h"

namespace moonring::lua {
namespace {

using trainer::NativeRule;

// The options struct of a rule, which is the first parameter of the function that makes it.
template <typename RuleOptions>
RuleOptions OptionsOf(absl::StatusOr<NativeRule> (*rule_of)(const RuleOptions&,
                                                            const base::Parameters&));

// Creates an optimizer from its update rule. Reads the options that all rules accept:
// NativeRuleOptions in lua/types/trainer.lua.
template <auto rule_of>
std::shared_ptr<trainer::Optimizer> MakeRule(ParameterList& list, Options options) {
  decltype(OptionsOf(rule_of)) of_rule;
  ReadFields(options, of_rule);
  NativeRule made = base::ValueOrThrow(rule_of(of_rule, list.parameters));
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

struct RuleRow {
  const char* name;
  const char* text;  // describes it in docs/lua
  Bound make;
  void (*push_fields)(lua_State* L);
};

template <auto rule_of>
constexpr RuleRow Row(const char* name, const char* text) {
  return {name, text, Bind<&MakeRule<rule_of>>, &PushFields<decltype(OptionsOf(rule_of))>};
}

// The table of rules. lua/types/trainer_options.lua is made from it.
constexpr RuleRow kRules[] = {
    Row<&trainer::AdafactorRule>(
        "adafactor",
        "Adafactor (arXiv 1804.04235). State: for a matrix one number for each row and each "
        "column; for a vector 4 bytes for each parameter."),
    Row<&trainer::AdagradRule>(
        "adagrad",
        "Adagrad, as in torch.optim.Adagrad; weight decay is added to the gradient. State: 4 "
        "bytes for each parameter."),
    Row<&trainer::AdamMiniRule>("adam_mini",
                                "Adam-mini (arXiv 2406.16793). State: 4 bytes for each parameter."),
    Row<&trainer::AdemamixRule>(
        "ademamix",
        "AdEMAMix (arXiv 2409.03137), with decoupled weight decay. State: 12 bytes for each "
        "parameter."),
    Row<&trainer::ApolloRule>(
        "apollo", "APOLLO (arXiv 2412.05270) for linear layers, Adam for other parameters."),
    Row<&trainer::BadamRatioRule>(
        "badam_ratio",
        "BAdam's ratio mode (arXiv 2404.02827), as in the package badam: Adam is applied to a "
        "fraction of the elements of each weight, and every hundred steps to another fraction. "
        "There is no weight decay; embedding and head are not trained. State: 8 bytes for each "
        "element that is being trained."),
    Row<&trainer::CondaRule>(
        "conda", "Conda (arXiv 2509.24218) for linear layers, Adam for other parameters."),
    Row<&trainer::FiraRule>(
        "fira", "Fira (arXiv 2410.01623) for linear layers, Adam for other parameters."),
    Row<&trainer::GaloreRule>(
        "galore", "GaLore (arXiv 2403.03507) for linear layers, Adam for other parameters."),
    Row<&trainer::GrassRule>(
        "grass", "Grass (arXiv 2406.17660) for linear layers, Adam for other parameters."),
    Row<&trainer::LionRule>(
        "lion",
        "Lion (arXiv 2302.06675), with decoupled weight decay. State: 4 bytes for each "
        "parameter."),
    Row<&trainer::MuonRule>("muon",
                            "Muon for matrices and stacks of matrices, Adam for other parameters."),
    Row<&trainer::OnlineSubspaceRule>(
        "online_subspace",
        "Online subspace descent (arXiv 2408.12857) for linear layers, Adam for other "
        "parameters."),
    Row<&trainer::RmspropRule>(
        "rmsprop",
        "RMSprop, as in torch.optim.RMSprop; weight decay is added to the gradient. State: 4 "
        "bytes for each parameter, plus 4 with momentum, plus 4 if centered."),
    Row<&trainer::ScheduleFreeRule>(
        "schedule_free",
        "Schedule-free optimizers (arXiv 2405.15682), as in the package schedulefree. Training "
        "computes gradients at one set of weights; evaluation uses another, an average of the "
        "weights so far (Optimizer:average). State: 8 bytes for each parameter, 4 for \"sgd\"."),
    Row<&trainer::SgdMomentumRule>(
        "sgd_momentum",
        "Gradient descent with momentum, as in torch.optim.SGD; weight decay is added to the "
        "gradient. State: 4 bytes for each parameter."),
    Row<&trainer::SpamRule>(
        "spam",
        "SPAM (arXiv 2501.06842): Adam with spike-aware clipping and momentum resets, with "
        "decoupled weight decay. State: 8 bytes for each parameter that is trained."),
    Row<&trainer::SwanRule>(
        "swan",
        "SWAN (arXiv 2412.13148) for matrices and stacks of matrices, which need no state; "
        "Adam for other parameters."),
};

// Pushes the table of rules: a list of { name, text, options }.
Pushed PushRules(lua_State* L) {
  lua_newtable(L);
  int count = 0;
  for (const RuleRow& row : kRules) {
    lua_newtable(L);
    Value<std::string>::Push(L, row.name);
    lua_setfield(L, -2, "name");
    Value<std::string>::Push(L, row.text);
    lua_setfield(L, -2, "text");
    row.push_fields(L);
    lua_setfield(L, -2, "options");
    lua_rawseti(L, -2, ++count);
  }
  return {1};
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
  for (const RuleRow& row : kRules) AddToModule(L, "moonring.trainer", {{row.name, row.make}});
  AddToModule(L, "moonring.trainer",
              {
                  {"optimizer_rules", Bind<&PushRules>},
                  {"meta_parameters", Bind<&MetaParameters>},
                  {"new_state_bytes", Bind<&NewStateBytes>},
              });
}

}  // namespace moonring::lua
