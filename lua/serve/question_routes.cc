// Requests of a service that are answered at once.

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status/status_macros.h"
#include "base/text/nearest_name.h"
#include "lua/serve/request_key.h"
#include "lua/serve/route_table.h"
#include "lua/serve/service_impl.h"

namespace moonring::serve {
namespace {

// Limit of the sampling requests of a client at a time; a poll for each holds a connection.
constexpr int kConcurrentSamples = 64;
constexpr size_t kListed = 100;  // entries of a list, unless the client wants another number

Impl::Response FactResponse(std::string json) {
  return {.status = 200, .type = "application/json", .body = std::move(json)};
}

// A number of the address's query, 0 or more; `otherwise` if there is none.
int64_t QueryNumber(const Impl::Asked& asked, const char* name, int64_t otherwise) {
  for (const auto& [key, value] : asked.query) {
    char* end = nullptr;
    const int64_t number = std::strtoll(value.c_str(), &end, 10);
    if (key == name && !value.empty() && *end == '\0' && number >= 0) return number;
  }
  return otherwise;
}

// A page of a list, as the query's offset and limit say.
Json Page(const Impl::Asked& asked, const char* name, const std::vector<Json>& all) {
  const size_t offset = static_cast<size_t>(QueryNumber(asked, "offset", 0));
  const size_t limit = static_cast<size_t>(QueryNumber(asked, "limit", kListed));
  Json page = Json::array();
  for (size_t i = offset; i < all.size() && page.size() < limit; ++i) page.push_back(all[i]);
  return {{name, std::move(page)},
          {"cursor", {{"offset", offset}, {"limit", limit}, {"total_count", all.size()}}}};
}

std::vector<Json> Parsed(const std::vector<std::pair<std::string, std::string>>& facts) {
  std::vector<Json> all;
  for (const auto& [id, text] : facts) all.push_back(Json::parse(text, nullptr, false));
  return all;
}

std::vector<std::string> AllNames(const Service::Options& options) {
  std::vector<std::string> names;
  for (const auto& model : options.base_models)
    names.insert(names.end(), model.names.begin(), model.names.end());
  return names;
}

bool IsBaseModel(const Service::Options& options, const std::string& name) {
  const std::vector<std::string> names = AllNames(options);
  return std::find(names.begin(), names.end(), name) != names.end();
}

absl::Status NoSuch(absl::string_view what, const std::string& name,
                    const std::vector<std::pair<std::string, std::string>>& known) {
  std::vector<std::string> names;
  for (const auto& [id, text] : known) names.push_back(id);
  return absl::NotFoundError(
      absl::StrCat("there is no ", what, " '", name, "'", base::DidYouMean(name, names)));
}

}  // namespace

Impl::Answer Impl::Health(const Asked&, const Match&) { return JsonResponse({{"status", "ok"}}); }

Impl::Answer Impl::ClientConfig(const Asked&, const Match&) {
  return JsonResponse({{"sample_max_concurrent_requests", kConcurrentSamples},
                       {"parallel_fwdbwd_chunks", true},
                       {"proto_compress_fwdbwd", false},
                       {"pjwt_auth_enabled", false}});
}

Impl::Answer Impl::DynamicConfig(const Asked&, const Match&) {
  return JsonResponse(Json::object());
}

Impl::Answer Impl::Telemetry(const Asked&, const Match&) {
  return JsonResponse({{"status", "accepted"}});
}

Impl::Answer Impl::Capabilities(const Asked&, const Match&) {
  Json models = Json::array();
  for (const auto& model : options_.base_models) {
    Json entry = {{"model_name", model.names.front()},
                  {"trainable", model.trainable},
                  {"sampleable", model.sampleable}};
    if (model.max_context_length > 0) entry["max_context_length"] = model.max_context_length;
    models.push_back(std::move(entry));
  }
  return JsonResponse({{"supported_models", std::move(models)}});
}

Impl::Answer Impl::CreateSession(const Asked& asked, const Match&) {
  RETURN_IF_ERROR(ParseBody(asked.body).status());
  const auto key = asked.headers.find("x-idempotency-key");
  const std::string name =
      key == asked.headers.end() || key->second.size() > kMostText ? "" : key->second;
  ASSIGN_OR_RETURN(const std::string session, registry_->NewSession(name, Registry::Clock::now()));
  return JsonResponse({{"session_id", session}, {"type", "create_session"}});
}

Impl::Answer Impl::Heartbeat(const Asked& asked, const Match&) {
  ASSIGN_OR_RETURN(const Json fields, ParseBody(asked.body));
  ASSIGN_OR_RETURN(const std::string session, TextField(fields, "session_id"));
  RETURN_IF_ERROR(CheckSession(session));
  return JsonResponse({{"type", "session_heartbeat"}});
}

Impl::Answer Impl::FinishSession(const Asked&, const Match& match) {
  EndSession(match.parts[0]);
  return JsonResponse({{"status", "ok"}});
}

Impl::Answer Impl::CreateSampler(const Asked& asked, const Match&) {
  ASSIGN_OR_RETURN(const Json fields, ParseBody(asked.body));
  Registry::Sampler sampler;
  ASSIGN_OR_RETURN(sampler.session, TextField(fields, "session_id"));
  ASSIGN_OR_RETURN(const int64_t number, IntegerField(fields, "sampling_session_seq_id", 0));
  ASSIGN_OR_RETURN(sampler.path, TextField(fields, "model_path", ""));
  ASSIGN_OR_RETURN(sampler.base_model, TextField(fields, "base_model", ""));
  RETURN_IF_ERROR(CheckSession(sampler.session));
  if (sampler.path.empty() && sampler.base_model.empty())
    return absl::InvalidArgumentError("expected base_model or model_path");
  if (!sampler.path.empty() && !registry_->Fact("weights", sampler.path))
    return NoSuch("saved weights", sampler.path, registry_->Facts("weights"));
  if (sampler.path.empty() && !IsBaseModel(options_, sampler.base_model)) {
    const std::vector<std::string> names = AllNames(options_);
    return absl::NotFoundError(absl::StrCat("base_model: no model '", sampler.base_model, "'",
                                            base::DidYouMean(sampler.base_model, names),
                                            "; models: ", absl::StrJoin(names, ", ")));
  }
  const std::string id = SamplerId(sampler.session, number);
  RETURN_IF_ERROR(registry_->AddSampler(id, sampler));
  return JsonResponse({{"sampling_session_id", id}, {"type", "create_sampling_session"}});
}

Impl::Answer Impl::SamplerInfo(const Asked&, const Match& match) {
  const std::string& id = match.parts[0];
  if (const auto fact = registry_->Fact("sampler", id)) return FactResponse(*fact);
  const auto sampler = registry_->FindSampler(id);
  if (!sampler) return absl::NotFoundError(absl::StrCat("there is no sampling session '", id, "'"));
  std::string base = sampler->base_model;
  if (const auto weights = registry_->Fact("weights", sampler->path))
    base = Json::parse(*weights, nullptr, false).value("base_model", base);
  Json answer = {{"sampler_id", id}, {"base_model", base}, {"model_path", nullptr}};
  if (!sampler->path.empty()) answer["model_path"] = sampler->path;
  return JsonResponse(answer);
}

Impl::Answer Impl::ModelInfo(const Asked& asked, const Match&) {
  ASSIGN_OR_RETURN(const Json fields, ParseBody(asked.body));
  ASSIGN_OR_RETURN(const std::string id, TextField(fields, "model_id"));
  if (const auto fact = registry_->Fact("model", id)) return FactResponse(*fact);
  return NoSuch("model", id, registry_->Facts("model"));
}

Impl::Answer Impl::WeightsInfo(const Asked& asked, const Match&) {
  ASSIGN_OR_RETURN(const Json fields, ParseBody(asked.body));
  ASSIGN_OR_RETURN(const std::string path, TextField(fields, "tinker_path"));
  if (const auto fact = registry_->Fact("weights", path)) return FactResponse(*fact);
  return NoSuch("saved weights", path, registry_->Facts("weights"));
}

Impl::Answer Impl::RunInfo(const Asked&, const Match& match) {
  if (const auto fact = registry_->Fact("run", match.parts[0])) return FactResponse(*fact);
  return NoSuch("training run", match.parts[0], registry_->Facts("run"));
}

Impl::Answer Impl::Runs(const Asked& asked, const Match&) {
  std::vector<Json> runs = Parsed(registry_->Facts("run"));
  // The newest first, as clients expect that ask for few. Times are texts that sort by time.
  std::stable_sort(runs.begin(), runs.end(), [](const Json& a, const Json& b) {
    return a.value("last_request_time", "") > b.value("last_request_time", "");
  });
  return JsonResponse(Page(asked, "training_runs", runs));
}

Impl::Answer Impl::Checkpoints(const Asked& asked, const Match& match) {
  const std::string beginning =
      match.parts.empty() ? "" : absl::StrCat("tinker://", match.parts[0], "/");
  return JsonResponse(
      Page(asked, "checkpoints", Parsed(registry_->Facts("checkpoint", beginning))));
}

Impl::Answer Impl::OpenAiModels(const Asked&, const Match&) {
  Json models = Json::array();
  const auto add = [&models](const std::string& name) {
    models.push_back({{"id", name}, {"object", "model"}, {"created", 0}, {"owned_by", "local"}});
  };
  for (const auto& model : options_.base_models) add(model.names.front());
  for (const auto& [path, text] : registry_->Facts("weights")) add(path);
  return JsonResponse({{"object", "list"}, {"data", std::move(models)}});
}

Impl::Answer Impl::NotOffered(const Asked& asked, const Match&) {
  return absl::UnimplementedError(
      absl::StrCat(asked.path, " is not offered by this service (docs/serve.md lists what is)"));
}

}  // namespace moonring::serve
