#ifndef MOONRING_BASE_TRACE_LAST_OPERATORS_H_
#define MOONRING_BASE_TRACE_LAST_OPERATORS_H_

// The LibTorch operators that this process ran last, for error reports: which operator may have
// caused a GPU error, and with which shapes.

#include <string>
#include <vector>

namespace moonring::base {

// From this call on, keeps the last `count` operators of all threads. Costs about 0.3 us per
// operator. Before this call nothing is kept and there is no cost.
void KeepLastOperators(int count);

// The kept operators, oldest first, with their tensors' sizes: "aten::mm [4096, 64] [64, 64]".
std::vector<std::string> LastOperators();

}  // namespace moonring::base

#endif  // MOONRING_BASE_TRACE_LAST_OPERATORS_H_
