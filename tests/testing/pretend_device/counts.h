#ifndef MOONRING_TESTS_TESTING_PRETEND_DEVICE_COUNTS_H_
#define MOONRING_TESTS_TESTING_PRETEND_DEVICE_COUNTS_H_

// Counts what a program does on the pretend device (device.h).
//
// If the environment has PRETEND_DEVICE_REPORT=FILE, a process that ends by _Exit, as the host
// does, writes its counters as JSON to FILE.RANK (RANK is the environment variable, or 0), and what
// the device's memory contained at its peak (at_peak). The list "work" has each operator with the
// shapes of its tensors, the number of calls, the bytes read and written and the floating-point
// operations (work.h); tests/gpu/roofline.py computes times from it.

#include <cstdint>
#include <map>
#include <string>
#include <tuple>

namespace moonring::pretend {

// Copies in one direction between host and device.
struct Copies {
  int64_t count = 0, bytes = 0;
  // Copies that block the host: without pinned memory, without non_blocking, or with a conversion
  // of the dtype.
  int64_t blocking = 0, blocking_bytes = 0, largest_blocking = 0;
};

// The work of one call, counted by the rules of work.h.
struct Work {
  int64_t read = 0, written = 0;  // bytes
  double flops = 0;
  // The resource that limits the operator: "product bf16", "attention forward bf16", "attention
  // backward fp32" and so on; "link" for a copy between host and device; empty if only its bytes
  // count.
  std::string by;
  std::string shapes;  // of its tensors
};

// The sums over calls that are equal in all that Alike has.
struct Calls {
  int64_t calls = 0, read = 0, written = 0;
  double flops = 0;
};
// A key for equal calls: operator, shapes of its tensors, limiting resource (Work::by).
using Alike = std::tuple<std::string, std::string, std::string>;

struct Counts {
  std::map<std::string, int64_t> kernels;           // by operator
  std::map<std::string, int64_t> synchronizations;  // by what made the host wait
  std::map<Alike, Calls> work;
  Copies to_device, to_host;
  int64_t held_bytes = 0, peak_bytes = 0;  // of tensors and of kernels' workspace
  int64_t allocations = 0;

  int64_t Kernels() const;
  int64_t Synchronizations() const;
};

// Returns the counts of all threads since the start or since the last ResetCounts().
Counts CountsNow();
// Sets all counts to 0; the peak starts at the memory that is in use.
void ResetCounts();

void Report();
bool WantsReport();

// While this object exists, this thread's kernels are not counted, because together they implement
// another kernel, which is counted itself.
class Uncounted {
 public:
  Uncounted();
  ~Uncounted();
  Uncounted(const Uncounted&) = delete;
  Uncounted& operator=(const Uncounted&) = delete;
};

// The memory blocks of one kind.
struct HeldBlocks {
  int64_t count = 0, bytes = 0;
};

// The following functions are for the implementation of the device only.
void CountKernel(const std::string& name);
void CountWork(const std::string& name, const Work& work);
void CountSynchronization(const std::string& cause);
void CountToDevice(int64_t bytes, bool blocking);
void CountToHost(int64_t bytes, bool blocking);
void CountBytes(int64_t change);
void NotePeak(std::map<std::string, HeldBlocks> held);

}  // namespace moonring::pretend

#endif  // MOONRING_TESTS_TESTING_PRETEND_DEVICE_COUNTS_H_
