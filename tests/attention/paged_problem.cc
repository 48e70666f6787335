#include "tests/attention/paged_problem.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <ATen/ATen.h>

namespace moonring::attention {

void PagedProblem::Add(int64_t tokens, int64_t rows, int64_t parent) {
  Sequence sequence;
  sequence.rows = rows;
  if (parent >= 0) {
    const Sequence& from = sequences[parent];
    for (const KeyBlock& block : from.blocks) {
      if (block.tokens == kKeyBlock && block.end() < tokens) sequence.blocks.push_back(block);
    }
    const int64_t shared = sequence.blocks.empty() ? 0 : sequence.blocks.back().end();
    sequence.token.assign(from.token.begin(), from.token.begin() + shared);
  }
  while (sequence.tokens() < tokens) {
    const int64_t first = sequence.tokens(), count = std::min(kKeyBlock, tokens - first);
    sequence.blocks.push_back({blocks++, first, count});
    for (int64_t t = 0; t < count; ++t) sequence.token.push_back(keys++);
  }
  sequences.push_back(std::move(sequence));
}

void PagedProblem::Draw() {
  // Random numbers come from the CPU's generator: the simulated device of the tests has none.
  at::Generator(at::globalContext().defaultGenerator(at::kCPU)).set_current_seed(11);
  const auto random = [&](int64_t rows, int64_t heads, int64_t dim) {
    return at::randn({rows, heads, dim}, at::kDouble).to(type);
  };
  k = random(keys, shape.kv_heads, shape.dim);
  v = random(keys, shape.kv_heads, shape.value_dim);
  int64_t rows = 0;
  for (const Sequence& sequence : sequences) rows += sequence.rows;
  q = random(rows, shape.heads, shape.dim).to(device);
  // The blocks are stored in random order.
  const at::Tensor order = at::randperm(blocks, at::kLong);
  paged.Fit(k.to(device), v.to(device));
  paged.Reserve(blocks);
  for (const at::Tensor* held : {&paged.keys_NKDB(), &paged.values_NKBD()}) held->fill_(NAN);
  for (Sequence& sequence : sequences) {
    for (KeyBlock& block : sequence.blocks) block.block = order[block.block].item<int64_t>();
    std::vector<KeyPlace> places;
    for (const KeyBlock& block : sequence.blocks)
      for (int64_t t = 0; t < block.tokens; ++t) places.push_back({block.block, t});
    const at::Tensor rows_of = at::tensor(sequence.token, at::kLong);
    paged.Write(places, k.index_select(0, rows_of).to(device),
                v.index_select(0, rows_of).to(device));
  }
}

std::vector<PagedRun> PagedProblem::Runs() const {
  std::vector<PagedRun> runs;
  for (const Sequence& sequence : sequences)
    runs.push_back({sequence.rows, sequence.tokens() - sequence.rows, sequence.blocks});
  return runs;
}

PartialAttention PagedProblem::Wanted(const PagedRule& rule) const {
  std::vector<at::Tensor> outs, lses;
  const at::Tensor rows_of_q = q.to(at::kCPU, at::kDouble);
  int64_t row = 0;
  for (const Sequence& sequence : sequences) {
    for (int64_t r = 0; r < sequence.rows; ++r, ++row) {
      const int64_t position = sequence.tokens() - sequence.rows + r;
      const int64_t first = rule.window == 0 ? 0 : std::max<int64_t>(0, position + 1 - rule.window);
      const std::vector<int64_t> seen(sequence.token.begin() + first,
                                      sequence.token.begin() + position + 1);
      const at::Tensor at_rows = at::tensor(seen, at::kLong);
      const int64_t queries = shape.heads / shape.kv_heads;
      const auto of = [&](const at::Tensor& x) {
        return x.index_select(0, at_rows)
            .to(at::kDouble)
            .repeat_interleave(queries, 1)
            .transpose(0, 1);
      };
      at::Tensor scores =
          at::matmul(of(k), rows_of_q[row].unsqueeze(2)).squeeze(2) * rule.score.scale;
      if (rule.score.softcap > 0)
        scores = (scores / rule.score.softcap).tanh() * rule.score.softcap;
      outs.push_back(at::matmul(scores.softmax(1).unsqueeze(1), of(v)).squeeze(1));
      lses.push_back(scores.logsumexp({1}));
    }
  }
  return {at::stack(outs), at::stack(lses)};
}

void PagedProblem::AddAll() {
  Add(200, 1);
  Add(198, 1, 0);
  Add(193, 1, 0);
  Add(1, 1);
  Add(64, 1);
  Add(65, 1, 4);
  Add(150, 150);
  Add(130, 40);
  Add(129, 2, 0);
  Draw();
}

}  // namespace moonring::attention
