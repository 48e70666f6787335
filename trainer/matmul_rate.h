#ifndef MOONRING_TRAINER_MATMUL_RATE_H_
#define MOONRING_TRAINER_MATMUL_RATE_H_

// What this rank's device makes of products of large matrices now: the rate that a run's own
// operations are held against. Every rank measures at the same time, as ranks compute at the same
// time, so that cores that they share are shared here too.

#include <cstdint>
#include <limits>

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

namespace moonring::trainer {

// Operations (2 n^3 a product) a second: the best of the products made in `seconds` (one at the
// least), square ones of 1024 on a CPU and of 8192 on a GPU; smaller ones (256, 4096 at the least)
// where those would take more than 0.25 s each, or their three matrices more than `bytes`. 0 where
// the smallest take too much. By kernels/products, as a model's.
double MeasureMatmulRate(at::ScalarType dtype, c10::Device device, double seconds,
                         int64_t bytes = std::numeric_limits<int64_t>::max());

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_MATMUL_RATE_H_
