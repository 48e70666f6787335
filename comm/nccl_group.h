#ifndef MOONRING_COMM_NCCL_GROUP_H_
#define MOONRING_COMM_NCCL_GROUP_H_

// A group of ranks whose tensors are on GPUs: apart from process_groups, since of all of comm this
// alone is compiled against CUDA.

#include <chrono>

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace moonring::comm {

// Of the calling thread's current GPU; returns when all ranks have come. Null in a build without
// CUDA. Throws c10::Error where NCCL cannot make it, as where there is no GPU or two ranks have the
// same. `timeout` bounds each call.
c10::intrusive_ptr<c10d::Backend> MakeNcclGroup(const c10::intrusive_ptr<c10d::Store>& store,
                                                int rank, int size,
                                                std::chrono::milliseconds timeout);

}  // namespace moonring::comm

#endif  // MOONRING_COMM_NCCL_GROUP_H_
