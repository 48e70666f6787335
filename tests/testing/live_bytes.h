#ifndef MOONRING_TESTS_TESTING_LIVE_BYTES_H_
#define MOONRING_TESTS_TESTING_LIVE_BYTES_H_

// Counts the bytes of this thread's CPU tensors since construction: the current number and the
// maximum.

#include <algorithm>
#include <cstdint>
#include <memory>

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

namespace moonring::testing {

class LiveBytes {
 public:
  LiveBytes()
      : count_(std::make_shared<Count>()), guard_(c10::DebugInfoKind::PROFILER_STATE, count_) {}

  int64_t now() const { return count_->now; }
  int64_t peak() const { return count_->peak; }
  void ResetPeak() { count_->peak = count_->now; }

 private:
  struct Count : public c10::MemoryReportingInfoBase {
    void reportMemoryUsage(void*, int64_t size, size_t, size_t, c10::Device) override {
      now += size;
      peak = std::max(peak, now);
    }
    bool memoryProfilingEnabled() const override { return true; }
    int64_t now = 0, peak = 0;
  };
  std::shared_ptr<Count> count_;
  c10::DebugInfoGuard guard_;
};

}  // namespace moonring::testing

#endif  // MOONRING_TESTS_TESTING_LIVE_BYTES_H_
