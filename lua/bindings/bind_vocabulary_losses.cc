// Lua bindings for values computed from each token's full row of logits: divergences, entropy,
// z-loss.

#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status/torch_status.h"
#include "base/text/nearest_name.h"
#include "lua/binding/class.h"
#include "lua/binding/dtype_names.h"
#include "lua/binding/handles.h"
#include "lua/binding/options.h"
#include "lua/binding/tensor.h"
#include "lua/bindings/bindings.h"
#include "lua/bindings/head_options.h"
#include "objectives/vocabulary/divergence.h"
#include "objectives/vocabulary/entropy.h"
#include "objectives/vocabulary/head_projection.h"
#include "objectives/vocabulary/row_divergence.h"
#include "objectives/vocabulary/top_divergence.h"
#include "objectives/vocabulary/top_log_probs.h"
#include "objectives/vocabulary/z_loss.h"

namespace moonring::lua {
namespace {

using objectives::DivergenceKind;
using objectives::Rest;

[[noreturn]] void Refuse(const std::string& why) {
  throw base::StatusError(absl::InvalidArgumentError(why));
}

// Returns the value with this name; for an unknown name raises an error that contains the nearest
// known one.
template <typename T>
T Choice(const std::string& key, const std::string& given,
         const std::vector<std::pair<const char*, T>>& known) {
  std::vector<std::string> names;
  for (const auto& [name, value] : known) {
    if (given == name) return value;
    names.push_back(name);
  }
  Refuse(absl::StrCat("option '", key, "': unknown '", given, "'", base::DidYouMean(given, names),
                      "; known: ", absl::StrJoin(names, ", ")));
}

// Reads the options of the head's matrix product: HeadOptions and ChunkOptions in
// lua/types/objectives.lua.
objectives::ProjectionOptions ProjectionFrom(const Head& head, Options& options) {
  objectives::ProjectionOptions wanted;
  wanted.head = HeadOptionsOf(head);
  wanted.matmul_dtype = DtypeNamed(options.Get<std::string>("dtype", "fp32"));
  wanted.chunk_bytes = options.Get<int64_t>("chunk_bytes", wanted.chunk_bytes);
  wanted.chunk_rows = options.Get<int64_t>("chunk_rows", 0);
  wanted.vocabulary = options.Get<int64_t>("vocabulary", 0);
  return wanted;
}

at::Tensor Divergence(at::Tensor hidden_TD, std::shared_ptr<Head> head, at::Tensor targets_T,
                      Options options) {
  const objectives::ProjectionOptions projection = ProjectionFrom(*head, options);
  objectives::Divergence wanted;
  const std::string kind = options.Require<std::string>("kind");
  wanted.beta = options.Get<double>("beta", wanted.beta);
  wanted.temperature = options.Get<double>("temperature", wanted.temperature);
  const auto reference_head = options.Find<std::shared_ptr<Head>>("reference_head");
  objectives::ReferenceHead other{.hidden_TD = TensorOption(options, "reference_hidden")};
  const std::string dtype = options.Get<std::string>("reference_dtype", "fp32");
  objectives::ReferenceTop top{TensorOption(options, "ids"), TensorOption(options, "log_probs")};
  const std::string rest = options.Get<std::string>("rest", "bucket");
  options.Finish();
  wanted.kind = Choice<DivergenceKind>("kind", kind,
                                       {{"forward", DivergenceKind::kForward},
                                        {"reverse", DivergenceKind::kReverse},
                                        {"js", DivergenceKind::kJs}});
  top.rest = Choice<Rest>(
      "rest", rest,
      {{"bucket", Rest::kBucket}, {"renormalize", Rest::kRenormalize}, {"zero", Rest::kZero}});
  other.projection.matmul_dtype = DtypeNamed(dtype);
  const bool by_head = reference_head.has_value() || other.hidden_TD.defined(),
             by_top = top.ids_TK.defined() || top.log_probs_TK.defined();
  if (by_head == by_top) {
    Refuse(
        absl::StrCat("the reference: expected either reference_hidden and reference_head, or ids "
                     "and log_probs, got ",
                     by_head ? "both" : "neither"));
  }
  if (by_top)
    return objectives::TokenDivergence(hidden_TD, head->weight_VD, targets_T, top, wanted,
                                       projection);
  if (reference_head.has_value()) {
    other.head_VD = (*reference_head)->weight_VD;
    other.projection.head = HeadOptionsOf(**reference_head);
  }
  return objectives::TokenDivergence(hidden_TD, head->weight_VD, targets_T, other, wanted,
                                     projection);
}

at::Tensor Entropy(at::Tensor hidden_TD, std::shared_ptr<Head> head, at::Tensor targets_T,
                   Options options) {
  const objectives::ProjectionOptions projection = ProjectionFrom(*head, options);
  const double temperature = options.Get<double>("temperature", 1.0);
  options.Finish();
  return objectives::TokenEntropy(hidden_TD, head->weight_VD, targets_T, temperature, projection);
}

at::Tensor ZLoss(at::Tensor hidden_TD, std::shared_ptr<Head> head, at::Tensor targets_T,
                 Options options) {
  const objectives::ProjectionOptions projection = ProjectionFrom(*head, options);
  options.Finish();
  return objectives::TokenZLoss(hidden_TD, head->weight_VD, targets_T, projection);
}

std::tuple<at::Tensor, at::Tensor> TopLogProbs(at::Tensor hidden_TD, std::shared_ptr<Head> head,
                                               at::Tensor targets_T, int64_t top, Options options) {
  const objectives::ProjectionOptions projection = ProjectionFrom(*head, options);
  const double temperature = options.Get<double>("temperature", 1.0);
  options.Finish();
  const objectives::TopLogProbs found = objectives::TokenTopLogProbs(
      hidden_TD, *head->weight_VD, targets_T, top, temperature, projection);
  return {found.ids_TK, found.log_probs_TK};
}

}  // namespace

void AddVocabularyLosses(lua_State* L) {
  AddToModule(L, "moonring.objectives",
              {
                  {"divergence", Bind<&Divergence>},
                  {"entropy", Bind<&Entropy>},
                  {"z_loss", Bind<&ZLoss>},
                  {"top_log_probs", Bind<&TopLogProbs>},
              });
}

}  // namespace moonring::lua
