// Fused attention of the pretend device: what CUDA's kernels take and lay out, by definition in fp64.

#include "tests/attention/cuda_stand_ins.h"

namespace {

const torch::Library stand_ins = moonring::attention::CudaStandIns();

}  // namespace
