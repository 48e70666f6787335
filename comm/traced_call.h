#ifndef MOONRING_COMM_TRACED_CALL_H_
#define MOONRING_COMM_TRACED_CALL_H_

// A communicator's calls in a trace: how long the host is in each, and what is under way with how
// many bytes to whom (base/trace/recorder.h). Where nothing is recorded only numbers are counted.

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/trace/recorder.h"
#include "base/trace/span.h"
#include "comm/group.h"

namespace moonring::comm {

// A collective: the host's wait for it, and the collective itself.
struct CallKinds {
  base::SpanKind wait, call;
};
extern const CallKinds kAllReduceCall, kBroadcastCall, kAllToAllCall, kAllGatherCall,
    kReduceScatterCall, kBarrierCall;
extern const base::SpanKind kStartTransfer, kWaitForTransfer;

// Of a call that blocks, from here to the end of the scope.
class TracedCall {
 public:
  TracedCall(Group& group, const CallKinds& kinds, int64_t bytes);
  ~TracedCall();
  TracedCall(const TracedCall&) = delete;
  TracedCall& operator=(const TracedCall&) = delete;

 private:
  base::TracedThread* const thread_;
  base::SpanEvent wait_, call_;
};

// Of one that is started and waited for later.
class TracedTransfer {
 public:
  // Null where nothing is recorded. From now on under way.
  static std::unique_ptr<TracedTransfer> Start(Group& group);
  // Each counts on its group too, recorded or not. `traced` may be null. `peer`: of the group.
  static void Sends(TracedTransfer* traced, Group& group, int peer, int64_t bytes);
  static void Receives(TracedTransfer* traced, Group& group, int peer, int64_t bytes);
  static void Calls(TracedTransfer* traced, Group& group, const CallKinds& kinds, int64_t bytes);

  // The host waits from here to the end of the scope, when all is there.
  class Wait {
   public:
    explicit Wait(std::unique_ptr<TracedTransfer> traced);
    ~Wait();
    Wait(const Wait&) = delete;
    Wait& operator=(const Wait&) = delete;

   private:
    const std::unique_ptr<TracedTransfer> traced_;
    int64_t begin_ = 0;
  };

 private:
  void Add(const base::SpanKind& kind, std::initializer_list<int64_t> numbers);

  int64_t begin_ = 0, number_ = 0;
  int32_t group_ = -1;
  std::vector<base::SpanEvent> events_;  // without their ends
};

// "NAME of ranks 0-3", by which all ranks know the group.
std::string TracedGroupName(const Group& group);

}  // namespace moonring::comm

#endif  // MOONRING_COMM_TRACED_CALL_H_
