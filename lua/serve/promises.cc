#include "lua/serve/promises.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status/status_macros.h"
#include "lua/serve/promise_records.h"

namespace moonring::serve {

Promises::Promises(Options options, Journal* journal,
                   std::function<void(const std::string& id)> finished)
    : options_(options), journal_(journal), finished_(std::move(finished)) {}

bool Promises::IsOrdered(const Promise& promise) const { return promise.request.seq > 0; }

// Whether a restart runs the request for its effect on the weights: unless a state on disk contains
// it. The creation of a model has the seq_id 0, so every state contains it.
bool Promises::IsReplayed(const Promise& promise) const {
  if (promise.request.effect != Effect::kWeights) return false;
  const auto order = orders_.find(promise.request.model);
  if (order == orders_.end() || !order->second.has_state) return true;
  return promise.request.seq > order->second.saved;
}

void Promises::Note(const absl::Status& status) {
  if (!status.ok()) trouble_ = status;
}

absl::Status Promises::TakeTrouble() {
  const std::lock_guard lock(mutex_);
  return std::exchange(trouble_, absl::OkStatus());
}

bool Promises::Knows(const std::string& model) const {
  const std::lock_guard lock(mutex_);
  return orders_.count(model) > 0;
}

absl::Status Promises::Accept(Request request, Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  if (promises_.count(request.id) > 0) return absl::OkStatus();
  const int64_t size = static_cast<int64_t>(request.body.size());
  if (static_cast<int64_t>(promises_.size()) >= options_.most_promises ||
      bytes_ + size > options_.most_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("too many requests wait: ", promises_.size(), " with ", bytes_, " bytes"));
  }
  Promise promise;
  if (journal_ && request.effect != Effect::kHeld) {
    ASSIGN_OR_RETURN(promise.place, journal_->Append(RequestRecord(request), request.body));
  }
  promise.number = ++numbers_;
  promise.accepted = now;
  promise.request = std::move(request);
  bytes_ += size;
  Promise& added = promises_.emplace(promise.request.id, std::move(promise)).first->second;
  if (!IsOrdered(added)) {
    if (!added.request.model.empty()) orders_[added.request.model];  // a new model
    Ready(added);
    return absl::OkStatus();
  }
  Order& order = orders_[added.request.model];
  if (!order.broken.empty()) {
    SetResult(added, Failure(order.broken, "server"));
    return absl::OkStatus();
  }
  if (added.request.seq < order.next) {
    SetResult(added, Failure(absl::StrCat("seq_id ", added.request.seq, " came after seq_id ",
                                          order.next - 1, " had run without it"),
                             "user"));
    return absl::OkStatus();
  }
  order.later[added.request.seq] = added.request.id;
  Advance(order);
  return absl::OkStatus();
}

void Promises::Ready(Promise& promise) {
  promise.dormant = false;
  ready_.push_back(promise.request.id);
  changed_.notify_all();
}

void Promises::Advance(Order& order) {
  while (!order.later.empty() && order.later.begin()->first == order.next) {
    Ready(promises_.at(order.later.begin()->second));
    order.later.erase(order.later.begin());
    ++order.next;
  }
}

Promises::Answer Promises::Poll(const std::string& id, Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  const auto found = promises_.find(id);
  if (found == promises_.end() || found->second.forgotten) return {State::kUnknown, {}, ""};
  Promise& promise = found->second;
  if (promise.dormant) Ready(promise);
  if (!promise.result) return {State::kWaiting, {}, promise.request.route};
  if (!promise.delivered) promise.delivered = now;
  return {State::kDone, *promise.result, promise.request.route};
}

void Promises::Cancel(const std::string& id) {
  {
    const std::lock_guard lock(mutex_);
    const auto found = promises_.find(id);
    if (found == promises_.end() || found->second.started || found->second.result) return;
    const auto place = std::find(ready_.begin(), ready_.end(), id);
    if (place == ready_.end() && !found->second.dormant) return;  // waits for an earlier one
    if (place != ready_.end()) ready_.erase(place);
    found->second.dormant = false;
    SetResult(found->second, Failure("the client cancelled the request", "user"));
  }
  finished_(id);
}

bool Promises::Revoke(const std::string& id) {
  const std::lock_guard lock(mutex_);
  const auto found = promises_.find(id);
  if (found == promises_.end()) return false;
  bytes_ -= static_cast<int64_t>(found->second.request.body.size());
  ready_.erase(std::remove(ready_.begin(), ready_.end(), id), ready_.end());
  promises_.erase(found);
  return true;
}

std::optional<Job> Promises::Next(Clock::duration wait, const std::set<std::string>& routes) {
  std::unique_lock lock(mutex_);
  std::optional<Job> job;
  changed_.wait_for(lock, wait, [&] {
    job = Take(routes);
    return job.has_value();
  });
  return job;
}

void Promises::Interrupt() {
  const std::lock_guard lock(mutex_);
  for (auto& [id, promise] : promises_) {
    if (!promise.started) continue;
    promise.crashes = 0;
    if (journal_) Note(journal_->Append(InterruptedRecord(id)).status());
  }
}

std::optional<Job> Promises::Take(const std::set<std::string>& routes) {
  for (auto place = ready_.begin(); place != ready_.end(); ++place) {
    Promise& promise = promises_.at(*place);
    Request& request = promise.request;
    if (!routes.empty() && routes.count(request.route) == 0) continue;
    Job job{request.id,    request.route, request.body, request.type,  request.session,
            request.model, request.seq,   request.seed, promise.replay};
    if (!promise.holds_body) {
      absl::StatusOr<std::string> body = journal_->Body(promise.place);
      Note(body.status());
      if (!body.ok()) continue;  // the file was changed from outside
      job.body = *std::move(body);
    }
    ready_.erase(place);
    if (request.effect == Effect::kHeld) {
      bytes_ -= static_cast<int64_t>(request.body.size());
      promises_.erase(job.id);
      return job;
    }
    promise.started = true;
    if (promise.begun == 0) promise.begun = ++begins_;
    ++promise.crashes;  // until it finishes
    if (journal_) Note(journal_->Append(BegunRecord(request.id)).status());
    if (journal_ && promise.holds_body) {
      bytes_ -= static_cast<int64_t>(request.body.size());
      std::string().swap(request.body);
      promise.holds_body = false;
    }
    return job;
  }
  return std::nullopt;
}

void Promises::SetResult(Promise& promise, Result result) {
  bytes_ += static_cast<int64_t>(result.body.size());
  if (promise.holds_body) {
    bytes_ -= static_cast<int64_t>(promise.request.body.size());
    std::string().swap(promise.request.body);
    promise.holds_body = false;
  }
  if (journal_) {
    const auto place = journal_->Append(ResultRecord(promise.request.id, result), result.body);
    Note(place.status());
    if (place.ok()) promise.result_place = *place;
  }
  promise.result = std::move(result);
  promise.finished = Clock::now();
}

void Promises::Finish(const std::string& id, Result result) {
  {
    const std::lock_guard lock(mutex_);
    const auto found = promises_.find(id);
    if (found == promises_.end()) return;  // its session was dropped
    Promise& promise = found->second;
    if (promise.dropped) {
      promises_.erase(found);
      return;
    }
    promise.started = false;
    promise.crashes = 0;
    if (std::exchange(promise.replay, false)) {  // the first result stays
      if (journal_) Note(journal_->Append(ReplayedRecord(id)).status());
      return;
    }
    if (promise.result) return;
    SetResult(promise, std::move(result));
  }
  finished_(id);
}

absl::Status Promises::Saved(const std::string& model, int64_t seq) {
  const std::lock_guard lock(mutex_);
  Order& order = orders_[model];
  order.saved = std::max(order.saved, seq);
  order.has_state = true;
  return journal_ ? journal_->Append(SavedRecord(model, seq)).status() : absl::OkStatus();
}

void Promises::Erase(const std::string& session) {
  for (auto each = promises_.begin(); each != promises_.end();) {
    Promise& promise = each->second;
    if (promise.request.session == session && promise.started) promise.dropped = true;
    if (promise.request.session != session || promise.started) {
      ++each;
      continue;
    }
    if (promise.holds_body) bytes_ -= static_cast<int64_t>(promise.request.body.size());
    if (promise.result) bytes_ -= static_cast<int64_t>(promise.result->body.size());
    ready_.erase(std::remove(ready_.begin(), ready_.end(), each->first), ready_.end());
    orders_.erase(promise.request.model);
    each = promises_.erase(each);
  }
}

void Promises::Drop(const std::string& session) {
  const std::lock_guard lock(mutex_);
  Erase(session);
  if (journal_) Note(journal_->Append(DroppedRecord(session)).status());
}

// Frees a result. The request itself is kept while no saved state contains it: a restart would
// otherwise wait for its seq_id, or not run it again.
Promises::Table::iterator Promises::Forget(Table::iterator found) {
  Promise& promise = found->second;
  bytes_ -= static_cast<int64_t>(promise.result->body.size());
  const auto order = orders_.find(promise.request.model);
  const bool counts = order != orders_.end() && promise.request.seq > order->second.saved;
  if (!counts && !IsReplayed(promise)) return promises_.erase(found);
  std::string().swap(promise.result->body);
  promise.forgotten = true;
  return std::next(found);
}

// Fails the requests of models that have waited too long for an earlier seq_id.
void Promises::FailMissing(Clock::time_point now, std::vector<std::string>& failed) {
  for (auto& [model, order] : orders_) {
    if (order.later.empty()) continue;
    const Promise& first = promises_.at(order.later.begin()->second);
    if (now - first.accepted < options_.missing) continue;
    const std::string why =
        absl::StrCat("seq_id ", order.next, " of ", model, " did not come within ",
                     options_.missing.count(), " seconds, and this request waited for it");
    const int64_t last = order.later.rbegin()->first;
    for (const auto& [seq, id] : order.later) {
      SetResult(promises_.at(id), Failure(why, "user"));
      failed.push_back(id);
    }
    order.later.clear();
    order.next = last + 1;
  }
}

void Promises::Tidy(Clock::time_point now) {
  std::vector<std::string> failed;
  {
    const std::lock_guard lock(mutex_);
    for (auto each = promises_.begin(); each != promises_.end();) {
      const Promise& promise = each->second;
      const bool can_go =
          promise.result && !promise.started && !promise.replay && !promise.forgotten;
      const bool is_old =
          can_go && (promise.delivered ? now - *promise.delivered > options_.kept
                                       : now - promise.finished > options_.unclaimed);
      each = is_old ? Forget(each) : std::next(each);
    }
    FailMissing(now, failed);
  }
  for (const std::string& id : failed) finished_(id);
}

absl::Status Promises::Compact(std::vector<Journal::Kept> others) {
  const std::lock_guard lock(mutex_);
  if (!journal_ || journal_->bytes() < 2 * compacted_ + options_.least_garbage)
    return absl::OkStatus();
  std::vector<std::pair<std::string, bool>> owners;  // of the records: id, whether it is a result
  std::vector<Journal::Kept> records = Kept(owners);
  const size_t own = records.size();
  for (Journal::Kept& other : others) records.push_back(std::move(other));
  ASSIGN_OR_RETURN(const std::vector<Journal::Place> places, journal_->Rewrite(records));
  for (size_t i = 0; i < own; ++i) {
    if (owners[i].first.empty()) continue;
    Promise& promise = promises_.at(owners[i].first);
    (owners[i].second ? promise.result_place : promise.place) = places[i];
  }
  compacted_ = journal_->bytes();
  return absl::OkStatus();
}

// The records of all promises and orders. A request keeps its body while it may run again.
std::vector<Journal::Kept> Promises::Kept(std::vector<std::pair<std::string, bool>>& owners) {
  std::vector<const Promise*> all;
  for (const auto& [id, promise] : promises_) {
    if (promise.request.effect != Effect::kHeld) all.push_back(&promise);
  }
  std::sort(all.begin(), all.end(),
            [](const Promise* a, const Promise* b) { return a->number < b->number; });
  std::vector<Journal::Kept> records;
  for (const Promise* promise : all) {
    // A result that the journal could not take, for a full disk, is computed again.
    const bool has_result = promise->result && promise->result_place.offset >= 0;
    const bool may_run = !has_result || IsReplayed(*promise);
    records.push_back({promise->place,
                       RequestRecord(promise->request, promise->begun, promise->crashes),
                       /*drops_body=*/!may_run});
    owners.emplace_back(promise->request.id, false);
    if (!has_result) continue;
    records.push_back({promise->result_place,
                       ResultRecord(promise->request.id, *promise->result, promise->forgotten),
                       /*drops_body=*/promise->forgotten});
    owners.emplace_back(promise->request.id, true);
  }
  for (const auto& [model, order] : orders_) {
    if (!order.has_state) continue;
    records.push_back({{}, SavedRecord(model, order.saved), false});
    owners.emplace_back("", false);
  }
  return records;
}

}  // namespace moonring::serve
