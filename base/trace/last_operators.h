#ifndef MOONRING_BASE_TRACE_LAST_OPERATORS_H_
#define MOONRING_BASE_TRACE_LAST_OPERATORS_H_

// The operators of LibTorch that this process ran last, for a report of an error: by which of them
// a GPU's error came, and with which shapes.

#include <string>
#include <vector>

namespace moonring::base {

// From here on the last `count` operators of all threads are kept. Costs some 0.3 us an operator;
// nothing is kept, and nothing costs, where this is not called.
void KeepLastOperators(int count);

// Oldest first, with the sizes of their tensors: "aten::mm [4096, 64] [64, 64]".
std::vector<std::string> LastOperators();

}  // namespace moonring::base

#endif  // MOONRING_BASE_TRACE_LAST_OPERATORS_H_
