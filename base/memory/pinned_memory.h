#ifndef MOONRING_BASE_MEMORY_PINNED_MEMORY_H_
#define MOONRING_BASE_MEMORY_PINNED_MEMORY_H_

// Pinned memory of the host, from which and to which a GPU copies by itself, of just the size that
// is asked for.
//
//   PinnedTensor   memory of its own (cudaHostAlloc), in whole pages, given back when the tensor
//                  ends: for what lives through a run. LibTorch's own allocator rounds each size
//                  up to a power of two (ATen/core/CachingHostAllocator.h), so that 2.1 GB take 4
//   PinnedChunks   one tensor over pieces of kChunk bytes that are used again and again, whatever
//                  sizes come: for what comes and goes. Less than a chunk is wasted a tensor, and
//                  what is smaller than one is LibTorch's (which may double it)
//
// Page-locking costs the driver some 0.3 s a GB, and giving back waits for the whole device: both
// are for the start and the end of a run. In a build without CUDA both are LibTorch's allocator.

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

namespace moonring::base {

// Uninitialised, contiguous, on the CPU. Throws c10::OutOfMemoryError where the host has no more.
at::Tensor PinnedTensor(at::IntArrayRef sizes, at::ScalarType dtype);

class PinnedChunks : public std::enable_shared_from_this<PinnedChunks> {
 public:
  static constexpr int64_t kChunk = int64_t{32} << 20;
  explicit PinnedChunks(int64_t chunk_bytes = kChunk) : chunk_bytes_(chunk_bytes) {}

  // Room for a contiguous tensor, piece by piece: piece i has the numbers [i n, (i + 1) n) of its
  // flattened ones, n a whole number a chunk. A piece is free for another once it ends, so its last
  // copy must come before the next one's first: on one stream, say.
  std::vector<at::Tensor> Take(int64_t numel, at::ScalarType dtype);

  int64_t held_bytes() const { return held_bytes_; }  // of chunks, in use and free

 private:
  at::Tensor Chunk();

  const int64_t chunk_bytes_;
  int64_t held_bytes_ = 0;
  std::vector<at::Tensor> free_;  // bytes
};

// Copies between a contiguous tensor and its pieces, in either direction, behind what the current
// stream has been given.
void CopyToPieces(const at::Tensor& from, const std::vector<at::Tensor>& pieces);
void CopyFromPieces(const std::vector<at::Tensor>& pieces, const at::Tensor& to);

}  // namespace moonring::base

#endif  // MOONRING_BASE_MEMORY_PINNED_MEMORY_H_
