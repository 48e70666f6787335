#include "tests/testing/pretend_device/memory.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>

#include "tests/testing/pretend_device/counts.h"

namespace moonring::pretend {
namespace {

// Returns the size of the address range: 256 GiB, or 4 TiB if work on large tensors is skipped.
// Physical memory is taken on first use.
size_t Addresses() { return size_t{1} << (LargeIsLeftOut() ? 42 : 38); }
constexpr size_t kRound = 512;
constexpr size_t kWorthReturning = size_t{1} << 20;  // to the machine, when it is freed

class Memory {
 public:
  Memory() {
    const int file = memfd_create("pretend device", MFD_CLOEXEC);
    const bool sized = file >= 0 && ftruncate(file, addresses_) == 0;
    const auto map = [&](int access) {
      void* const at = mmap(nullptr, addresses_, access, MAP_SHARED | MAP_NORESERVE, file, 0);
      if (!sized || at == MAP_FAILED) {
        std::perror("pretend device: no addresses for its memory");
        std::abort();
      }
      return static_cast<std::byte*>(at);
    };
    device_ = map(PROT_NONE);
    kernels_ = map(PROT_READ | PROT_WRITE);
    file_ = file;
    Watch();
  }

  Block* Take(size_t bytes) {
    const size_t rounded = (bytes + kRound - 1) / kRound * kRound;
    const std::lock_guard<std::mutex> lock(mutex_);
    if (held_ + rounded > MemoryLimit()) return nullptr;
    held_ += rounded;
    std::vector<std::byte*>& free = free_[rounded];
    auto* const block = new Block;
    block->bytes = rounded;
    if (free.empty()) {
      block->address = device_ + next_;
      next_ += rounded;
      TORCH_INTERNAL_ASSERT(next_ <= addresses_);
    } else {
      block->address = free.back();
      free.pop_back();
    }
    if (!LargeIsLeftOut())
      std::memset(Kernels(block->address), 0xFF, rounded);  // NaN in each floating-point dtype
    else if (rounded < kWorthReturning) std::memset(Kernels(block->address), 0, rounded);
    live_[block->address] = block;
    if (held_ > peak_) {
      peak_ = held_;
      is_new_peak_ = true;
    }
    return block;
  }

  void Give(Block* block) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (std::exchange(is_new_peak_, false) && WantsReport()) NotePeak(Held());
    held_ -= block->bytes;
    live_.erase(block->address);
    free_[block->bytes].push_back(block->address);
    if (block->bytes >= kWorthReturning) Return(*block);
    delete block;
  }

  std::byte* Kernels(std::byte* of_device) const { return kernels_ + (of_device - device_); }
  bool Has(const void* address) const {
    const auto* const byte = static_cast<const std::byte*>(address);
    return byte >= device_ && byte < device_ + addresses_;
  }
  size_t held() const { return held_; }

  // Runs in a signal handler of a process that is about to end, so it takes no lock.
  void Say(const void* address) const {
    const auto* const byte = const_cast<std::byte*>(static_cast<const std::byte*>(address));
    auto found = live_.upper_bound(const_cast<std::byte*>(byte));
    const Block* const block = found == live_.begin() ? nullptr : (--found)->second;
    if (block == nullptr || byte >= block->address + block->bytes) {
      std::fprintf(stderr,
                   "pretend device: the host uses a device's address, of no tensor that lives\n");
      return;
    }
    std::fprintf(stderr,
                 "pretend device: the host reads or writes byte %zd of %s (%zu bytes), memory of "
                 "the device\n",
                 byte - block->address, block->what.empty() ? "a tensor" : block->what.c_str(),
                 block->bytes);
  }

 private:
  void Return(const Block& block) const {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const size_t begin = (block.address - device_ + page - 1) / page * page;
    const size_t end = (block.address - device_ + block.bytes) / page * page;
    if (end > begin)
      fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, begin, end - begin);
  }

  // Returns the allocated blocks, grouped by kind.
  std::map<std::string, HeldBlocks> Held() const {
    std::map<std::string, HeldBlocks> held;
    for (const auto& [address, block] : live_) {
      HeldBlocks& alike = held[block->what.empty() ? "memory" : block->what];
      ++alike.count;
      alike.bytes += static_cast<int64_t>(block->bytes);
    }
    return held;
  }

  static void Watch();

  const size_t addresses_ = Addresses();
  std::byte *device_, *kernels_;
  int file_;
  std::mutex mutex_;
  size_t held_ = 0, next_ = 0, peak_ = 0;
  bool is_new_peak_ = false;  // nothing was freed since
  std::map<size_t, std::vector<std::byte*>> free_;
  std::map<std::byte*, Block*> live_;
};

// Never destroyed, because tensors are freed until the process's last moment.
Memory& AllMemory() {
  static auto* const memory = new Memory;
  return *memory;
}

struct sigaction before;

void OnFault(int signal, siginfo_t* info, void*) {
  if (AllMemory().Has(info->si_addr)) AllMemory().Say(info->si_addr);
  sigaction(signal, &before, nullptr);  // the instruction comes again, and ends the process
}

void Memory::Watch() {
  struct sigaction mine {};
  mine.sa_sigaction = OnFault;
  mine.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigaction(SIGSEGV, &mine, &before);
}

// Reports a change to LibTorch's memory observers, as CUDA's caching allocator does.
void Tell(const Block& block, int64_t change) {
  const auto held = static_cast<size_t>(AllMemory().held());
  c10::reportMemoryUsageToProfiler(block.address, change, held, held,
                                   c10::Device(c10::kCUDA, block.device));
}

void Free(void* context) {
  auto* const block = static_cast<Block*>(context);
  CheckFree(block->uses, block->what.empty() ? "memory" : block->what.c_str());
  CountBytes(-static_cast<int64_t>(block->bytes));
  Tell(*block, -static_cast<int64_t>(block->bytes));
  AllMemory().Give(block);
}

}  // namespace

size_t MemoryLimit() {
  static const size_t limit = [] {
    const char* const text = std::getenv("PRETEND_DEVICE_MEMORY");
    return text == nullptr ? size_t{16} << 30 : static_cast<size_t>(std::atoll(text));
  }();
  return limit;
}

bool LargeIsLeftOut() {
  static const bool left_out = [] {
    const char* const text = std::getenv("PRETEND_DEVICE_PRODUCTS");
    return text != nullptr && std::string(text) == "counted";
  }();
  return left_out;
}

c10::DataPtr Allocate(size_t bytes) {
  const c10::impl::VirtualGuardImpl guard(c10::kCUDA);
  const c10::Device device = guard.getDevice();
  if (bytes == 0) return {nullptr, device};
  Block* const block = AllMemory().Take(bytes);
  TORCH_CHECK_WITH(OutOfMemoryError, block != nullptr, "CUDA out of memory. Tried to allocate ",
                   bytes, " bytes; the pretend device has ", MemoryLimit(), " in all, of which ",
                   AllMemory().held(), " are allocated");
  block->device = device.index();
  block->uses.allocated_on = KeyOf(guard.getStream(device));
  CountBytes(static_cast<int64_t>(block->bytes));
  Tell(*block, static_cast<int64_t>(block->bytes));
  return {block->address, block, Free, device};
}

Block* BlockOf(const c10::Storage& storage) {
  const c10::DataPtr& data = storage.data_ptr();
  if (data.get() == nullptr) return nullptr;
  TORCH_CHECK(data.get_deleter() == Free, "a tensor on ", storage.device(),
              " whose memory is not the pretend device's: a pointer of the host's?");
  return static_cast<Block*>(data.get_context());
}

void* ForKernels(void* of_device) {
  return AllMemory().Kernels(static_cast<std::byte*>(of_device));
}
bool OfDevice(const void* address) { return AllMemory().Has(address); }

}  // namespace moonring::pretend
