#include "lua/host/prompt_ranks.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status/status_macros.h"
#include "base/status/torch_status.h"
#include "lua/host/interrupt.h"

namespace moonring::lua {
namespace {

// Time between two checks, and number of checks in a row that must find all ranks waiting. One
// check is not enough, because ranks report their waits only with each heartbeat (comm/liveness.h),
// and the machine may be busy.
constexpr auto kLook = std::chrono::milliseconds(250);
constexpr int kMostLooks = 8;

std::string OverKey(int rank) { return absl::StrCat("prompt/over/", rank); }

std::string HasEnded(const std::vector<int>& ranks) {
  const bool one = ranks.size() == 1;
  return absl::StrCat(one ? "rank " : "ranks ", absl::StrJoin(ranks, ", "),
                      one ? " has ended this line and does" : " have ended this line and do",
                      " not come to the call");
}

}  // namespace

absl::StatusOr<std::shared_ptr<PromptRanks>> PromptRanks::FromEnvironment() {
  ASSIGN_OR_RETURN(std::optional<comm::RendezvousOptions> options,
                   comm::RendezvousFromEnvironment());
  ASSIGN_OR_RETURN(std::vector<int> sockets, LineChannel::SocketsFromEnvironment());
  if (!options.has_value() || options->world_size == 1) return std::shared_ptr<PromptRanks>();
  const size_t wanted = options->rank == 0 ? options->world_size - 1 : 1;
  if (sockets.size() != wanted) {
    return absl::FailedPreconditionError(
        "a prompt's ranks have one terminal: moonring -n RANKS repl starts them");
  }
  ASSIGN_OR_RETURN(auto store, comm::OpenStore(*options));
  return std::make_shared<PromptRanks>(Key(), *std::move(options), std::move(sockets),
                                       std::move(store));
}

PromptRanks::PromptRanks(Key, comm::RendezvousOptions options, std::vector<int> sockets,
                         c10::intrusive_ptr<c10d::Store> store)
    : options_(std::move(options)),
      channel_(std::move(sockets)),
      store_(std::move(store)),
      thread_([this] { Watch(); }) {}

PromptRanks::~PromptRanks() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  stop_changed_.notify_all();
  thread_.join();
}

void PromptRanks::Begin() {
  ++line_;
  meshes_ = 0;
}

void PromptRanks::End() {
  (void)base::TryTorch([&] { store_->set(OverKey(rank()), absl::StrCat(line_.load())); });
}

absl::Status PromptRanks::Send(const std::string& line) {
  Begin();
  return channel_.Send(line);
}

absl::StatusOr<std::string> PromptRanks::Receive() {
  ASSIGN_OR_RETURN(std::vector<std::string> lines, channel_.Receive());
  Begin();
  return std::move(lines.front());
}

absl::Status PromptRanks::Report(const std::string& outcome) {
  End();
  return channel_.Send(outcome);
}

absl::StatusOr<std::vector<std::string>> PromptRanks::Gather() {
  End();
  return channel_.Receive();
}

absl::StatusOr<std::shared_ptr<comm::World>> PromptRanks::Connect(comm::RendezvousOptions options) {
  const int64_t line = line_;
  options.store = store_->clone();
  options.attempt = absl::StrCat(options.attempt, "line ", line, " mesh ", ++meshes_, " ");
  // A missing rank that has ended the line is checked twice, because it may have joined between the
  // two checks.
  options.called_off = [this, line, before = std::vector<int>()](
                           const std::vector<int>& missing) mutable -> std::string {
    if (IsInterrupted()) return "interrupted";
    std::vector<int> ended, over = Over(line);
    for (const int rank : missing) {
      if (std::count(over.begin(), over.end(), rank) > 0) ended.push_back(rank);
    }
    std::swap(ended, before);
    std::erase_if(ended, [&](int r) { return std::count(missing.begin(), missing.end(), r) == 0; });
    return ended.empty() ? "" : HasEnded(ended);
  };
  ASSIGN_OR_RETURN(std::shared_ptr<comm::World> world, comm::World::Connect(options));
  const std::lock_guard<std::mutex> lock(mutex_);
  worlds_.push_back(world);
  return world;
}

void PromptRanks::Forget(const std::shared_ptr<comm::World>& world) {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::erase(worlds_, world);
}

std::vector<int> PromptRanks::Over(int64_t line) {
  std::vector<int> over;
  (void)base::TryTorch([&] {
    for (int r = 0; r < size(); ++r) {
      int64_t ended = 0;
      if (store_->check({OverKey(r)}) && absl::SimpleAtoi(store_->get_to_str(OverKey(r)), &ended) &&
          ended >= line)
        over.push_back(r);
    }
  });
  return over;
}

// Returns the reason why no rank can make progress; "" if some rank computes, or no rank waits.
// Requires mutex_.
std::string PromptRanks::WhyStuck() {
  const std::vector<int> over = Over(line_);
  if (over.empty() && !IsInterrupted()) return "";
  std::vector<bool> waits(size(), false);
  for (const auto& world : worlds_) {
    const std::vector<std::string> groups = world->Waits();
    for (int r = 0; r < size(); ++r) waits[r] = waits[r] || !groups[r].empty();
  }
  for (const int r : over) waits[r] = false;
  const auto waiting = static_cast<size_t>(std::count(waits.begin(), waits.end(), true));
  if (waiting == 0 || waiting + over.size() < static_cast<size_t>(size())) return "";
  return absl::StrCat(over.empty() ? "interrupted" : HasEnded(over),
                      "; this mesh is broken: make a new one");
}

void PromptRanks::Watch() {
  int looks = 0;
  std::unique_lock<std::mutex> lock(mutex_);
  while (!stop_changed_.wait_for(lock, kLook, [this] { return stop_; })) {
    if (worlds_.empty()) continue;
    const std::string why = WhyStuck();
    looks = why.empty() ? 0 : looks + 1;
    if (looks < kMostLooks) continue;
    looks = 0;
    for (const auto& world : std::exchange(worlds_, {})) world->Break(why);
  }
}

}  // namespace moonring::lua
