#ifndef MOONRING_KERNELS_FIBERS_H_
#define MOONRING_KERNELS_FIBERS_H_

// Runs kernels on the CPU, for tests. The threads of a block are fibers of the calling thread,
// which switch where they wait for one another (at barriers and warp operations). OrderScope
// chooses the order in which blocks and threads run. Mistakes that a GPU would refuse, hang on or
// not notice make Run throw std::runtime_error:
//
//   threads of a block (or warp) that wait at different lines, or some of which have ended
//   a warp operation of less than a whole warp; a block size that is not a multiple of 32
//   a write beyond the end of an array in shared memory; more shared memory than a block has
//   a vector load or store whose address is not a multiple of its size
//   a grid or a block that is empty or too large
//
// Shared arrays are aligned exactly as on the GPU, not more. Shared memory is filled with NaN when
// a block begins, so if a barrier is missing and a read may come before the write, the read yields
// NaN in some of the orders that OrderScope can choose. Cost: about 20 ns per thread and wait. Each
// thread of the program runs one launch at a time.

#include <array>
#include <cstdint>
#include <cstring>

#include "absl/functional/function_ref.h"
#include "kernels/launch.h"

namespace moonring::kernels::fibers {

struct Index {
  unsigned x = 0, y = 0, z = 0;
};

// The position of the running thread in its grid.
struct Position {
  Index thread, block, block_size, grid_size;
};

// A line of a kernel's source code.
struct Place {
  const char* file = nullptr;
  int line = 0;
};

// Runs `kernel` once for each thread of the grid.
void Run(const Shape& shape, absl::FunctionRef<void()> kernel);

// While an OrderScope is alive, launches of this thread run their blocks and threads in an order
// that `seed` selects. 0: ascending, which is the default; 1: descending; other values: blocks
// descending and threads shuffled, with a new order after each wait.
class OrderScope {
 public:
  explicit OrderScope(uint64_t seed);
  ~OrderScope();
  OrderScope(const OrderScope&) = delete;
  OrderScope& operator=(const OrderScope&) = delete;

 private:
  uint64_t before_;
};

// --- The functions to which language.h maps CUDA's keywords; only for use in a kernel ---

const Position& Here();
unsigned Lane();
// The number of the lane that is `lanes` after this lane, or this lane's number if there is no such
// lane.
unsigned LaneDown(unsigned lanes);
void WaitForBlock(Place place);
uint64_t ShuffleBits(Place place, unsigned mask, uint64_t bits, unsigned lane);
unsigned Ballot(Place place, unsigned mask, bool value);
// Runs a warp operation: `run` is called once, with the pointers that all 32 lanes passed, after
// all have arrived and before any continues.
using OfLanes = std::array<void*, 32>;
void AsWarp(Place place, void* of_lane, void (*run)(const OfLanes& lanes));
// Returns shared memory of the block: calls with the same `id` and `bytes` return the same memory.
void* Shared(int id, size_t bytes);
void* DynamicShared();
void CheckWord(const void* address, size_t bytes);  // throws if misaligned

template <typename T>
T Shuffle(Place place, unsigned mask, T value, unsigned lane) {
  static_assert(sizeof(T) <= sizeof(uint64_t));
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  bits = ShuffleBits(place, mask, bits, lane);
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}

// Rounds to TF32 (10 explicit mantissa bits), ties away from zero, as cvt.rna.tf32.f32 does.
float Tf32OfFloat(float x);
float FloatOfBf16(uint16_t bits);
uint16_t Bf16OfFloat(float x);
float FloatOfHalf(uint16_t bits);
uint16_t HalfOfFloat(float x);

}  // namespace moonring::kernels::fibers

#endif  // MOONRING_KERNELS_FIBERS_H_
