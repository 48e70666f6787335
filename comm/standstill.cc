#include "comm/standstill.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace moonring::comm {
namespace {

constexpr char kField = '\x1e', kItem = '\x1f';
constexpr size_t kMostNamed = 8;  // calls that a message names

// Whether rank `a`, in an announced call, waits for rank `b`, which will not make the call unless
// its own call ends.
bool WaitsFor(const std::vector<RankWait>& waits, int a, int b) {
  if (a == b || !waits[a].call.has_value() || waits[a].call->number == 0) return false;
  const WaitingCall& call = *waits[a].call;
  if (std::count(call.ranks.begin(), call.ranks.end(), b) == 0) return false;
  if (waits[b].left) return true;
  if (!waits[b].call.has_value()) return false;
  const auto made = waits[b].call->made.find(call.group);
  return made == waits[b].call->made.end() || made->second < call.number;
}

// Extends `path`, a chain of ranks that wait for one another, until it ends at a rank that has left
// or returns to itself. `dead_end`: ranks from which no chain does so.
bool Follow(const std::vector<RankWait>& waits, std::vector<int>& path,
            std::vector<bool>& dead_end) {
  const int a = path.back();
  for (int b = 0; b < static_cast<int>(waits.size()); ++b) {
    if (dead_end[b] || !WaitsFor(waits, a, b)) continue;
    const auto begin = std::find(path.begin(), path.end(), b);
    if (begin != path.end()) {
      path.erase(path.begin(), begin);
      return true;
    }
    path.push_back(b);
    if (waits[b].left) {
      path.erase(path.begin(), path.end() - 2);
      return true;
    }
    if (Follow(waits, path, dead_end)) return true;
    path.pop_back();
  }
  dead_end[a] = true;
  return false;
}

// Whether rank r is in a call that is not announced, and so are all other ranks of its group: the
// call may be transferring data, which takes long on a slow network.
bool MayTransfer(const std::vector<RankWait>& waits, int r) {
  if (!waits[r].call.has_value() || waits[r].call->number != 0) return false;
  const WaitingCall& call = *waits[r].call;
  return std::all_of(call.ranks.begin(), call.ranks.end(), [&](int peer) {
    const std::optional<WaitingCall>& other = waits[peer].call;
    return !waits[peer].left && other.has_value() && other->number == 0 &&
           other->group == call.group;
  });
}

Standstill Of(const std::vector<RankWait>& waits, std::vector<int> ranks, bool certain) {
  std::sort(ranks.begin(), ranks.end());
  std::vector<std::pair<int, std::string>> calls;
  std::vector<int> left;
  for (const int r : ranks) {
    if (waits[r].left) {
      left.push_back(r);
      continue;
    }
    const WaitingCall& call = *waits[r].call;
    const size_t name = call.group.find(' ');
    calls.emplace_back(r, absl::StrCat(call.call, " on group '",
                                       name == std::string::npos ? call.group
                                                                 : call.group.substr(name + 1),
                                       "'"));
  }
  std::string ended;
  if (!left.empty())
    ended = absl::StrCat(left.size() == 1 ? "rank " : "ranks ", absl::StrJoin(left, ", "),
                         left.size() == 1 ? " has ended its script, "
                                          : " have ended their scripts, ");
  return {std::move(ranks), absl::StrCat(ended, DifferentCalls(calls)), certain};
}

}  // namespace

std::string WaitingCall::Text() const {
  return absl::StrJoin(
      {absl::StrCat(turn), group, call, absl::StrCat(number), absl::StrJoin(ranks, ","),
       absl::StrJoin(made, std::string(1, kItem), absl::PairFormatter("="))},
      std::string(1, kField));
}

std::optional<WaitingCall> WaitingCall::FromText(absl::string_view text) {
  const std::vector<std::string> fields = absl::StrSplit(text, kField);
  WaitingCall wait;
  if (fields.size() != 6 || !absl::SimpleAtoi(fields[0], &wait.turn) ||
      !absl::SimpleAtoi(fields[3], &wait.number))
    return std::nullopt;
  wait.group = fields[1];
  wait.call = fields[2];
  for (const absl::string_view rank : absl::StrSplit(fields[4], ',', absl::SkipEmpty())) {
    int number = 0;
    if (!absl::SimpleAtoi(rank, &number)) return std::nullopt;
    wait.ranks.push_back(number);
  }
  for (const absl::string_view made : absl::StrSplit(fields[5], kItem, absl::SkipEmpty())) {
    const size_t equal = made.rfind('=');
    int64_t count = 0;
    if (equal == absl::string_view::npos || !absl::SimpleAtoi(made.substr(equal + 1), &count))
      return std::nullopt;
    wait.made[std::string(made.substr(0, equal))] = count;
  }
  return wait;
}

std::optional<Standstill> FindStandstill(const std::vector<RankWait>& waits) {
  const int size = static_cast<int>(waits.size());
  std::vector<bool> dead_end(size, false);
  for (int r = 0; r < size; ++r) {
    std::vector<int> path = {r};
    // A rank that has left waits for no other, but ends a chain.
    if (!waits[r].left && !dead_end[r] && Follow(waits, path, dead_end))
      return Of(waits, path, /*certain=*/true);
  }
  const bool all_wait = std::all_of(waits.begin(), waits.end(), [](const RankWait& wait) {
    return wait.left || wait.call.has_value();
  });
  for (int r = 0; all_wait && r < size; ++r) {
    if (MayTransfer(waits, r)) return std::nullopt;
  }
  for (int a = 0; all_wait && a < size; ++a) {
    for (int b = 0; b < size; ++b) {
      if (WaitsFor(waits, a, b)) return Of(waits, {a, b}, /*certain=*/false);
    }
  }
  return std::nullopt;
}

std::string DifferentCalls(const std::vector<std::pair<int, std::string>>& calls) {
  std::vector<std::pair<std::string, std::vector<int>>> different;
  for (const auto& [rank, call] : calls) {
    auto same = std::find_if(different.begin(), different.end(),
                             [&call = call](const auto& each) { return each.first == call; });
    if (same == different.end()) same = different.insert(same, {call, {}});
    same->second.push_back(rank);
  }
  std::string text;
  for (size_t i = 0; i < std::min(different.size(), kMostNamed); ++i) {
    const auto& [call, ranks] = different[i];
    absl::StrAppend(&text, i == 0 ? "" : ", ", ranks.size() == 1 ? "rank " : "ranks ",
                    absl::StrJoin(ranks, ", "), " called ", call);
  }
  if (different.size() > kMostNamed) absl::StrAppend(&text, ", and others made other calls");
  return absl::StrCat(text,
                      ": all ranks of a group must make the same calls in the same order");
}

}  // namespace moonring::comm
