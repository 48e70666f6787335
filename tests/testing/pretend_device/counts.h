#ifndef MOONRING_TESTS_TESTING_PRETEND_DEVICE_COUNTS_H_
#define MOONRING_TESTS_TESTING_PRETEND_DEVICE_COUNTS_H_

// What a program asked of the pretend device (device.h).
//
// With PRETEND_DEVICE_REPORT=FILE in the environment a process that ends by _Exit, as the host
// does, writes its counts, as JSON, into FILE.RANK (RANK: the variable, else 0), and what lay in
// the device's memory when it held most (at_peak). Its list "work" has each operator and its
// tensors' shapes with calls, bytes read and written and operations (work.h): tests/gpu/roofline.py
// makes times of it.

#include <cstdint>
#include <map>
#include <string>
#include <tuple>

namespace moonring::pretend {

// In one direction between host and device.
struct Copies {
  int64_t count = 0, bytes = 0;
  // Those that the host waits for: no pinned memory, no non_blocking, or a conversion on the way.
  int64_t blocking = 0, blocking_bytes = 0, largest_blocking = 0;
};

// One call's, by work.h.
struct Work {
  int64_t read = 0, written = 0;  // bytes
  double flops = 0;
  // What does them: "product bf16", "attention forward bf16", "attention backward fp32" and so on;
  // "link": a copy between host and device; empty: bytes alone.
  std::string by;
  std::string shapes;  // of its tensors
};

// Of calls that are alike.
struct Calls {
  int64_t calls = 0, read = 0, written = 0;
  double flops = 0;
};
// operator, its tensors' shapes, what does it (Work::by)
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

// Since the start, or since the last ResetCounts(). Of all threads.
Counts CountsNow();
// The peak begins at what is held.
void ResetCounts();

void Report();
bool WantsReport();

// While it lives, this thread's kernels are not counted: what stands for a kernel is made by them.
class Uncounted {
 public:
  Uncounted();
  ~Uncounted();
  Uncounted(const Uncounted&) = delete;
  Uncounted& operator=(const Uncounted&) = delete;
};

// Blocks of one kind.
struct HeldBlocks {
  int64_t count = 0, bytes = 0;
};

// For the device itself.
void CountKernel(const std::string& name);
void CountWork(const std::string& name, const Work& work);
void CountSynchronization(const std::string& cause);
void CountToDevice(int64_t bytes, bool blocking);
void CountToHost(int64_t bytes, bool blocking);
void CountBytes(int64_t change);
void NotePeak(std::map<std::string, HeldBlocks> held);

}  // namespace moonring::pretend

#endif  // MOONRING_TESTS_TESTING_PRETEND_DEVICE_COUNTS_H_
