#ifndef MOONRING_COMM_STANDSTILL_H_
#define MOONRING_COMM_STANDSTILL_H_

// Finds calls of several ranks that can never end, because each rank waits for another one.
//
// Rank a, in an announced call (comm/matched_call.h), waits for rank b of the call's group if b has
// not made this call and cannot make it now: b waits in another call itself, or has left. An
// announced call ends only when all ranks of its group have made it, so a cycle of such waits, or a
// wait for a rank that has left, is a proof. Of other calls it is not known for which ranks they
// wait; there a standstill is likely if every rank of the world waits and no group has all of its
// ranks in such a call, and certain only after a while without any change.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace moonring::comm {

// A call in which a rank waits, as it publishes it for the other ranks.
struct WaitingCall {
  int64_t turn = 0;        // counts the waits of this rank: the same number is the same wait
  std::string group;       // the group's id: a number, a space, and its name
  std::string call;        // "mesh:sum (loss.lua:12)"
  int64_t number = 0;      // which of the group's announced calls this is, from 1; 0: another call
  std::vector<int> ranks;  // of the group, as numbers in the world
  std::map<std::string, int64_t> made;  // the announced calls that this rank has begun, by group

  std::string Text() const;
  static std::optional<WaitingCall> FromText(absl::string_view text);
};

// A rank as others see it: it has left, it waits in `call`, or it computes.
struct RankWait {
  bool left = false;
  std::optional<WaitingCall> call;
};

struct Standstill {
  std::vector<int> ranks;  // the ranks that wait for one another
  std::string cause;       // what each of them does
  bool certain = false;    // whether no rank can make progress without an error
};

// Returns a standstill, a certain one if there is any; nullopt if some rank may make progress.
std::optional<Standstill> FindStandstill(const std::vector<RankWait>& waits);

// "rank 0 called mesh:sum (a.lua:3), rank 1 called mesh:max (a.lua:5)", with the rule that all
// ranks must follow. `calls`: by rank; equal calls are named once.
std::string DifferentCalls(const std::vector<std::pair<int, std::string>>& calls);

}  // namespace moonring::comm

#endif  // MOONRING_COMM_STANDSTILL_H_
