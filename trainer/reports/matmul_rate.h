#ifndef MOONRING_TRAINER_REPORTS_MATMUL_RATE_H_
#define MOONRING_TRAINER_REPORTS_MATMUL_RATE_H_

// Measures this rank's rate for products of large matrices, the reference for a run's utilization.
// All ranks measure at the same time, so that shared cores are shared as in training.

#include <cstdint>
#include <limits>

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

namespace moonring::trainer {

// The highest rate in operations per second (2 n^3 per product) among the products in `seconds` (at
// least one). The matrices are square, of size 1024 on a CPU and 8192 on a GPU; smaller (at least
// 256 and 4096) if such a product would take more than 0.25 s, or the three matrices more than
// `bytes`. 0 if the smallest size exceeds these limits. Uses kernels/products, like models.
double MeasureMatmulRate(at::ScalarType dtype, c10::Device device, double seconds,
                         int64_t bytes = std::numeric_limits<int64_t>::max());

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_REPORTS_MATMUL_RATE_H_
