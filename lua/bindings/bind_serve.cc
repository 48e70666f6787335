// Lua bindings for `moonring serve`: requests and results. (serve_door.h: the door to clients.)

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/status/statusor.h"
#include "base/status/torch_status.h"
#include "lua/binding/class.h"
#include "lua/binding/options.h"
#include "lua/binding/set_field.h"
#include "lua/binding/tensor.h"
#include "lua/bindings/bindings.h"
#include "lua/bindings/serve_door.h"
#include "lua/serve/access_key.h"
#include "lua/serve/loss_reader.h"
#include "lua/serve/results.h"
#include "lua/serve/service.h"
#include "lua/vm/vm.h"

namespace moonring::lua {
namespace {

void PushConfig(lua_State* L, const serve::LossRequest& request) {
  lua_createtable(L, 0, static_cast<int>(request.config.size()));
  for (const auto& [name, value] : request.config) {
    lua_pushlstring(L, name.data(), name.size());
    if (const double* number = std::get_if<double>(&value)) {
      lua_pushnumber(L, *number);
    } else {
      Value<std::string>::Push(L, std::get<std::string>(value));
    }
    lua_rawset(L, -3);
  }
}

void PushDatum(lua_State* L, const serve::LossDatum& datum) {
  lua_createtable(L, 0, 2);
  Value<at::Tensor>::Push(L, datum.tokens_N);
  lua_setfield(L, -2, "tokens");
  lua_createtable(L, 0, static_cast<int>(datum.inputs.size()));
  for (const auto& [name, tensor] : datum.inputs) {
    lua_pushlstring(L, name.data(), name.size());
    Value<at::Tensor>::Push(L, tensor);
    lua_rawset(L, -3);
  }
  lua_setfield(L, -2, "inputs");
}

// Pushes a request of forward_backward as a table.
Pushed ReadLoss(lua_State* L, std::string body, std::string type) {
  const serve::LossRequest request = base::ValueOrThrow(serve::ReadLossRequest(body, type));
  lua_createtable(L, 0, 6);
  SetField(L, "model_id", request.model_id);
  SetField(L, "seq_id", static_cast<double>(request.seq_id));
  SetField(L, "loss_fn", request.loss_fn);
  PushConfig(L, request);
  lua_setfield(L, -2, "loss_fn_config");
  lua_pushboolean(L, request.forward_only);
  lua_setfield(L, -2, "forward_only");
  lua_createtable(L, static_cast<int>(request.data.size()), 0);
  for (size_t d = 0; d < request.data.size(); ++d) {
    PushDatum(L, request.data[d]);
    lua_rawseti(L, -2, static_cast<int>(d + 1));
  }
  lua_setfield(L, -2, "data");
  return {1};
}

std::string WriteLoss(Options options) {
  const auto metrics = options.Get<std::map<std::string, double>>("metrics", {});
  const auto outputs = options.Require<std::vector<std::map<std::string, at::Tensor>>>("outputs");
  options.Finish();
  return base::ValueOrThrow(serve::WriteLossResult(metrics, outputs));
}

template <typename T>
std::vector<T> Narrowed(const std::vector<double>& numbers) {
  return std::vector<T>(numbers.begin(), numbers.end());
}

// { k = 2, ids = { {5, 6}, {}, .. }, logprobs = { {-0.1, -2}, {}, .. } }: a row per position,
// shorter than k where there are fewer tokens.
serve::TopTokens ReadTop(Options options) {
  using Rows = std::vector<std::vector<double>>;
  serve::TopTokens top{.k = options.Require<int64_t>("k")};
  const Rows ids = options.Require<Rows>("ids"), scores = options.Require<Rows>("logprobs");
  options.Finish();
  TORCH_CHECK_VALUE(top.k >= 0 && top.k <= 4096, "k: expected 0 to 4096, got ", top.k);
  TORCH_CHECK_VALUE(ids.size() == scores.size(), "top tokens: ", ids.size(), " rows of ids, but ",
                    scores.size(), " of log-probs");
  top.length = static_cast<int64_t>(ids.size());
  const auto cells = static_cast<size_t>(top.k * top.length);
  top.ids.assign(cells, 0);
  top.log_probs.assign(cells, serve::kEmptyCell);
  for (size_t row = 0; row < ids.size(); ++row) {
    TORCH_CHECK_VALUE(
        ids[row].size() == scores[row].size() && ids[row].size() <= static_cast<size_t>(top.k),
        "top tokens: row ", row, " has ", ids[row].size(), " ids and ", scores[row].size(),
        " log-probs; expected up to ", top.k, " of both");
    for (size_t i = 0; i < ids[row].size(); ++i) {
      top.ids[row * static_cast<size_t>(top.k) + i] = static_cast<int32_t>(ids[row][i]);
      top.log_probs[row * static_cast<size_t>(top.k) + i] = static_cast<float>(scores[row][i]);
    }
  }
  return top;
}

std::optional<serve::TopTokens> TopOption(lua_State* L, Options& options, const char* key) {
  const int index = PushTableOption(L, options, key);
  if (index == 0) return std::nullopt;
  auto top = ReadTop(Options(L, index));
  lua_remove(L, index);
  return top;
}

serve::SampledSequence ReadSequence(lua_State* L, Options options) {
  serve::SampledSequence sequence;
  sequence.tokens = options.Require<std::vector<int32_t>>("tokens");
  sequence.log_probs = Narrowed<float>(options.Get<std::vector<double>>("logprobs", {}));
  const auto reason = options.Require<std::string>("stop_reason");
  sequence.top = TopOption(L, options, "topk");
  options.Finish();
  TORCH_CHECK_VALUE(reason == "stop" || reason == "length",
                    "stop_reason: expected 'stop' or 'length', got '", reason, "'");
  sequence.ended_by_length = reason == "length";
  return sequence;
}

std::string WriteSample(lua_State* L, Options options) {
  serve::SampleResult result;
  const int list = PushTableOption(L, options, "sequences");
  TORCH_CHECK_VALUE(list != 0, "option 'sequences' is missing");
  for (int i = 1; i <= static_cast<int>(lua_objlen(L, list)); ++i) {
    lua_rawgeti(L, list, i);
    result.sequences.push_back(ReadSequence(L, Options(L, lua_gettop(L))));
    lua_pop(L, 1);
  }
  lua_remove(L, list);
  result.prompt_log_probs =
      Narrowed<float>(options.Get<std::vector<double>>("prompt_logprobs", {}));
  result.top_prompt = TopOption(L, options, "topk_prompt_logprobs");
  result.prompt_cache_hit_tokens = options.Get<int64_t>("prompt_cache_hit_tokens", 0);
  result.target_prompt_log_probs = TensorOption(options, "target_prompt_logprobs");
  result.alt_tokens = TensorOption(options, "alt_tokens");
  result.alt_log_probs = TensorOption(options, "alt_logprobs");
  options.Finish();
  return base::ValueOrThrow(serve::WriteSampleResult(result));
}

// The key in a file, which is created if it does not exist.
absl::StatusOr<std::string> KeptKey(lua_State* L, std::string path) {
  if (HostOf(L).sandbox)
    throw base::StatusError(absl::PermissionDeniedError("--sandbox: moonring serve is off"));
  return serve::KeptKey(path);
}

}  // namespace

void OpenServe(lua_State* L) {
  RegisterServeDoor(L);
  PushModule(L, "moonring.serve",
             {
                 kOpenServeDoor,
                 {"check_address", Bind<&serve::Service::CheckAddress>},
                 {"kept_key", Bind<&KeptKey>},
                 {"read_forward_backward", Bind<&ReadLoss>},
                 {"write_forward_backward", Bind<&WriteLoss>},
                 {"write_sample", Bind<&WriteSample>},
             });
}

}  // namespace moonring::lua
