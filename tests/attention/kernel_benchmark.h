#ifndef MOONRING_TESTS_ATTENTION_KERNEL_BENCHMARK_H_
#define MOONRING_TESTS_ATTENTION_KERNEL_BENCHMARK_H_

// One rank's attention, measured beside what the machine can do and beside what LibTorch has.

#include <string>

#include "tests/attention/result_table.h"

namespace moonring::attention {

// Kernels beside matmul, on one thread and on all.
testing::ResultTable MeasureRoofline(const std::string& filter, bool quick);

// Dense attention beside the stock operator.
testing::ResultTable MeasureDense(const std::string& filter, bool quick);

}  // namespace moonring::attention

#endif  // MOONRING_TESTS_ATTENTION_KERNEL_BENCHMARK_H_
