#ifndef MOONRING_BASE_MEMORY_PINNED_MEMORY_H_
#define MOONRING_BASE_MEMORY_PINNED_MEMORY_H_

// Pinned host memory, which a GPU can copy from and to asynchronously, in the exact size requested.
//
//   PinnedTensor   separate memory (cudaHostAlloc) in whole pages, freed with the tensor: for
//                  memory that is needed for a whole run. LibTorch's allocator rounds each size up
//                  to a power of two (ATen/core/CachingHostAllocator.h): 2.1 GB take 4 GB
//   PinnedChunks   one tensor over pieces of kChunk bytes, which are reused for any sizes: for
//                  temporary memory. Less than a chunk is wasted per tensor; memory smaller than a
//                  chunk comes from LibTorch's allocator (which may double it)
//
// Page-locking costs the driver about 0.3 s per GB, and freeing waits for the whole device: both
// belong at the start and the end of a run. In a build without CUDA both use LibTorch's allocator.

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

namespace moonring::base {

// Uninitialized, contiguous, on the CPU. Throws c10::OutOfMemoryError if the host has no memory
// left.
at::Tensor PinnedTensor(at::IntArrayRef sizes, at::ScalarType dtype);

class PinnedChunks : public std::enable_shared_from_this<PinnedChunks> {
 public:
  static constexpr int64_t kChunk = int64_t{32} << 20;
  explicit PinnedChunks(int64_t chunk_bytes = kChunk) : chunk_bytes_(chunk_bytes) {}

  // Memory for a contiguous tensor, in pieces: piece i has the elements [i n, (i + 1) n) of the
  // flattened tensor, where n is the number of whole elements per chunk. When a piece is destroyed
  // its chunk is reused, so its last copy must be ordered before the next user's first, for example
  // on one stream.
  std::vector<at::Tensor> Take(int64_t numel, at::ScalarType dtype);

  int64_t held_bytes() const { return held_bytes_; }  // of all chunks, used and free

 private:
  at::Tensor Chunk();

  const int64_t chunk_bytes_;
  int64_t held_bytes_ = 0;
  std::vector<at::Tensor> free_;  // bytes
};

// Copies between a contiguous tensor and its pieces, in either direction, queued on the current
// stream.
void CopyToPieces(const at::Tensor& from, const std::vector<at::Tensor>& pieces);
void CopyFromPieces(const std::vector<at::Tensor>& pieces, const at::Tensor& to);

}  // namespace moonring::base

#endif  // MOONRING_BASE_MEMORY_PINNED_MEMORY_H_
