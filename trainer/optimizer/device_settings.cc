#include "trainer/optimizer/device_settings.h"

#include <cstdlib>

#include <ATen/Context.h>
#include <c10/core/AllocatorConfig.h>

namespace moonring::trainer {

void GrowSegments() {
  for (const char* name : {"PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"}) {
    if (std::getenv(name) != nullptr) return;
  }
  c10::CachingAllocator::setAllocatorSettings("expandable_segments:True");
}

void MultiplyAsWritten() {
  unsetenv("NVIDIA_TF32_OVERRIDE");
  at::globalContext().setFloat32MatmulPrecision("highest");
}

void SetDeterministic(bool deterministic) {
  // warn_only would let attention's backward use atomics.
  at::globalContext().setDeterministicAlgorithms(deterministic, /*warn_only=*/false);
  // Filling new memory is only useful for finding reads of uninitialized memory, and costs a pass
  // over all memory.
  at::globalContext().setDeterministicFillUninitializedMemory(false);
  if (deterministic) setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);
}

}  // namespace moonring::trainer
