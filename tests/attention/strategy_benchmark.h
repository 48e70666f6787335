#ifndef MOONRING_TESTS_ATTENTION_STRATEGY_BENCHMARK_H_
#define MOONRING_TESTS_ATTENTION_STRATEGY_BENCHMARK_H_

// Benchmark of every strategy on ranks that are threads of this process: time, bytes, steps,
// balance, memory and error, compared with the predictions of its plan.

#include <string>

#include "tests/attention/result_table.h"

namespace moonring::attention {

testing::ResultTable MeasureStrategies(const std::string& filter, bool quick);

}  // namespace moonring::attention

#endif  // MOONRING_TESTS_ATTENTION_STRATEGY_BENCHMARK_H_
