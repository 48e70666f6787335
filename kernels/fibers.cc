#include "kernels/fibers.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <exception>
#include <memory>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/fiber_context.h"

namespace moonring::kernels::fibers {
namespace {

constexpr unsigned kWarp = 32;
constexpr size_t kStackBytes = size_t{64} << 10;
// The GPU alignment of KERNEL_SHARED and KERNEL_DYNAMIC_SHARED (language.h).
constexpr size_t kSharedAlignment = 16, kDynamicAlignment = 32;
constexpr unsigned char kGuard = 0xA5;  // fills the memory after each shared array

enum class Wait { kNone, kBlock, kWarp, kEnded };

struct Fiber {
  Context context{kStackBytes};
  Position position;
  Wait wait = Wait::kNone;
  Place place;
  uint64_t bits = 0;                      // argument, then result, of a warp operation
  unsigned lane = 0;                      // the lane whose bits this one reads
  void (*run)(const OfLanes&) = nullptr;  // called with all lanes' bits, which are pointers
};

std::string At(Place place) {
  const std::string file = place.file;
  return absl::StrCat(file.substr(file.rfind('/') + 1), ":", place.line);
}

std::string Describe(const Fiber& fiber) {
  const Index& t = fiber.position.thread;
  const std::string name = absl::StrCat("thread (", t.x, ", ", t.y, ")");
  switch (fiber.wait) {
    case Wait::kEnded:
      return absl::StrCat(name, " has ended");
    case Wait::kBlock:
      return absl::StrCat(name, " waits for its block at ", At(fiber.place));
    case Wait::kWarp:
      return absl::StrCat(name, " waits for its warp at ", At(fiber.place));
    case Wait::kNone:
      break;
  }
  return absl::StrCat(name, " runs");
}

class SharedArray {
 public:
  // The array is aligned to exactly `alignment` bytes.
  SharedArray(int id, size_t bytes, size_t alignment)
      : id_(id), bytes_(bytes), alignment_(alignment), memory_(Lines(bytes + alignment) + 1) {
    Poison();
  }

  bool Is(int id, size_t bytes) const { return id_ == id && bytes_ == bytes; }
  unsigned char* data() { return memory_[0].bytes + alignment_; }

  void Poison() {
    std::fill_n(data(), bytes_, 0xFF);
    std::fill(data() + bytes_, End(), kGuard);
  }
  bool IsWhole() {
    return std::all_of(data() + bytes_, End(), [](unsigned char byte) { return byte == kGuard; });
  }

 private:
  struct alignas(64) Line {
    unsigned char bytes[64];
  };
  static size_t Lines(size_t bytes) { return (bytes + sizeof(Line) - 1) / sizeof(Line); }
  unsigned char* End() { return memory_[0].bytes + memory_.size() * sizeof(Line); }

  int id_;
  size_t bytes_, alignment_;
  std::vector<Line> memory_;  // with a spare guard line
};

// Runs the launches of one thread of the program.
class Launcher {
 public:
  void Run(const Shape& shape, absl::FunctionRef<void()> kernel) {
    const int64_t threads = int64_t{shape.block_x} * shape.block_y;
    if (running_ != nullptr) throw std::runtime_error("a kernel launches a kernel");
    if (threads <= 0 || threads > 1024 || threads % kWarp != 0 || shape.grid_x <= 0 ||
        shape.grid_y <= 0 || shape.grid_x > 0x7fffffff || shape.grid_y > 65535)
      throw std::runtime_error(absl::StrCat("a launch of ", shape.grid_x, " x ", shape.grid_y,
                                            " blocks of ", shape.block_x, " x ", shape.block_y,
                                            " threads: a GPU takes none such"));
    shared_bytes_ = 0;
    CountShared(shape.shared_bytes);
    kernel_ = &kernel;
    while (fibers_.size() < static_cast<size_t>(threads))
      fibers_.push_back(std::make_unique<Fiber>());
    threads_ = static_cast<size_t>(threads);
    shared_.clear();
    dynamic_ = SharedArray(-1, static_cast<size_t>(shape.shared_bytes), kDynamicAlignment);
    random_.seed(seed);
    const int64_t blocks = shape.grid_x * shape.grid_y;
    for (int64_t i = 0; i < blocks; ++i) {
      const int64_t block = seed == 0 ? i : blocks - 1 - i;
      RunBlock(shape, {static_cast<unsigned>(block % shape.grid_x),
                       static_cast<unsigned>(block / shape.grid_x), 0});
    }
  }

  Fiber& running() { return *running_; }

  // Suspends the running thread until its wait is over.
  void Leave(Wait wait, Place place) {
    Fiber& fiber = *running_;
    fiber.wait = wait;
    fiber.place = place;
    Context::Switch(fiber.context, own_);
  }

  void* Shared(int id, size_t bytes) {
    for (SharedArray& array : shared_) {
      if (array.Is(id, bytes)) return array.data();
    }
    CountShared(static_cast<int64_t>(bytes));
    shared_.emplace_back(id, bytes, kSharedAlignment);
    return shared_.back().data();
  }
  void* DynamicShared() { return dynamic_.data(); }

  void RunKernel() {
    running_->context.Entered();
    try {
      (*kernel_)();
    } catch (...) {
      thrown_ = std::current_exception();
    }
    Leave(Wait::kEnded, {});
  }

  uint64_t seed = 0;

 private:
  void RunBlock(const Shape& shape, const Index& block);

  // Counts static and dynamic shared arrays, which share one limit; each is aligned.
  void CountShared(int64_t bytes) {
    constexpr int64_t kLine = kSharedAlignment;
    shared_bytes_ += (bytes + kLine - 1) / kLine * kLine;
    if (shared_bytes_ > int64_t{48} << 10)
      throw std::runtime_error(absl::StrCat("a launch with ", shared_bytes_,
                                            " bytes of shared memory: a GPU has 48 KiB a block"));
  }

  void Step(Fiber& fiber) {
    running_ = &fiber;
    Context::Switch(own_, fiber.context);
    running_ = nullptr;
    own_.Entered();
    if (thrown_ != nullptr) std::rethrow_exception(std::exchange(thrown_, nullptr));
  }

  template <typename Each>
  bool All(size_t begin, size_t count, const Each& each) const {
    for (size_t i = begin; i < begin + count; ++i) {
      if (!each(*fibers_[i])) return false;
    }
    return true;
  }

  // If the `count` threads from `begin` on all wait at the same line of the kernel, lets them
  // continue and returns true.
  bool Release(size_t begin, size_t count, Wait wait) {
    const Place place = fibers_[begin]->place;
    if (!All(begin, count, [&](const Fiber& fiber) {
          return fiber.wait == wait && fiber.place.line == place.line &&
                 fiber.place.file == place.file;
        }))
      return false;
    if (wait == Wait::kWarp) {
      uint64_t given[kWarp];
      for (size_t i = 0; i < count; ++i) given[i] = fibers_[begin + i]->bits;
      if (const auto run = fibers_[begin]->run; run != nullptr) {
        OfLanes lanes;
        for (size_t i = 0; i < count; ++i) lanes[i] = reinterpret_cast<void*>(given[i]);
        run(lanes);
      }
      for (size_t i = 0; i < count; ++i)
        fibers_[begin + i]->bits = given[fibers_[begin + i]->lane % kWarp];
    }
    for (size_t i = begin; i < begin + count; ++i) fibers_[i]->wait = Wait::kNone;
    return true;
  }

  [[noreturn]] void Stuck() const {
    const Fiber *waiting = nullptr, *other = nullptr;
    for (size_t i = 0; i < threads_; ++i) {
      const Fiber& fiber = *fibers_[i];
      if (waiting == nullptr && fiber.wait != Wait::kEnded) waiting = &fiber;
    }
    const size_t warp = waiting->position.thread.y * waiting->position.block_size.x / kWarp +
                        waiting->position.thread.x / kWarp;
    const bool in_warp = waiting->wait == Wait::kWarp;
    for (size_t i = in_warp ? warp * kWarp : 0; i < (in_warp ? (warp + 1) * kWarp : threads_);
         ++i) {
      const Fiber& fiber = *fibers_[i];
      if (fiber.wait != waiting->wait || fiber.place.line != waiting->place.line ||
          fiber.place.file != waiting->place.file) {
        other = &fiber;
        break;
      }
    }
    throw std::runtime_error(absl::StrCat("a kernel hangs: ", Describe(*waiting), ", and ",
                                          other != nullptr ? Describe(*other) : "no other"));
  }

  Context own_{0};
  std::vector<std::unique_ptr<Fiber>> fibers_;
  size_t threads_ = 0;
  Fiber* running_ = nullptr;
  const absl::FunctionRef<void()>* kernel_ = nullptr;
  std::exception_ptr thrown_;
  std::vector<SharedArray> shared_;
  SharedArray dynamic_{-1, 0, kDynamicAlignment};
  int64_t shared_bytes_ = 0;
  std::mt19937_64 random_;
};

Launcher& launcher() {
  thread_local Launcher of_thread;
  return of_thread;
}

void RunFiber() { launcher().RunKernel(); }

// Whether kernels are counted but not run (tests/testing/pretend_device/left_out.h explains when).
bool LeftOut() {
  static const bool left_out = [] {
    const char* const text = std::getenv("PRETEND_DEVICE_PRODUCTS");
    return text != nullptr && std::string_view(text) == "counted";
  }();
  return left_out;
}

void Launcher::RunBlock(const Shape& shape, const Index& block) {
  for (SharedArray& array : shared_) array.Poison();
  dynamic_.Poison();
  const auto width = static_cast<unsigned>(shape.block_x);
  for (size_t i = 0; i < threads_; ++i) {
    Fiber& fiber = *fibers_[i];
    const auto thread = static_cast<unsigned>(i);
    fiber.position = {
        {thread % width, thread / width, 0},
        block,
        {width, static_cast<unsigned>(shape.block_y), 1},
        {static_cast<unsigned>(shape.grid_x), static_cast<unsigned>(shape.grid_y), 1}};
    fiber.wait = Wait::kNone;
    fiber.place = {};
    fiber.context.Begin(&RunFiber);
  }
  std::vector<size_t> order(threads_);
  std::iota(order.begin(), order.end(), size_t{0});
  if (seed == 1) std::reverse(order.begin(), order.end());
  for (bool going = true; going;) {
    if (seed > 1) std::shuffle(order.begin(), order.end(), random_);
    for (const size_t i : order) {
      if (fibers_[i]->wait == Wait::kNone) Step(*fibers_[i]);
    }
    going = false;
    for (size_t warp = 0; warp < threads_; warp += kWarp)
      going = Release(warp, kWarp, Wait::kWarp) || going;
    going = Release(0, threads_, Wait::kBlock) || going;
  }
  if (!All(0, threads_, [](const Fiber& fiber) { return fiber.wait == Wait::kEnded; })) Stuck();
  const bool whole =
      dynamic_.IsWhole() && std::all_of(shared_.begin(), shared_.end(),
                                        [](SharedArray& array) { return array.IsWhole(); });
  if (!whole) throw std::runtime_error("a kernel writes beyond an array of its shared memory");
}

void CheckMask(Place place, unsigned mask) {
  if (mask == ~0u) return;
  throw std::runtime_error(
      absl::StrCat("a warp operation of less than a whole warp at ", At(place)));
}

}  // namespace

void Run(const Shape& shape, absl::FunctionRef<void()> kernel) {
  if (!LeftOut()) launcher().Run(shape, kernel);
}

OrderScope::OrderScope(uint64_t seed) : before_(std::exchange(launcher().seed, seed)) {}
OrderScope::~OrderScope() { launcher().seed = before_; }

const Position& Here() { return launcher().running().position; }

unsigned Lane() {
  const Position& here = Here();
  return (here.thread.y * here.block_size.x + here.thread.x) % kWarp;
}

unsigned LaneDown(unsigned lanes) {
  const unsigned lane = Lane();
  return lane + lanes < kWarp ? lane + lanes : lane;
}

void WaitForBlock(Place place) { launcher().Leave(Wait::kBlock, place); }

uint64_t ShuffleBits(Place place, unsigned mask, uint64_t bits, unsigned lane) {
  CheckMask(place, mask);
  Fiber& fiber = launcher().running();
  fiber.bits = bits;
  fiber.lane = lane;
  fiber.run = nullptr;
  launcher().Leave(Wait::kWarp, place);
  return fiber.bits;
}

void AsWarp(Place place, void* of_lane, void (*run)(const OfLanes& lanes)) {
  Fiber& fiber = launcher().running();
  fiber.bits = reinterpret_cast<uintptr_t>(of_lane);
  fiber.run = run;
  launcher().Leave(Wait::kWarp, place);
}

unsigned Ballot(Place place, unsigned mask, bool value) {
  unsigned ballot = value ? 1u << Lane() : 0u;
  for (unsigned lanes = 1; lanes < kWarp; lanes *= 2)
    ballot |= static_cast<unsigned>(ShuffleBits(place, mask, ballot, Lane() ^ lanes));
  return ballot;
}

void* Shared(int id, size_t bytes) { return launcher().Shared(id, bytes); }
void* DynamicShared() { return launcher().DynamicShared(); }

void CheckWord(const void* address, size_t bytes) {
  const size_t past = reinterpret_cast<uintptr_t>(address) % bytes;
  if (past == 0) return;
  throw std::runtime_error(absl::StrCat("a load or store of ", bytes, " bytes, ", past,
                                        " bytes past a multiple of ", bytes, ": a GPU refuses it"));
}

float Tf32OfFloat(float x) {
  if (std::isnan(x)) return NAN;
  uint32_t bits = 0;
  std::memcpy(&bits, &x, sizeof(x));
  bits = (bits + 0x1000) & ~uint32_t{0x1FFF};
  std::memcpy(&x, &bits, sizeof(x));
  return x;
}

float FloatOfBf16(uint16_t bits) {
  const uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float x = 0;
  std::memcpy(&x, &wide, sizeof(x));
  return x;
}

uint16_t Bf16OfFloat(float x) {
  uint32_t bits = 0;
  std::memcpy(&bits, &x, sizeof(x));
  if (std::isnan(x)) return 0x7FFF;
  return static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

float FloatOfHalf(uint16_t bits) {
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  float x = exponent == 31  ? (fraction == 0 ? INFINITY : NAN)
            : exponent == 0 ? std::ldexp(static_cast<float>(fraction), -24)
                            : std::ldexp(static_cast<float>(1024 + fraction), exponent - 25);
  return bits >> 15 != 0 ? -x : x;
}

uint16_t HalfOfFloat(float x) {
  const uint16_t sign = std::signbit(x) ? 0x8000 : 0;
  const float size = std::fabs(x);
  if (std::isnan(x)) return sign | 0x7FFF;
  if (size == 0.0f) return sign;
  if (size >= 65520.0f) return sign | 0x7C00;
  int exponent = 0;
  std::frexp(size, &exponent);  // size in [2^(exponent - 1), 2^exponent)
  // The number in units of its last place; the unit is 2^-24 for a number below 2^-14. A fraction
  // that rounds up to 2048 carries into the exponent.
  const int unit = std::max(exponent - 11, -24);
  const auto units = static_cast<int>(std::nearbyint(std::ldexp(size, -unit)));
  return sign | static_cast<uint16_t>(units + ((unit + 24) << 10));
}

}  // namespace moonring::kernels::fibers
