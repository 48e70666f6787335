#ifndef MOONRING_KERNELS_FIBERS_H_
#define MOONRING_KERNELS_FIBERS_H_

// Kernels on the CPU, for tests: the threads of a block are fibers of the calling thread, which
// switch where they wait for one another (at barriers and warp operations). Blocks and threads run
// in an order that OrderScope chooses. What a GPU would refuse, hang at or not notice
// is an error, thrown as std::runtime_error out of Run:
//
//   threads of a block (a warp) that wait at several places, or of which some have ended
//   a warp operation of less than a whole warp; a block that is no multiple of 32
//   a write beyond the end of an array in shared memory; more shared memory than a block has
//   a vector load or store whose address is not a multiple of its size
//   a grid or a block that is empty or too large
//
// Shared arrays have the GPU's alignment here, no more.
// Shared memory is NaN when a block begins, so that who reads before the writer, as a missing
// barrier lets it, gets NaN in some order. Cost: some 20 ns a thread and wait. One launch at a time
// on each of the program's threads.

#include <array>
#include <cstdint>
#include <cstring>

#include "absl/functional/function_ref.h"
#include "kernels/launch.h"

namespace moonring::kernels::fibers {

struct Index {
  unsigned x = 0, y = 0, z = 0;
};

// Where the running thread is in its grid.
struct Position {
  Index thread, block, block_size, grid_size;
};

// A line of a kernel's source.
struct Place {
  const char* file = nullptr;
  int line = 0;
};

// Runs `kernel` once for each thread of the grid.
void Run(const Shape& shape, absl::FunctionRef<void()> kernel);

// While it lives, launches of this thread run their blocks and threads in the order of `seed`: 0
// ascending, as without it; 1 descending; others shuffled, anew after each wait.
class OrderScope {
 public:
  explicit OrderScope(uint64_t seed);
  ~OrderScope();
  OrderScope(const OrderScope&) = delete;
  OrderScope& operator=(const OrderScope&) = delete;

 private:
  uint64_t before_;
};

// --- what language.h makes CUDA's words of; in a kernel alone ---------------

const Position& Here();
unsigned Lane();
// The lane `lanes` after this one, or this one where there is none.
unsigned LaneDown(unsigned lanes);
void WaitForBlock(Place place);
uint64_t ShuffleBits(Place place, unsigned mask, uint64_t bits, unsigned lane);
unsigned Ballot(Place place, unsigned mask, bool value);
// What a warp does as one: `run` is called once, with what each lane gives, when all 32 have come
// and before any goes on.
using OfLanes = std::array<void*, 32>;
void AsWarp(Place place, void* of_lane, void (*run)(const OfLanes& lanes));
// Shared memory of the block: the same for the same `id` and `bytes`.
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
