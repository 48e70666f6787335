#include "data/packer.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>

namespace moonring::data {
namespace {

double Cost(int64_t tokens) {
  constexpr double kTokensWhereAttentionEqualsTheRest = 16384;
  return static_cast<double>(tokens) * (1 + static_cast<double>(tokens) / kTokensWhereAttentionEqualsTheRest);
}

// The examples of one rank into micro-batches; `examples` are places in `lengths`, the longest first.
std::vector<std::vector<int64_t>> PackRank(const std::vector<int64_t>& examples, absl::Span<const int64_t> lengths, int64_t capacity) {
  std::vector<std::vector<int64_t>> micro_batches;
  std::vector<int64_t> room;  // left in each; negative where one long example has it
  for (const int64_t example : examples) {
    size_t m = 0;
    while (m < room.size() && room[m] < lengths[example]) ++m;
    if (m == room.size()) {
      micro_batches.emplace_back();
      room.push_back(capacity);
    }
    micro_batches[m].push_back(example);
    room[m] -= lengths[example];
  }
  for (std::vector<int64_t>& micro_batch : micro_batches) std::sort(micro_batch.begin(), micro_batch.end());
  std::sort(micro_batches.begin(), micro_batches.end());
  return micro_batches;
}

}  // namespace

Packing PackStep(absl::Span<const int64_t> lengths, const PackOptions& options) {
  TORCH_CHECK(options.dp >= 1, "wanted at least 1 data-parallel rank, got ", options.dp);
  TORCH_CHECK(options.micro_batch_tokens >= 1, "micro_batch_tokens must be at least 1, got ", options.micro_batch_tokens);
  std::vector<int64_t> longest_first(lengths.size());
  std::iota(longest_first.begin(), longest_first.end(), int64_t{0});
  std::stable_sort(longest_first.begin(), longest_first.end(), [&](int64_t a, int64_t b) { return lengths[a] > lengths[b]; });
  std::vector<double> cost(options.dp, 0);
  std::vector<std::vector<int64_t>> of_rank(options.dp);
  for (const int64_t example : longest_first) {
    TORCH_CHECK(lengths[example] >= 1, "example ", example, " of the step has ", lengths[example], " tokens, wanted at least 1");
    const size_t rank = std::min_element(cost.begin(), cost.end()) - cost.begin();
    cost[rank] += Cost(lengths[example]);
    of_rank[rank].push_back(example);
  }
  Packing packing;
  for (const std::vector<int64_t>& examples : of_rank) packing.push_back(PackRank(examples, lengths, options.micro_batch_tokens));
  return packing;
}

MicroBatch MakeMicroBatch(const std::vector<Example>& dataset, std::vector<int64_t> indices) {
  MicroBatch micro_batch{.examples = std::move(indices)};
  std::vector<int64_t>& lengths = micro_batch.sequence.lengths;
  for (const int64_t index : micro_batch.examples) {
    TORCH_CHECK(index >= 0 && index < static_cast<int64_t>(dataset.size()), "example ", index, " of a data set of ", dataset.size());
    TORCH_CHECK(dataset[index].ids.size() == dataset[index].labels.size(), "example ", index, " has ", dataset[index].ids.size(), " ids and ",
                dataset[index].labels.size(), " labels");
    lengths.push_back(static_cast<int64_t>(dataset[index].ids.size()));
  }
  const int64_t tokens = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
  micro_batch.sequence.ids_T = at::empty({tokens}, at::kLong);
  micro_batch.labels_T = at::empty({tokens}, at::kLong);
  int64_t* ids = micro_batch.sequence.ids_T.data_ptr<int64_t>();
  int64_t* labels = micro_batch.labels_T.data_ptr<int64_t>();
  for (const int64_t index : micro_batch.examples) {
    ids = std::copy(dataset[index].ids.begin(), dataset[index].ids.end(), ids);
    labels = std::copy(dataset[index].labels.begin(), dataset[index].labels.end(), labels);
  }
  micro_batch.sequence.positions_T = comm::PositionsInDocuments(lengths);
  micro_batch.sequence.targets_T = comm::ShiftLabels(micro_batch.labels_T, lengths);
  return micro_batch;
}

}  // namespace moonring::data
