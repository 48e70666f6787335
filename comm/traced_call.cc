#include "comm/traced_call.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/trace/trace_json.h"

namespace moonring::comm {
namespace {

constexpr char kWaiting[] = "waiting", kTransfer[] = "transfer", kGroup[] = "group";

constexpr CallKinds Kinds(const char* name) {
  return {.wait = {.name = name, .category = kWaiting, .text = kGroup, .numbers = {kTransfer}},
          .call = {.name = name,
                   .category = kTransfer,
                   .text = kGroup,
                   .numbers = {"bytes", "call", kTransfer},
                   .beside = base::kCallRow}};
}

// The number of the next transfer on this rank; the span that waits for the transfer names it.
int64_t NextTransfer(const Group& group) {
  int64_t number = group.calls;
  for (const auto* counts : {&group.sent, &group.received}) {
    for (const int64_t count : *counts) number += count;
  }
  return number;
}

int64_t& CountOf(std::vector<int64_t>& counts, const Group& group, int peer) {
  if (counts.empty()) counts.resize(group.size);
  return counts[peer];
}

int WorldRank(const Group& group, int peer) {
  return group.ranks.empty() ? peer : group.ranks[peer];
}

}  // namespace

constexpr CallKinds kAllReduceCall = Kinds("all_reduce"), kBroadcastCall = Kinds("broadcast"),
                    kAllToAllCall = Kinds("all_to_all"), kAllGatherCall = Kinds("all_gather"),
                    kReduceScatterCall = Kinds("reduce_scatter"), kBarrierCall = Kinds("barrier");
constexpr base::SpanKind kStartTransfer = {
    .name = "start transfer", .category = "starting", .text = kGroup};
constexpr base::SpanKind kWaitForTransfer = {
    .name = "wait for transfer", .category = kWaiting, .text = kGroup, .numbers = {kTransfer}};

std::string TracedGroupName(const Group& group) {
  std::string ranks;
  for (size_t i = 0; i < group.ranks.size();) {
    size_t last = i;
    while (last + 1 < group.ranks.size() && group.ranks[last + 1] == group.ranks[last] + 1) ++last;
    absl::StrAppend(&ranks, i == 0 ? " of ranks " : ",", group.ranks[i]);
    if (last > i) absl::StrAppend(&ranks, "-", group.ranks[last]);
    i = last + 1;
  }
  return group.name + ranks;
}

TracedCall::TracedCall(Group& group, const CallKinds& kinds, int64_t bytes)
    : thread_(base::traced_thread) {
  if (thread_ != nullptr) [[unlikely]] {
    wait_.kind = &kinds.wait;
    call_.kind = &kinds.call;
    wait_.text = call_.text = thread_->recorder->Text(TracedGroupName(group));
    const int64_t transfer = NextTransfer(group);
    wait_.numbers = {transfer};
    call_.numbers = {bytes, group.calls, transfer};
    wait_.begin = call_.begin = thread_->recorder->Now();
  }
  ++group.calls;
}

TracedCall::~TracedCall() {
  if (thread_ == nullptr) [[likely]]
    return;
  wait_.end = call_.end = thread_->recorder->Now();
  thread_->Add(call_);
  thread_->Add(wait_);
}

std::unique_ptr<TracedTransfer> TracedTransfer::Start(Group& group) {
  base::TraceRecorder* const recorder = base::CurrentTrace();
  if (recorder == nullptr) [[likely]]
    return nullptr;
  auto traced = std::make_unique<TracedTransfer>();
  traced->group_ = recorder->Text(TracedGroupName(group));
  traced->number_ = NextTransfer(group);
  traced->begin_ = recorder->Now();
  return traced;
}

void TracedTransfer::Add(const base::SpanKind& kind, std::initializer_list<int64_t> numbers) {
  base::SpanEvent event{.kind = &kind, .begin = begin_, .text = group_};
  std::copy(numbers.begin(), numbers.end(), event.numbers.begin());
  events_.push_back(event);
}

void TracedTransfer::Sends(TracedTransfer* traced, Group& group, int peer, int64_t bytes) {
  const int64_t message = CountOf(group.sent, group, peer)++;
  if (traced != nullptr)
    traced->Add(base::kSend, {WorldRank(group, peer), bytes, message, traced->number_});
}

void TracedTransfer::Receives(TracedTransfer* traced, Group& group, int peer, int64_t bytes) {
  const int64_t message = CountOf(group.received, group, peer)++;
  if (traced != nullptr)
    traced->Add(base::kReceive, {WorldRank(group, peer), bytes, message, traced->number_});
}

void TracedTransfer::Calls(TracedTransfer* traced, Group& group, const CallKinds& kinds,
                           int64_t bytes) {
  const int64_t call = group.calls++;
  if (traced != nullptr) traced->Add(kinds.call, {bytes, call, traced->number_});
}

TracedTransfer::Wait::Wait(std::unique_ptr<TracedTransfer> traced) : traced_(std::move(traced)) {
  if (base::CurrentTrace() != nullptr) [[unlikely]]
    begin_ = base::CurrentTrace()->Now();
}

TracedTransfer::Wait::~Wait() {
  base::TracedThread* const thread = base::traced_thread;
  // A transfer that was started before the recording has no events.
  if (thread == nullptr || traced_ == nullptr || traced_->events_.empty()) [[likely]]
    return;
  const int64_t end = thread->recorder->Now();
  for (base::SpanEvent& event : traced_->events_) {
    event.end = end;
    thread->Add(event);
  }
  thread->Add({.kind = &kWaitForTransfer,
               .begin = begin_,
               .end = end,
               .numbers = {traced_->number_},
               .text = traced_->group_});
}

}  // namespace moonring::comm
