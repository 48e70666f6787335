#include "comm/liveness.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "base/status/torch_status.h"

namespace moonring::comm {
namespace {

constexpr char kFailed[] = "failed";
constexpr char kLate[] = "late";
// A rank counts as dead, and not only as slow, if it gives no sign of life for this many heartbeat
// periods.
constexpr int kPatienceBeats = 8;
// Heartbeats for which a rank waits in an announced call before it looks for a standstill, and for
// which a certain and a likely standstill must have lasted.
constexpr int kQuietBeats = 3, kCertainBeats = 3, kLikelyBeats = 32;
// Ranks of a large world that look for a standstill: every rank that waits comes to wait for one
// that has stopped.
constexpr int kMostLookers = 16;

std::string AliveKey(int rank) { return absl::StrCat("alive/", rank); }
std::string WaitsKey(int rank) { return absl::StrCat("waits/", rank); }
std::string CallKey(int rank) { return absl::StrCat("call/", rank); }
std::string LeftKey(int rank) { return absl::StrCat("left/", rank); }

}  // namespace

Liveness::Liveness(c10::intrusive_ptr<c10d::Store> store, bool rank_0_serves, int rank, int size,
                   std::function<void()> hang_up)
    : store_is_gone_(rank_0_serves ? "rank 0 has ended: the store that it serves is gone"
                                   : "the store that the launcher serves is gone"),
      rank_(rank),
      size_(size),
      beat_(std::max(absl::Milliseconds(250), absl::Milliseconds(4) * size)),
      store_(store->clone()),
      hang_up_(std::move(hang_up)) {
  store_->setTimeout(absl::ToChronoMilliseconds(
      2 * kPatienceBeats * beat_));  // a machine that swaps heavily answers late
  (void)base::TryTorch([&] { Beat(); });
  thread_ = std::thread([this] {
    while (!base::TryTorch([this] { Watch(); }).ok()) absl::SleepFor(beat_);  // e.g. out of memory
  });
}

Liveness::~Liveness() { Leave(/*linger=*/false); }

void Liveness::Beat() { store_->set(AliveKey(rank_), absl::StrCat(++beats_)); }

std::string Liveness::Beats(int rank) { return Told(AliveKey(rank)).value_or(""); }

std::optional<std::string> Liveness::Told(const std::string& key) {
  if (!store_->check({key})) return std::nullopt;
  std::string value;
  const absl::Status status = base::TryTorch([&] { value = store_->get_to_str(key); });
  if (absl::IsPermissionDenied(status))
    return std::nullopt;  // anyone who can reach the store can write to it, but not sign
  base::ThrowIfError(status);
  return value;
}

void Liveness::Learn(std::string cause) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (cause_.empty()) cause_ = std::move(cause);
}

std::string Liveness::Cause() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return cause_;
}

void Liveness::Watch() {
  bool told = false;
  std::string waits_in, published;
  while (true) {
    {
      std::unique_lock<std::mutex> lock(mutex_);
      stop_changed_.wait_for(lock, absl::ToChronoMilliseconds(beat_), [this] { return stop_; });
      if (stop_) return;
      waits_in = waits_in_;
    }
    std::string cause;
    const absl::Status status = base::TryTorch([&] {
      Beat();
      if (waits_in != published) store_->set(WaitsKey(rank_), waits_in);
      published = waits_in;
      if (!told) cause = Told(kFailed).value_or("");
      const int waits = PublishWait();
      if (!told && cause.empty() && waits >= kQuietBeats) cause = FindStuckRanks();
    });
    // Neither says that the store is gone. Its server may only be slow: Blame() checks when it
    // matters. Or this rank's own memory is short, which may pass.
    if (absl::IsDeadlineExceeded(status) || absl::IsResourceExhausted(status)) continue;
    if (!status.ok()) cause = store_is_gone_;
    if (cause.empty()) continue;
    Learn(cause);
    if (!std::exchange(told, true)) hang_up_();
    if (!status.ok()) return;
  }
}

std::string Liveness::Announce(absl::string_view cause) {
  std::string standing(cause);
  const absl::Status status =
      base::TryTorch([&] { standing = store_->compareSet(kFailed, "", standing); });
  if (absl::IsPermissionDenied(status))
    (void)base::TryTorch([&] { store_->set(kFailed, standing); });  // replaces an unsigned value
  Learn(standing);
  return standing;
}

std::string Liveness::SilentRanks(bool late) {
  std::vector<int> silent;
  std::vector<std::string> beats(size_), left;
  for (int r = 0; r < size_; ++r) {
    if (r == rank_) continue;
    beats[r] = Beats(r);
    silent.push_back(r);
  }
  // A new process's first heartbeat may still be on its way, so a rank counts as alive once its
  // counter changes. A rank that has left does not count as silent.
  for (int waited = 0; waited < kPatienceBeats && !silent.empty(); ++waited) {
    absl::SleepFor(beat_);
    if (Told(kFailed)) return "";
    std::erase_if(silent, [&](int r) { return Beats(r) != beats[r]; });
  }
  std::erase_if(silent, [&](int r) {
    if (!Told(LeftKey(r))) return false;
    left.push_back(absl::StrCat("rank ", r, " has left"));
    return true;
  });
  if (!silent.empty()) {
    late = late || Told(kLate).has_value();
    const bool one = silent.size() == 1;
    const char* what = late ? (one ? " is stopped or out of reach" : " are stopped or out of reach")
                            : (one ? " has died" : " have died");
    return absl::StrCat(one ? "rank " : "ranks ", absl::StrJoin(silent, ", "), what,
                        " (no sign of life for ", absl::FormatDuration(kPatienceBeats * beat_),
                        ")");
  }
  return absl::StrJoin(left, ", ");
}

void Liveness::NoteTimeout() {
  (void)base::TryTorch([&] { store_->set(kLate, "1"); });
}

std::string Liveness::Blame(bool late) {
  std::string cause = Cause();
  if (!cause.empty()) return cause;
  const absl::Status status = base::TryTorch([&] {
    std::string silent;
    if (!Told(kFailed)) silent = SilentRanks(late);
    cause = silent.empty() ? Told(kFailed).value_or("") : Announce(silent);
  });
  if (absl::IsDeadlineExceeded(status)) {
    cause = std::string(status.message());
  } else if (absl::IsResourceExhausted(status)) {
    cause = absl::StrCat("rank ", rank_, ": ", status.message());
  } else if (!status.ok()) {
    cause = store_is_gone_;
  }
  if (!cause.empty()) Learn(cause);
  return cause;
}

void Liveness::WaitIn(const std::string& group, absl::string_view call, int64_t number,
                      const std::vector<int>* ranks) {
  const std::lock_guard<std::mutex> lock(mutex_);
  waits_in_ = group;
  wait_ranks_ = ranks;
  wait_.group = group;
  if (group.empty()) return;
  ++wait_.turn;
  wait_.call.assign(call.data(), call.size());
  wait_.number = number;
  if (number > 0) wait_.made[group] = number;
}

int Liveness::PublishWait() {
  WaitingCall wait;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const bool same = !wait_.group.empty() && wait_.turn == last_turn_;
    held_ = same ? held_ + 1 : 0;
    last_turn_ = wait_.turn;
    if (held_ == 1) {
      wait = wait_;
      if (wait_ranks_ != nullptr) wait.ranks = *wait_ranks_;
    }
    wait.number = wait_.number;
  }
  if (held_ == 1) store_->set(CallKey(rank_), wait.Text());
  if (held_ == 0 && is_published_) store_->set(CallKey(rank_), "");
  if (held_ <= 1) is_published_ = held_ == 1;
  if (held_ == 0) suspicion_.reset();
  return wait.number > 0 ? held_ : 0;
}

std::vector<RankWait> Liveness::Waits() {
  std::vector<RankWait> waits(size_);
  for (int r = 0; r < size_; ++r) {
    waits[r].left = Told(LeftKey(r)).has_value();
    if (!waits[r].left) waits[r].call = WaitingCall::FromText(Told(CallKey(r)).value_or(""));
  }
  return waits;
}

std::string Liveness::FindStuckRanks() {
  // Large worlds: few ranks look, and rarely.
  const int apart = (size_ + kMostLookers - 1) / kMostLookers;
  if (rank_ % apart != 0 || held_ % (1 + size_ / 64) != 0) return "";
  std::vector<std::string> beats;
  for (int r = 0; r < size_; ++r) beats.push_back(r == rank_ ? "" : Beats(r));
  const std::vector<RankWait> waits = Waits();
  std::optional<Standstill> found = FindStandstill(waits);
  if (!found.has_value()) return suspicion_.reset(), "";
  std::vector<int64_t> turns;
  for (const RankWait& wait : waits)
    turns.push_back(wait.left ? -1 : wait.call.has_value() ? wait.call->turn : 0);
  // A certain standstill concerns its own ranks; a likely one all of them.
  const auto is_same = [&](int r) { return turns[r] == suspect_turns_[r]; };
  bool same = suspicion_.has_value() && suspicion_->cause == found->cause &&
              std::all_of(found->ranks.begin(), found->ranks.end(), is_same);
  if (same && !found->certain) same = turns == suspect_turns_;
  if (!same) {
    suspicion_ = std::move(found);
    suspect_turns_ = std::move(turns);
    suspect_beats_ = std::move(beats);
    looks_ = 0;
    return "";
  }
  // Each rank must have had a whole heartbeat since: then all of them were in their calls when the
  // standstill was found first.
  ++looks_;
  for (const int r : found->ranks) {
    int64_t first = 0, now = 0;
    const bool read =
        absl::SimpleAtoi(suspect_beats_[r], &first) && absl::SimpleAtoi(beats[r], &now);
    if (r != rank_ && turns[r] > 0 && (!read || now < first + 2)) return "";
  }
  return looks_ < (found->certain ? kCertainBeats : kLikelyBeats) ? "" : Announce(found->cause);
}

std::string Liveness::WaitsIn(int rank) {
  std::string group;
  (void)base::TryTorch([&] { group = Told(WaitsKey(rank)).value_or(""); });
  return group;
}

std::vector<int> Liveness::NotIn(const std::string& group, const std::vector<int>& ranks) {
  absl::SleepFor(2 * beat_);  // a rank that has just entered has not published it yet
  std::vector<int> elsewhere;
  (void)base::TryTorch([&] {
    for (const int r : ranks) {
      if (r != rank_ && Told(WaitsKey(r)) != group) elsewhere.push_back(r);
    }
  });
  return elsewhere;
}

void Liveness::Leave(bool linger) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (std::exchange(left_, true)) return;
  }
  // Errors are ignored from here on: the store may already be gone.
  (void)base::TryTorch([&] {
    store_->set(LeftKey(rank_), "1");
    if (!linger) return;
    std::vector<int> here;
    for (int r = 0; r < size_; ++r) {
      if (r != rank_) here.push_back(r);
    }
    std::vector<std::string> beats(size_, "none");
    std::vector<absl::Time> heard(size_, absl::Now());
    absl::Time end = absl::InfiniteFuture();
    while (absl::Now() < end) {
      if (!Cause().empty()) end = std::min(end, absl::Now() + kPatienceBeats * beat_);
      std::erase_if(here, [&](int r) {
        if (Told(LeftKey(r))) return true;
        if (const std::string now = Beats(r); std::exchange(beats[r], now) != now)
          heard[r] = absl::Now();
        return absl::Now() - heard[r] > kPatienceBeats * beat_;
      });
      if (here.empty()) break;
      absl::SleepFor(std::min(beat_, absl::Milliseconds(20)));
    }
  });
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  stop_changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

}  // namespace moonring::comm
