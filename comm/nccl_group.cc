#include "comm/nccl_group.h"

#ifdef USE_C10D_NCCL
#include <cstdlib>

#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>
#endif

namespace moonring::comm {

c10::intrusive_ptr<c10d::Backend> MakeNcclGroup(const c10::intrusive_ptr<c10d::Store>& store,
                                                int rank, int size,
                                                std::chrono::milliseconds timeout) {
#ifdef USE_C10D_NCCL
  auto options = c10d::ProcessGroupNCCL::Options::create();
  options->timeout = timeout;
  // If a collective failed, LibTorch's watchdog would end the process by a signal, and the rank
  // that only detected the failure would be blamed. With this setting the watchdog only aborts the
  // communicators, and the next call throws.
  setenv("TORCH_NCCL_ASYNC_ERROR_HANDLING", "2", /*overwrite=*/0);
  auto group = c10::make_intrusive<c10d::ProcessGroupNCCL>(store, rank, size, options);
  // Connects at once. Otherwise LibTorch connects at the group's first call and needs all ranks in
  // it, but a batch of sends and receives need not involve all ranks.
  group->eagerConnectSingleDevice(c10::impl::VirtualGuardImpl(c10::kCUDA).getDevice());
  return group;
#else
  return nullptr;
#endif
}

}  // namespace moonring::comm
