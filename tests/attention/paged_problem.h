#ifndef MOONRING_TESTS_ATTENTION_PAGED_PROBLEM_H_
#define MOONRING_TESTS_ATTENTION_PAGED_PROBLEM_H_

// Test sequences with paged keys and values (attention/paged/paged_keys.h) on any device, and the
// attention of their new rows computed from its definition. Slots of a block that were never
// written are NaN.

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

// Sequences whose keys are stored in randomly placed blocks. Answers to one prompt share the whole
// blocks of that prompt. Each sequence has `rows` new query rows.
struct PagedProblem {
  struct Sequence {
    std::vector<KeyBlock> blocks;
    std::vector<int64_t> token;  // index in `k` of the key of its t-th token
    int64_t rows = 1;
    int64_t tokens() const { return static_cast<int64_t>(token.size()); }
  };

  PagedProblem(at::ScalarType dtype, const PagedShape& of, c10::Device where = at::kCPU)
      : shape(of), type(dtype), device(where) {}

  // Adds a sequence of `tokens` tokens in total. With `parent`, it shares the parent's whole blocks
  // at its beginning.
  void Add(int64_t tokens, int64_t rows, int64_t parent = -1);

  // Adds answers to two prompts with one new row each, then prompts with many new rows, some of
  // which continue a sequence that is already cached.
  void AddAll();

  // Creates random q, k and v. Must be called after all sequences have been added.
  void Draw();

  std::vector<PagedRun> Runs() const;

  // The expected attention of every new row over the keys that it attends to, in fp64 on the CPU.
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
