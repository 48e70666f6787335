#include "lua/serve/routes.h"

#include <array>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "lua/serve/route_table.h"

namespace moonring::serve {
namespace {

// "/v1" is OpenAI's usual base, and "/oai/api/v1" that of the Tinker service.
const std::vector<Route>& Table() {
  static const std::vector<Route> table = {
      // Questions.
      {"GET", "/api/v1/healthz", &Impl::Health},
      {"POST", "/api/v1/client/config", &Impl::ClientConfig},
      {"POST", "/api/v1/client/dynamic_config", &Impl::DynamicConfig},
      {"POST", "/api/v1/telemetry", &Impl::Telemetry},
      {"GET", "/api/v1/get_server_capabilities", &Impl::Capabilities},
      {"POST", "/api/v1/create_session", &Impl::CreateSession},
      {"POST", "/api/v1/session_heartbeat", &Impl::Heartbeat},
      {"POST", "/api/v1/sessions/*/finish", &Impl::FinishSession, "finish"},
      {"POST", "/api/v1/create_sampling_session", &Impl::CreateSampler},
      {"GET", "/api/v1/samplers/*", &Impl::SamplerInfo},
      {"POST", "/api/v1/get_info", &Impl::ModelInfo},
      {"POST", "/api/v1/weights_info", &Impl::WeightsInfo},
      {"GET", "/api/v1/training_runs", &Impl::Runs},
      {"GET", "/api/v1/training_runs/*", &Impl::RunInfo},
      {"GET", "/api/v1/training_runs/*/checkpoints", &Impl::Checkpoints},
      {"GET", "/api/v1/checkpoints", &Impl::Checkpoints},
      {"GET", "/api/v1/training_runs/*/checkpoints/external_weights/*/external_weights_urls",
       &Impl::ExternalUrls},
      {"GET", "/api/v1/external_files/*/*/*/*", &Impl::ExternalFile},
      {"GET", "/v1/models", &Impl::OpenAiModels},
      {"GET", "/oai/api/v1/models", &Impl::OpenAiModels},
      // Promises.
      {"POST", "/api/v1/create_model", &Impl::Create, "create_model"},
      {"POST", "/api/v1/forward_backward", &Impl::Loss, "forward_backward"},
      {"POST", "/api/v1/forward", &Impl::Loss, "forward"},
      {"POST", "/api/v1/optim_step", &Impl::OfModel, "optim_step"},
      {"POST", "/api/v1/save_weights", &Impl::OfModel, "save_weights"},
      {"POST", "/api/v1/save_weights_for_sampler", &Impl::OfModel, "save_weights_for_sampler"},
      {"POST", "/api/v1/save_weights_external", &Impl::OfModel, "save_weights_external"},
      {"POST", "/api/v1/load_weights", &Impl::OfModel, "load_weights"},
      {"POST", "/api/v1/asample", &Impl::Sample, "asample"},
      {"POST", "/api/v1/retrieve_future", &Impl::Retrieve},
      {"POST", "/api/v1/cancel_future", &Impl::Cancel},
      // Held requests.
      {"POST", "/v1/completions", &Impl::Hold, "completions"},
      {"POST", "/oai/api/v1/completions", &Impl::Hold, "completions"},
      {"POST", "/v1/chat/completions", &Impl::Hold, "chat_completions"},
      {"POST", "/oai/api/v1/chat/completions", &Impl::Hold, "chat_completions"},
      {"POST", "/tokenize", &Impl::Hold, "tokenize"},
      {"POST", "/v1/tokenize", &Impl::Hold, "tokenize"},
      {"POST", "/detokenize", &Impl::Hold, "detokenize"},
      {"POST", "/v1/detokenize", &Impl::Hold, "detokenize"},
      {"GET", "/tokenizer_info", &Impl::Hold, "tokenizer_info"},
      {"GET", "/v1/tokenizer_info", &Impl::Hold, "tokenizer_info"},
      {"DELETE", "/api/v1/training_runs/*/checkpoints/*/*", &Impl::DeleteCheckpoint,
       "delete_checkpoint"},
      // Requests of the Tinker service that this one does not answer.
      {"POST", "/api/v1/create_custom_loss", &Impl::NotOffered},
      {"POST", "/api/v1/join_sampling_session", &Impl::NotOffered},
      {"POST", "/api/v1/retrieve_futures", &Impl::NotOffered},
      {"PUT", "/api/v1/training_runs/*/checkpoints/*/*/ttl", &Impl::NotOffered},
      {"POST", "/api/v1/training_runs/*/checkpoints/*/*/publish", &Impl::NotOffered},
      {"DELETE", "/api/v1/training_runs/*/checkpoints/*/*/publish", &Impl::NotOffered},
      {"GET", "/api/v1/training_runs/*/checkpoints/*/archive", &Impl::NotOffered},
      {"GET", "/api/v1/training_runs/*/checkpoints/*/*/archive", &Impl::NotOffered},
  };
  return table;
}

// The table's patterns, split at slashes, in its order.
const std::vector<std::vector<absl::string_view>>& Patterns() {
  static const auto patterns = [] {
    std::vector<std::vector<absl::string_view>> split;
    for (const Route& route : Table()) split.push_back(absl::StrSplit(route.path, '/'));
    return split;
  }();
  return patterns;
}

// Whether a path fits a pattern. The parts for "*" must not be empty.
bool Fits(const std::vector<absl::string_view>& path, const std::vector<absl::string_view>& pattern,
          std::vector<std::string>& parts) {
  if (path.size() != pattern.size()) return false;
  parts.clear();
  for (size_t i = 0; i < path.size(); ++i) {
    if (pattern[i] != "*" ? path[i] != pattern[i] : path[i].empty()) return false;
    if (pattern[i] == "*") parts.emplace_back(path[i]);
  }
  return true;
}

}  // namespace

Match FindRoute(absl::string_view method, absl::string_view path) {
  Match match;
  const std::vector<absl::string_view> given = absl::StrSplit(path, '/');
  std::vector<std::string> parts;
  for (size_t i = 0; i < Table().size(); ++i) {
    const Route& route = Table()[i];
    if (!Fits(given, Patterns()[i], parts)) continue;
    match.methods.emplace_back(route.method);
    if (method != route.method || match.route) continue;
    match.route = &route;
    match.parts = parts;
  }
  return match;
}

std::vector<std::string> AllPaths() {
  std::vector<std::string> paths;
  for (const Route& route : Table()) {
    if (!absl::StrContains(route.path, "*")) paths.emplace_back(route.path);
  }
  return paths;
}

bool IsOpenAiPath(absl::string_view path) { return !absl::StartsWith(path, "/api/"); }

}  // namespace moonring::serve
