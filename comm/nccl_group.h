#ifndef MOONRING_COMM_NCCL_GROUP_H_
#define MOONRING_COMM_NCCL_GROUP_H_

// A group of ranks whose tensors are on GPUs. Separate from process_groups, because it is the only
// file of comm that is compiled against CUDA.

#include <chrono>

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace moonring::comm {

// Creates a group on the calling thread's current GPU; returns when all ranks have connected. Null
// in a build without CUDA. Throws c10::Error if NCCL fails, for example without a GPU or if two
// ranks have the same GPU. `timeout` bounds each call.
c10::intrusive_ptr<c10d::Backend> MakeNcclGroup(const c10::intrusive_ptr<c10d::Store>& store,
                                                int rank, int size,
                                                std::chrono::milliseconds timeout);

}  // namespace moonring::comm

#endif  // MOONRING_COMM_NCCL_GROUP_H_
