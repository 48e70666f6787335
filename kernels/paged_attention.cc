#include "kernels/paged_attention.h"

#include <algorithm>
#include <map>

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/util/Exception.h>
#include <torch/library.h>

namespace moonring::kernels {
namespace {

constexpr int64_t kQueriesAtOnce = 8, kWidest = 256;

}  // namespace

TORCH_LIBRARY_FRAGMENT(moonring, library) {
  library.def(
      "paged_attention(Tensor q, Tensor keys, Tensor values, Tensor words, int[] counts, "
      "float scale, float softcap, Tensor(o!) out, Tensor(l!) lse) -> ()");
}

PagedTable TableOf(absl::Span<const PagedTask> tasks, absl::Span<const int64_t> rows) {
  PagedTable table{.tasks = static_cast<int64_t>(tasks.size()),
                   .rows = static_cast<int64_t>(rows.size())};
  for (const PagedTask& task : tasks) {
    table.blocks += static_cast<int64_t>(task.blocks.size());
    table.parts += static_cast<int64_t>(task.rows.size());
    table.most_rows = std::max(table.most_rows, static_cast<int64_t>(task.rows.size()));
  }
  std::vector<int32_t>& words = table.words;
  words.reserve(2 * (table.tasks + 1) + 3 * table.blocks + 2 * table.parts + 2 * (table.rows + 1));
  const auto put = [&](int64_t word) { words.push_back(static_cast<int32_t>(word)); };
  // For each task the index of its first block among the blocks of all tasks, and that of its first
  // part among all parts (a part is one row of one task); at the end the numbers of all blocks and
  // of all parts.
  int64_t block = 0, part = 0;
  for (const PagedTask& task : tasks) {
    put(block);
    put(part);
    block += static_cast<int64_t>(task.blocks.size());
    part += static_cast<int64_t>(task.rows.size());
  }
  put(block);
  put(part);
  for (const PagedTask& task : tasks) {
    for (const PagedBlock& each : task.blocks) {
      put(each.block);
      put(each.begin);
      put(each.end);
    }
  }
  std::map<int64_t, std::vector<int64_t>> parts_of_row;
  part = 0;
  for (const PagedTask& task : tasks) {
    for (const int64_t row : task.rows) {
      put(row);
      parts_of_row[row].push_back(part++);
    }
  }
  // For each row its index in q, and where its parts begin in the list of part indices that
  // follows; at the end -1 and the length of that list.
  int64_t link = 0;
  for (const int64_t row : rows) {
    put(row);
    put(link);
    link += static_cast<int64_t>(parts_of_row[row].size());
  }
  TORCH_CHECK(link == part, "paged_attention: tasks have ", part, " rows, of which ", link,
              " are expected");
  put(-1);
  put(link);
  for (const int64_t row : rows) {
    for (const int64_t each : parts_of_row[row]) put(each);
  }
  return table;
}

int64_t RowsOfPagedTask(int64_t queries) { return std::max<int64_t>(1, kQueriesAtOnce / queries); }

bool PagedAttentionTakes(at::ScalarType dtype, int64_t key_dim, int64_t value_dim) {
  const auto fits = [](int64_t dim) { return dim > 0 && dim <= kWidest; };
  return (dtype == at::kFloat || dtype == at::kBFloat16 || dtype == at::kHalf) && fits(key_dim) &&
         fits(value_dim);
}

void PagedAttention(const PagedAttentionTensors& tensors, const PagedTable& table, double scale,
                    double softcap) {
  static const auto op =
      c10::Dispatcher::singleton()
          .findSchemaOrThrow(kPagedAttention, "")
          .typed<void(const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&,
                      at::IntArrayRef, double, double, at::Tensor, at::Tensor)>();
  op.call(tensors.q_THD, tensors.keys_NKDB, tensors.values_NKBD, tensors.words,
          {table.tasks, table.blocks, table.parts, table.rows, table.most_rows}, scale, softcap,
          tensors.out_THD, tensors.lse_TH);
}

}  // namespace moonring::kernels
