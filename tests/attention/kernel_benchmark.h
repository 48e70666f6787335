#ifndef MOONRING_TESTS_ATTENTION_KERNEL_BENCHMARK_H_
#define MOONRING_TESTS_ATTENTION_KERNEL_BENCHMARK_H_

// Benchmarks of attention on one rank, compared with the machine's peak and with LibTorch's own
// attention operators.

#include <string>

#include "tests/attention/result_table.h"

namespace moonring::attention {

// Attention kernels compared with matmul, on one thread and on all threads.
testing::ResultTable MeasureRoofline(const std::string& filter, bool quick);

// Dense attention compared with LibTorch's operator.
testing::ResultTable MeasureDense(const std::string& filter, bool quick);

}  // namespace moonring::attention

#endif  // MOONRING_TESTS_ATTENTION_KERNEL_BENCHMARK_H_
