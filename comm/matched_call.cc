#include "comm/matched_call.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status/status_macros.h"
#include "base/text/fnv1a.h"
#include "comm/standstill.h"

namespace moonring::comm {
namespace {

constexpr size_t kMostText = 512;  // bytes of a call's text that are exchanged

// The text of a call, for the message of a mismatch.
std::string TextOf(const ScriptCall& call) {
  std::string text =
      call.site.empty() ? call.what : absl::StrCat(call.what, " (", call.site, ")");
  if (text.size() >= kMostText) text.resize(kMostText - 1);
  return text;
}

// Returns the error of different calls. Every rank calls it.
absl::Status Mismatch(Communicator& group, const ScriptCall& call) {
  std::vector<int64_t> mine(kMostText / sizeof(int64_t), 0);
  const std::string text = TextOf(call);
  std::memcpy(mine.data(), text.data(), text.size());
  ASSIGN_OR_RETURN(const std::vector<int64_t> texts,
                   group.Announce({.call = call.what, .round = 1}, mine));
  std::vector<std::pair<int, std::string>> calls;
  for (int r = 0; r < group.size(); ++r) {
    const auto* of_rank = reinterpret_cast<const char*>(texts.data() + r * mine.size());
    calls.emplace_back(group.world_rank(r), std::string(of_rank, strnlen(of_rank, kMostText)));
  }
  return absl::AbortedError(DifferentCalls(calls));
}

}  // namespace

absl::StatusOr<std::vector<int64_t>> Match(Communicator& group, const ScriptCall& call,
                                           int64_t number) {
  if (group.size() == 1) return std::vector<int64_t>{number};
  const auto hash = static_cast<int64_t>(base::Fnv1a(call.what));
  ASSIGN_OR_RETURN(
      const std::vector<int64_t> announced,
      group.Announce({.call = call.what, .published = TextOf(call)}, {hash, number}));
  std::vector<int64_t> numbers;
  bool same = true;
  for (size_t r = 0; r < announced.size() / 2; ++r) {
    same = same && announced[2 * r] == hash;
    numbers.push_back(announced[2 * r + 1]);
  }
  if (!same) return Mismatch(group, call);
  return numbers;
}

}  // namespace moonring::comm
