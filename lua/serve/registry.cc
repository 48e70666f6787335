#include "lua/serve/registry.h"

#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status/status_macros.h"
#include "comm/store/secret.h"

namespace moonring::serve {
namespace {

std::string NewSessionId() { return absl::StrCat("session-", comm::RandomHex(8)); }

nlohmann::json SessionRecord(const std::string& id, const std::string& key) {
  return {{"is", "session"}, {"session", id}, {"key", key}};
}

nlohmann::json SamplerRecord(const std::string& id, const Registry::Sampler& sampler) {
  return {{"is", "sampler"},
          {"sampler", id},
          {"session", sampler.session},
          {"base_model", sampler.base_model},
          {"path", sampler.path}};
}

}  // namespace

bool Registry::Read(const Journal::Record& record, Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  const Json& fields = record.fields;
  const std::string is = fields.value("is", ""), session = fields.value("session", "");
  if (is == "session") {
    sessions_[session] = {fields.value("key", ""), now};
  } else if (is == "sampler") {
    samplers_[fields.value("sampler", "")] = {session, fields.value("base_model", ""),
                                              fields.value("path", "")};
  } else if (is == "ended") {
    sessions_.erase(session);
    for (auto each = samplers_.begin(); each != samplers_.end();)
      each = each->second.session == session ? samplers_.erase(each) : std::next(each);
  } else {
    return false;
  }
  return true;
}

std::vector<Journal::Kept> Registry::Records() const {
  const std::lock_guard lock(mutex_);
  std::vector<Journal::Kept> records;
  for (const auto& [id, session] : sessions_)
    records.push_back({{}, SessionRecord(id, session.key), false});
  for (const auto& [id, sampler] : samplers_)
    records.push_back({{}, SamplerRecord(id, sampler), false});
  return records;
}

absl::StatusOr<std::string> Registry::NewSession(const std::string& key, Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  for (const auto& [id, session] : sessions_) {
    if (!key.empty() && session.key == key) return id;
  }
  if (sessions_.size() >= kMostSessions)
    return absl::ResourceExhaustedError(absl::StrCat("there are ", kMostSessions, " sessions"));
  const std::string id = NewSessionId();
  RETURN_IF_ERROR(journal_->Append(SessionRecord(id, key)).status());
  sessions_[id] = {key, now};
  return id;
}

bool Registry::Touch(const std::string& session, Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  const auto found = sessions_.find(session);
  if (found == sessions_.end()) return false;
  found->second.used = now;
  return true;
}

bool Registry::End(const std::string& session) {
  const std::lock_guard lock(mutex_);
  if (sessions_.erase(session) == 0) return false;
  for (auto each = samplers_.begin(); each != samplers_.end();)
    each = each->second.session == session ? samplers_.erase(each) : std::next(each);
  // If the record cannot be written, the session is there again after a restart, and ends by
  // itself.
  (void)journal_->Append({{"is", "ended"}, {"session", session}});
  return true;
}

std::vector<std::string> Registry::Silent(Clock::time_point since) const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> silent;
  for (const auto& [id, session] : sessions_) {
    if (session.used < since) silent.push_back(id);
  }
  return silent;
}

absl::Status Registry::AddSampler(const std::string& id, const Sampler& sampler) {
  const std::lock_guard lock(mutex_);
  if (samplers_.count(id) > 0) return absl::OkStatus();
  if (samplers_.size() >= kMostSamplers)
    return absl::ResourceExhaustedError("there are too many sampling sessions");
  RETURN_IF_ERROR(journal_->Append(SamplerRecord(id, sampler)).status());
  samplers_[id] = sampler;
  return absl::OkStatus();
}

std::optional<Registry::Sampler> Registry::FindSampler(const std::string& id) const {
  const std::lock_guard lock(mutex_);
  const auto found = samplers_.find(id);
  if (found == samplers_.end()) return std::nullopt;
  return found->second;
}

void Registry::Publish(const std::string& kind, const std::string& id, std::string json) {
  const std::lock_guard lock(mutex_);
  facts_[kind][id] = std::move(json);
}

void Registry::Withdraw(const std::string& kind, const std::string& id) {
  const std::lock_guard lock(mutex_);
  facts_[kind].erase(id);
}

std::optional<std::string> Registry::Fact(const std::string& kind, const std::string& id) const {
  const std::lock_guard lock(mutex_);
  const auto of_kind = facts_.find(kind);
  if (of_kind == facts_.end()) return std::nullopt;
  const auto found = of_kind->second.find(id);
  if (found == of_kind->second.end()) return std::nullopt;
  return found->second;
}

std::vector<std::pair<std::string, std::string>> Registry::Facts(
    const std::string& kind, const std::string& beginning) const {
  const std::lock_guard lock(mutex_);
  std::vector<std::pair<std::string, std::string>> facts;
  const auto of_kind = facts_.find(kind);
  if (of_kind == facts_.end()) return facts;
  for (auto each = of_kind->second.lower_bound(beginning);
       each != of_kind->second.end() && absl::StartsWith(each->first, beginning); ++each)
    facts.push_back(*each);
  return facts;
}

}  // namespace moonring::serve
