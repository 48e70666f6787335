#include "base/memory/memory_account.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/alloc_cpu.h>
#include <c10/util/Exception.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/files/confinement.h"

namespace moonring::base {
namespace {

// LibTorch replaces an allocator only by one of equal or higher priority; LibTorch's own allocators
// have priority 0. An allocator in a test may have a higher priority than this one.
constexpr uint8_t kPriority = 100;

thread_local MemoryPart current_part = MemoryPart::kOther;

std::atomic<DeviceCount> device_count = nullptr;

// The counters. They are zero-initialized and never destroyed, because storages may be freed after
// main has returned.
struct Books {
  std::array<std::atomic<int64_t>, kMemoryParts> live;
  std::atomic<int64_t> mapped;
  std::atomic<int64_t> total;
  std::atomic<int64_t> peak;  // the largest total; at_peak has it by category
  std::mutex peak_mutex;
  MemoryByPart at_peak;
};
Books& TheBooks() {
  static auto* const books = new Books{};
  return *books;
}

MemoryByPart Live(const Books& books) {
  MemoryByPart parts;
  for (int i = 0; i < kMemoryParts; ++i)
    parts.bytes[i] = books.live[i].load(std::memory_order_relaxed);
  parts.mapped = books.mapped.load(std::memory_order_relaxed);
  return parts;
}

void Add(MemoryPart part, int64_t bytes) {
  Books& books = TheBooks();
  books.live[static_cast<int>(part)].fetch_add(bytes, std::memory_order_relaxed);
  const int64_t total = books.total.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  if (total <= books.peak.load(std::memory_order_relaxed)) return;
  const std::lock_guard<std::mutex> lock(books.peak_mutex);
  if (total <= books.peak.load(std::memory_order_relaxed)) return;
  books.peak.store(total, std::memory_order_relaxed);
  books.at_peak = Live(books);
}

void Move(MemoryPart from, MemoryPart to, int64_t bytes) {
  Books& books = TheBooks();
  books.live[static_cast<int>(from)].fetch_sub(bytes, std::memory_order_relaxed);
  books.live[static_cast<int>(to)].fetch_add(bytes, std::memory_order_relaxed);
}

void Subtract(MemoryPart part, int64_t bytes) {
  Books& books = TheBooks();
  books.live[static_cast<int>(part)].fetch_sub(bytes, std::memory_order_relaxed);
  books.total.fetch_sub(bytes, std::memory_order_relaxed);
}

// Stored before each block of memory. The header's size is LibTorch's alignment, so that the block
// after it has that alignment.
struct alignas(c10::gAlignment) Header {
  int64_t bytes;
  std::atomic<MemoryPart> part;
  std::shared_ptr<Confinement> confinement;  // that is charged for the bytes, if any
};

void Free(void* memory) {
  if (memory == nullptr) return;
  Header* header = static_cast<Header*>(memory) - 1;
  Subtract(header->part.load(std::memory_order_relaxed), header->bytes);
  if (header->confinement != nullptr) header->confinement->Release(header->bytes);
  header->~Header();
  c10::free_cpu(header);
}

class CountingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    const c10::Device host(c10::kCPU);
    if (bytes == 0) return {nullptr, nullptr, Free, host};
    auto* header = new (Allocate(bytes))
        Header{static_cast<int64_t>(bytes), current_part, CurrentConfinement()};
    Add(current_part, header->bytes);
    return {header + 1, header + 1, Free, host};
  }
  c10::DeleterFnPtr raw_deleter() const override { return Free; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }

 private:
  static void* Allocate(size_t bytes) {
    const std::shared_ptr<Confinement>& confinement = CurrentConfinement();
    if (confinement != nullptr && !confinement->Charge(static_cast<int64_t>(bytes))) {
      TORCH_CHECK_WITH(OutOfMemoryError, false,
                       OutOfMemory(MemoryPartName(current_part), static_cast<int64_t>(bytes)),
                       ", more than --sandbox-memory allows");
    }
    try {
      return c10::alloc_cpu(sizeof(Header) + bytes);
    } catch (const c10::Error&) {  // rethrown below with our own message
    }
    if (confinement != nullptr) confinement->Release(static_cast<int64_t>(bytes));
    TORCH_CHECK_WITH(OutOfMemoryError, false,
                     OutOfMemory(MemoryPartName(current_part), static_cast<int64_t>(bytes)));
  }
};

// A mapped file whose pages are being written (CountWritten): the storage's previous DataPtr, its
// size and its category.
struct Written {
  c10::DataPtr memory;
  int64_t bytes;
  std::atomic<MemoryPart> part;
};

void FreeWritten(void* context) {
  auto* written = static_cast<Written*>(context);
  Subtract(written->part.load(std::memory_order_relaxed), written->bytes);
  TheBooks().mapped.fetch_sub(written->bytes, std::memory_order_relaxed);
  delete written;
}

std::atomic<bool>& Installed() {
  static std::atomic<bool> installed = false;
  return installed;
}

}  // namespace

absl::string_view MemoryPartName(MemoryPart part) {
  switch (part) {
    case MemoryPart::kWeights:
      return "weights";
    case MemoryPart::kGradients:
      return "gradients";
    case MemoryPart::kOptimizer:
      return "optimizer";
    case MemoryPart::kCheckpointInputs:
      return "checkpoint inputs";
    case MemoryPart::kActivations:
      return "activations";
    case MemoryPart::kAttention:
      return "attention";
    case MemoryPart::kLogits:
      return "logits";
    case MemoryPart::kCommunication:
      return "communication";
    case MemoryPart::kOther:
      return "other";
  }
  return "";
}

int64_t MemoryByPart::total() const {
  int64_t sum = 0;
  for (const int64_t part : bytes) sum += part;
  return sum;
}

void InstallMemoryAccount() {
  if (Installed().exchange(true)) return;
  // The allocator is never destroyed, because storages keep a pointer to it and may use it to grow.
  static auto* const allocator = new CountingAllocator;
  c10::SetCPUAllocator(allocator, kPriority);
}

MemoryByPart LiveMemory() { return Live(TheBooks()); }

MemoryByPart PeakMemory() {
  Books& books = TheBooks();
  const std::lock_guard<std::mutex> lock(books.peak_mutex);
  return books.at_peak;
}

MemoryPart CurrentMemoryPart() { return current_part; }

MemoryScope::MemoryScope(MemoryPart part) : before_(std::exchange(current_part, part)) {}
MemoryScope::~MemoryScope() { current_part = before_; }

void TellOfDevices(DeviceCount count) { device_count.store(count, std::memory_order_relaxed); }

void CountAs(MemoryPart part, const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.has_storage()) return;
  if (!tensor.is_cpu()) {
    if (const DeviceCount count = device_count.load(std::memory_order_relaxed)) count(part, tensor);
    return;
  }
  const c10::DataPtr& memory = tensor.storage().data_ptr();
  if (memory.get_context() == nullptr) return;
  if (memory.get_deleter() == &Free) {
    Header* header = static_cast<Header*>(memory.get_context()) - 1;
    Move(header->part.exchange(part, std::memory_order_relaxed), part, header->bytes);
  } else if (memory.get_deleter() == &FreeWritten) {
    auto* written = static_cast<Written*>(memory.get_context());
    Move(written->part.exchange(part, std::memory_order_relaxed), part, written->bytes);
  }
}

void CountWritten(MemoryPart part, const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.has_storage()) return;
  const c10::Storage& storage = tensor.storage();
  const c10::DeleterFnPtr deleter = storage.data_ptr().get_deleter();
  // Whether the storage owns memory that this account did not allocate: a mapped file, or from_blob
  // with an owner. (Memory without a context belongs to somebody else.)
  const bool foreign = Installed() && tensor.is_cpu() &&
                       storage.data_ptr().get_context() != nullptr && deleter != &Free &&
                       deleter != &FreeWritten;
  // Memory that LibTorch's own allocator returned before InstallMemoryAccount is not counted.
  if (!foreign || deleter == c10::GetDefaultCPUAllocator()->raw_deleter())
    return CountAs(part, tensor);
  const auto bytes = static_cast<int64_t>(storage.nbytes());
  auto* written = new Written{{}, bytes, part};
  void* const data = storage.mutable_data_ptr().get();
  written->memory =
      storage.set_data_ptr(c10::DataPtr(data, written, &FreeWritten, tensor.device()));
  TheBooks().mapped.fetch_add(bytes, std::memory_order_relaxed);
  Add(part, bytes);
}

std::string OutOfMemory(absl::string_view what, int64_t bytes) {
  const auto amount = [](int64_t count) {
    if (count < 1 << 20) return absl::StrCat(count, " bytes");
    return count < int64_t{1} << 30 ? absl::StrFormat("%.1f MiB", count / 0x1p20)
                                    : absl::StrFormat("%.1f GiB", count / 0x1p30);
  };
  const MemoryByPart live = LiveMemory();
  std::vector<int> order;
  for (int i = 0; i < kMemoryParts; ++i) {
    if (live.bytes[i] >= 1 << 20) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return live.bytes[a] > live.bytes[b]; });
  const std::string parts = absl::StrJoin(order, ", ", [&](std::string* text, int i) {
    absl::StrAppend(text, MemoryPartName(static_cast<MemoryPart>(i)), " ", amount(live.bytes[i]));
  });
  return absl::StrCat(
      "out of memory: ", bytes > 0 ? absl::StrCat(amount(bytes), " for ") : "no more for ", what,
      parts.empty() ? "" : absl::StrCat(" (", parts, " live)"));
}

}  // namespace moonring::base
