#ifndef MOONRING_TESTS_TESTING_PRETEND_DEVICE_WORK_H_
#define MOONRING_TESTS_TESTING_PRETEND_DEVICE_WORK_H_

// Computes the work that one call of an operator requires of a GPU (counts.h: Work): the bytes that
// it must at least read and write, and the floating-point operations of matrix products and
// attention.
//
//   bytes      of a tensor: each element once, without gaps between elements; a dimension of
//              stride 0 counts as one element. An output is written; a tensor that is changed in
//              place is also read (except the addend of a product if beta is 0). An operator that
//              uses only a few rows (embedding, index_select, index_add_) counts the rows that it
//              gathers or adds; a packed stream counts as many rows as token_of_slot has
//              (kernels/delta_pack.h)
//   product    2 M N K operations; fp32 products are "product tf32" if LibTorch's switch is on
//   attention  4 H D pairs forward, 10 H D pairs backward (its five products), where `pairs` counts
//              the pairs of a query and a key that it attends to, from offsets, causal mask (the
//              last query attends to the last key) and window, as FlashAttention counts them (Dao
//              et al. 2022)
//   delta_scan 4 N H C V K: two products per chunk (kernels/delta_scan.h)
//
// Other operators count no operations: their bytes dominate.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>

#include "tests/testing/pretend_device/counts.h"

namespace moonring::pretend {

// Returns the number of pairs of a query and a key that it attends to, in one sequence. Query i of
// M has key position i + N - M of N; it attends to `left` keys before it and `right` keys after it.
// nullopt means no limit.
int64_t SeenPairs(int64_t queries, int64_t keys, std::optional<int64_t> left,
                  std::optional<int64_t> right);

int64_t TouchedBytes(const at::Tensor& tensor);

// Returns the work of one copy.
Work WorkOfCopy(const at::Tensor& to, const at::Tensor& from);

// Returns the work of a call, from the arguments of its schema and its results, all as the caller
// sees them.
Work WorkOf(const c10::FunctionSchema& schema, const std::vector<c10::IValue>& given,
            const std::vector<c10::IValue>& results);

bool IsProduct(const std::string& name);

}  // namespace moonring::pretend

#endif  // MOONRING_TESTS_TESTING_PRETEND_DEVICE_WORK_H_
