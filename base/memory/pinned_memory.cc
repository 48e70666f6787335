#include "base/memory/pinned_memory.h"

#include <algorithm>
#include <utility>

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include "base/memory/memory_account.h"

#ifdef MOONRING_CUDA
#include <cuda_runtime_api.h>
#endif

namespace moonring::base {
namespace {

at::TensorOptions OnHost(at::ScalarType dtype) { return at::TensorOptions(at::kCPU).dtype(dtype); }

at::Tensor FromAllocator(at::IntArrayRef sizes, at::ScalarType dtype) {
  return at::empty(sizes, OnHost(dtype).pinned_memory(true));
}

}  // namespace

#ifdef MOONRING_CUDA

at::Tensor PinnedTensor(at::IntArrayRef sizes, at::ScalarType dtype) {
  const int64_t bytes =
      c10::multiply_integers(sizes) * static_cast<int64_t>(c10::elementSize(dtype));
  if (bytes == 0) return at::empty(sizes, OnHost(dtype));
  void* memory = nullptr;
  const cudaError_t failed = cudaHostAlloc(&memory, bytes, cudaHostAllocPortable);
  if (failed != cudaSuccess) {
    cudaGetLastError();  // otherwise the next kernel launch would report it
    TORCH_CHECK_WITH(OutOfMemoryError, false,
                     OutOfMemory(MemoryPartName(CurrentMemoryPart()), bytes),
                     ", pinned: ", cudaGetErrorString(failed));
  }
  return at::from_blob(
      memory, sizes, [](void* gone) { cudaFreeHost(gone); }, OnHost(dtype));
}

#else

at::Tensor PinnedTensor(at::IntArrayRef sizes, at::ScalarType dtype) {
  return FromAllocator(sizes, dtype);
}

#endif

at::Tensor PinnedChunks::Chunk() {
  at::Tensor chunk;
  if (free_.empty()) {
    chunk = PinnedTensor({chunk_bytes_}, at::kByte);
    held_bytes_ += chunk_bytes_;
  } else {
    chunk = std::move(free_.back());
    free_.pop_back();
  }
  // A tensor over the same bytes. When the tensor is destroyed, the chunk returns to the pool, or
  // is freed if the pool no longer exists.
  void* const bytes = chunk.mutable_data_ptr();
  return at::from_blob(
      bytes, {chunk_bytes_},
      [pool = weak_from_this(), chunk = std::move(chunk)](void*) mutable {
        if (const auto open = pool.lock()) open->free_.push_back(std::move(chunk));
      },
      OnHost(at::kByte));
}

std::vector<at::Tensor> PinnedChunks::Take(int64_t numel, at::ScalarType dtype) {
  const int64_t element = static_cast<int64_t>(c10::elementSize(dtype)),
                most = chunk_bytes_ / element;
  if (numel < most) return {FromAllocator({numel}, dtype)};
  std::vector<at::Tensor> pieces;
  for (int64_t begin = 0; begin < numel; begin += most) {
    const int64_t count = std::min(most, numel - begin);
    pieces.push_back(Chunk().narrow(0, 0, count * element).view(dtype));
  }
  return pieces;
}

void CopyToPieces(const at::Tensor& from, const std::vector<at::Tensor>& pieces) {
  const at::Tensor flat = from.view({-1});
  int64_t begin = 0;
  for (const at::Tensor& piece : pieces) {
    piece.copy_(flat.narrow(0, begin, piece.numel()), /*non_blocking=*/true);
    begin += piece.numel();
  }
}

void CopyFromPieces(const std::vector<at::Tensor>& pieces, const at::Tensor& to) {
  const at::Tensor flat = to.view({-1});
  int64_t begin = 0;
  for (const at::Tensor& piece : pieces) {
    flat.narrow(0, begin, piece.numel()).copy_(piece, /*non_blocking=*/true);
    begin += piece.numel();
  }
}

}  // namespace moonring::base
