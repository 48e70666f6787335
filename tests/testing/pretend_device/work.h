#ifndef MOONRING_TESTS_TESTING_PRETEND_DEVICE_WORK_H_
#define MOONRING_TESTS_TESTING_PRETEND_DEVICE_WORK_H_

// What one call of an operator asks of a GPU (counts.h: Work): bytes that it must read and write at
// least, and the floating-point operations of products and of attention.
//
//   bytes      of a tensor: its elements, each once, whatever lies between them; a dimension of
//              stride 0 is one element. Of an output they are written, of one changed in place
//              read too (but a product's sum where beta is 0). What only a few rows of are used
//              (embedding, index_select, index_add_) has as many as are gathered or added; of a
//              stream as many as token_of_slot has (kernels/delta_pack.h)
//   product    2 M N K; of fp32 by "product tf32" where LibTorch's switch for that is on
//   attention  4 H D pairs forward, 10 H D pairs backward (its five products); pairs: of a query
//              and a key that it sees, by offsets, causal mask (the last query sees the last key)
//              and window: FlashAttention's own count (Dao et al. 2022)
//   delta_scan 4 N H C V K: two products a chunk (kernels/delta_scan.h)
//
// Other operators have no operations here: their bytes take longer.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>

#include "tests/testing/pretend_device/counts.h"

namespace moonring::pretend {

// Of each of a sequence's queries and keys: the i-th query of M stands at key i + N - M of N, and
// sees `left` keys before it and `right` after it; absent: all.
int64_t SeenPairs(int64_t queries, int64_t keys, std::optional<int64_t> left,
                  std::optional<int64_t> right);

int64_t TouchedBytes(const at::Tensor& tensor);

// One copy.
Work WorkOfCopy(const at::Tensor& to, const at::Tensor& from);

// A call, with the arguments of its schema and what it gave, all as the caller sees them.
Work WorkOf(const c10::FunctionSchema& schema, const std::vector<c10::IValue>& given,
            const std::vector<c10::IValue>& results);

bool IsProduct(const std::string& name);

}  // namespace moonring::pretend

#endif  // MOONRING_TESTS_TESTING_PRETEND_DEVICE_WORK_H_
