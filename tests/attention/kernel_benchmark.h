#ifndef MOONRING_TESTS_ATTENTION_KERNEL_BENCHMARK_H_
#define MOONRING_TESTS_ATTENTION_KERNEL_BENCHMARK_H_

// Benchmarks of attention on one rank.

#include <string>

#include "tests/attention/result_table.h"

namespace moonring::attention {

// Compares attention kernels with the machine's matmul rate, on one thread and on all threads.
testing::ResultTable MeasureRoofline(const std::string& filter, bool quick);

// Compares dense attention with LibTorch's operator.
testing::ResultTable MeasureDense(const std::string& filter, bool quick);

}  // namespace moonring::attention

#endif  // MOONRING_TESTS_ATTENTION_KERNEL_BENCHMARK_H_
