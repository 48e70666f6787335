#ifndef MOONRING_COMM_TRACED_CALL_H_
#define MOONRING_COMM_TRACED_CALL_H_

// Records a communicator's calls in a trace: how long the host is in each call, and which transfers
// are in progress with how many bytes to which rank (base/trace/recorder.h). Without a recording
// only the group's counters are updated.

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/trace/recorder.h"
#include "base/trace/span.h"
#include "comm/group.h"

namespace moonring::comm {

// The two spans of a collective: the host's wait for it, and the collective itself.
struct CallKinds {
  base::SpanKind wait, call;
};
extern const CallKinds kAllReduceCall, kBroadcastCall, kAllToAllCall, kAllGatherCall,
    kReduceScatterCall, kBarrierCall;
extern const base::SpanKind kStartTransfer, kWaitForTransfer;

// Records a blocking call, from construction to the end of the scope.
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

// Records a transfer that is started and waited for later.
class TracedTransfer {
 public:
  // Null if nothing is recorded. The transfer begins here.
  static std::unique_ptr<TracedTransfer> Start(Group& group);
  // Each of these also updates the group's counters, whether or not a trace is recorded. `traced`
  // may be null. `peer` is a rank of the group.
  static void Sends(TracedTransfer* traced, Group& group, int peer, int64_t bytes);
  static void Receives(TracedTransfer* traced, Group& group, int peer, int64_t bytes);
  static void Calls(TracedTransfer* traced, Group& group, const CallKinds& kinds, int64_t bytes);

  // Records how long the host waits for a transfer: from construction to the end of the scope,
  // where the transfer must be done.
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
  std::vector<base::SpanEvent> events_;  // without their end times
};

// "NAME of ranks 0-3": the name of the group in traces, the same on all ranks.
std::string TracedGroupName(const Group& group);

}  // namespace moonring::comm

#endif  // MOONRING_COMM_TRACED_CALL_H_
