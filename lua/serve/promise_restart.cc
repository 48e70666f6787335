// Promises after a restart: reading the journal, and what runs again.

#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lua/serve/promise_records.h"
#include "lua/serve/promises.h"

namespace moonring::serve {

void Promises::ReadRequest(const Journal::Record& record) {
  Promise promise;
  promise.request = RequestOf(record.fields);
  promise.place = record.place;
  promise.holds_body = false;
  promise.number = ++numbers_;
  promise.begun = record.fields.value("begun", int64_t{0});
  promise.crashes = record.fields.value("crashes", 0);
  promise.accepted = Clock::now();
  begins_ = std::max(begins_, promise.begun);
  promises_.emplace(promise.request.id, std::move(promise));
}

bool Promises::Read(const Journal::Record& record) {
  const std::string is = record.fields.value("is", "");
  if (is == "request") {
    ReadRequest(record);
  } else if (is == "saved") {
    orders_[record.fields.value("model", "")].saved = record.fields.value("seq", int64_t{0});
  } else if (is == "dropped") {
    Erase(record.fields.value("session", ""));
  } else if (is != "begun" && is != "replayed" && is != "interrupted" && is != "result") {
    return false;
  }
  const auto found = promises_.find(record.fields.value("id", ""));
  if (found == promises_.end()) return true;
  Promise& promise = found->second;
  if (is == "begun") {
    if (promise.begun == 0) promise.begun = ++begins_;
    ++promise.crashes;
  } else if (is == "replayed" || is == "interrupted") {
    promise.crashes = 0;
  } else if (is == "result") {
    promise.crashes = 0;
    promise.result = Result{record.fields.value("failed", false), std::string(record.body),
                            record.fields.value("type", "")};
    promise.forgotten = record.fields.value("forgotten", false);
    promise.result_place = record.place;
    promise.finished = promise.accepted;
    bytes_ += static_cast<int64_t>(record.body.size());
  }
  return true;
}

// Decides what a restart does with a request.
void Promises::RestoreOne(Promise& promise) {
  const Request& request = promise.request;
  if (!request.model.empty()) orders_[request.model];
  Order* order = IsOrdered(promise) ? &orders_[request.model] : nullptr;
  const bool is_saved = order && request.seq <= order->saved;
  const bool crashes = promise.crashes >= options_.crashes;
  if (promise.result) {
    promise.replay = !promise.result->failed && IsReplayed(promise);
    if (promise.replay && crashes) {
      orders_[request.model].broken =
          absl::StrCat("the service ended ", promise.crashes, " times while it ran ", request.id,
                       " again to restore the model's weights: load saved weights into a new "
                       "model");
    }
    if (promise.replay) Ready(promise);
    if (order && !is_saved) order->next = std::max(order->next, request.seq + 1);
  } else if (is_saved || crashes) {
    SetResult(promise, Failure(is_saved ? "the service ended before it could answer; the "
                                          "request has taken effect"
                                        : absl::StrCat("the service ended ", promise.crashes,
                                                       " times while it ran this request"),
                               "server"));
    if (order && !is_saved) order->next = std::max(order->next, request.seq + 1);
  } else if (request.effect == Effect::kSample) {
    promise.dormant = true;
  } else if (order) {
    order->later[request.seq] = request.id;
  } else {
    Ready(promise);
  }
}

// Fails the waiting requests of models whose weights cannot be restored.
void Promises::FailBroken() {
  for (auto& [id, promise] : promises_) {
    const auto order = orders_.find(promise.request.model);
    if (order == orders_.end() || order->second.broken.empty()) continue;
    ready_.erase(std::remove(ready_.begin(), ready_.end(), id), ready_.end());
    promise.replay = false;
    if (!promise.result) SetResult(promise, Failure(order->second.broken, "server"));
    order->second.later.clear();
  }
}

void Promises::Restore(const std::map<std::string, int64_t>& states) {
  const std::lock_guard lock(mutex_);
  for (auto& [model, order] : orders_) order.saved = 0;  // only states found on disk count
  for (const auto& [model, seq] : states) {
    Order& order = orders_[model];
    order.saved = seq;
    order.has_state = true;
    order.next = seq + 1;
  }
  std::vector<Promise*> all;
  for (auto& [id, promise] : promises_) all.push_back(&promise);
  // In the order in which they ran; those that did not begin follow, as they came.
  std::sort(all.begin(), all.end(), [](const Promise* a, const Promise* b) {
    return std::tuple(a->begun == 0, a->begun, a->number) <
           std::tuple(b->begun == 0, b->begun, b->number);
  });
  for (Promise* promise : all) RestoreOne(*promise);
  FailBroken();
  for (auto& [model, order] : orders_) Advance(order);
  compacted_ = 0;
}

}  // namespace moonring::serve
