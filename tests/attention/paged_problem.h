#ifndef MOONRING_TESTS_ATTENTION_PAGED_PROBLEM_H_
#define MOONRING_TESTS_ATTENTION_PAGED_PROBLEM_H_

// Sequences with keys in blocks (attention/paged/paged_keys.h), on any device, and attention of
// their new rows by its definition. What was never written in a block is NaN.

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "attention/kernels/block_attention.h"
#include "attention/paged/paged_attention.h"
#include "attention/paged/paged_keys.h"

namespace moonring::attention {

struct PagedShape {
  int64_t heads = 6, kv_heads = 2, dim = 24, value_dim = 24;
};

// Sequences whose keys lie in blocks at random places; answers to one prompt share its whole
// blocks. `rows` new rows of each.
struct PagedProblem {
  struct Sequence {
    std::vector<KeyBlock> blocks;
    std::vector<int64_t> token;  // where its t-th token's key is in `k`
    int64_t rows = 1;
    int64_t tokens() const { return static_cast<int64_t>(token.size()); }
  };

  PagedProblem(at::ScalarType dtype, const PagedShape& of, c10::Device where = at::kCPU)
      : shape(of), type(dtype), device(where) {}

  // One that begins as `parent` does, so far as whole blocks go, and has `tokens` in all.
  void Add(int64_t tokens, int64_t rows, int64_t parent = -1);

  // Answers to two prompts with one row each, then prompts of many rows, some of them continued.
  void AddAll();

  // Once all are added.
  void Draw();

  std::vector<PagedRun> Runs() const;

  // Every row against the keys that it sees, in fp64, on the CPU.
  PartialAttention Wanted(const PagedRule& rule) const;

  PagedShape shape;
  at::ScalarType type;
  c10::Device device;
  std::vector<Sequence> sequences;
  int64_t blocks = 0, keys = 0;
  at::Tensor q;     // on the device
  at::Tensor k, v;  // on the CPU
  PagedKeys paged;
};

}  // namespace moonring::attention

#endif  // MOONRING_TESTS_ATTENTION_PAGED_PROBLEM_H_
