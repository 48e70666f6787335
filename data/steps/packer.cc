#include "data/steps/packer.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>

namespace moonring::data {
namespace {

double Cost(int64_t tokens) {
  constexpr double kTokensWhereAttentionEqualsTheRest = 16384;
  return static_cast<double>(tokens) *
         (1 + static_cast<double>(tokens) / kTokensWhereAttentionEqualsTheRest);
}

// The examples of one rank into micro-batches; `examples` are places in `lengths`, the longest
// first.
std::vector<std::vector<int64_t>> PackRank(const std::vector<int64_t>& examples,
                                           absl::Span<const int64_t> lengths, int64_t capacity) {
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
  for (std::vector<int64_t>& micro_batch : micro_batches)
    std::sort(micro_batch.begin(), micro_batch.end());
  std::sort(micro_batches.begin(), micro_batches.end());
  return micro_batches;
}

struct PlacedDocument {
  const Document* document;
  int64_t identity;  // of its first token
};

void Fill(const std::vector<PlacedDocument>& documents, MicroBatch& micro_batch) {
  comm::Sequence& sequence = micro_batch.sequence;
  for (const PlacedDocument& each : documents) {
    TORCH_CHECK(each.document->ids.size() == each.document->labels.size(), "a document of ",
                each.document->ids.size(), " ids and ", each.document->labels.size(), " labels");
    TORCH_CHECK(each.document->positions.empty() ||
                    each.document->positions.size() == each.document->ids.size(),
                "a document of ", each.document->ids.size(), " ids and ",
                each.document->positions.size(), " positions");
    sequence.lengths.push_back(each.document->size());
  }
  const int64_t tokens =
      std::accumulate(sequence.lengths.begin(), sequence.lengths.end(), int64_t{0});
  for (at::Tensor* tensor : {&sequence.ids_T, &micro_batch.labels_T, &sequence.identity_T})
    *tensor = at::empty({tokens}, at::kLong);
  int64_t* ids = sequence.ids_T.data_ptr<int64_t>();
  int64_t* labels = micro_batch.labels_T.data_ptr<int64_t>();
  int64_t* identity = sequence.identity_T.data_ptr<int64_t>();
  for (const PlacedDocument& each : documents) {
    ids = std::copy(each.document->ids.begin(), each.document->ids.end(), ids);
    labels = std::copy(each.document->labels.begin(), each.document->labels.end(), labels);
    std::iota(identity, identity + each.document->size(), each.identity);
    identity += each.document->size();
  }
  sequence.positions_T = comm::PositionsInDocuments(sequence.lengths);
  int64_t* positions = sequence.positions_T.data_ptr<int64_t>();
  for (const PlacedDocument& each : documents) {
    std::copy(each.document->positions.begin(), each.document->positions.end(), positions);
    positions += each.document->size();
  }
  sequence.targets_T = comm::ShiftLabels(micro_batch.labels_T, sequence.lengths);
}

}  // namespace

Packing PackStep(absl::Span<const int64_t> lengths, const PackOptions& options) {
  TORCH_CHECK(options.dp >= 1, "wanted at least 1 data-parallel rank, got ", options.dp);
  TORCH_CHECK(options.micro_batch_tokens >= 1, "micro_batch_tokens must be at least 1, got ",
              options.micro_batch_tokens);
  std::vector<int64_t> longest_first(lengths.size());
  std::iota(longest_first.begin(), longest_first.end(), int64_t{0});
  std::stable_sort(longest_first.begin(), longest_first.end(),
                   [&](int64_t a, int64_t b) { return lengths[a] > lengths[b]; });
  std::vector<double> cost(options.dp, 0);
  std::vector<std::vector<int64_t>> of_rank(options.dp);
  for (const int64_t example : longest_first) {
    TORCH_CHECK(lengths[example] >= 1, "example ", example, " of the step has ", lengths[example],
                " tokens, wanted at least 1");
    const size_t rank = std::min_element(cost.begin(), cost.end()) - cost.begin();
    cost[rank] += Cost(lengths[example]);
    of_rank[rank].push_back(example);
  }
  Packing packing;
  for (const std::vector<int64_t>& examples : of_rank)
    packing.push_back(PackRank(examples, lengths, options.micro_batch_tokens));
  return packing;
}

Packing DealGroups(std::vector<std::vector<int64_t>> groups, absl::Span<const int64_t> lengths,
                   int64_t dp) {
  TORCH_CHECK(dp >= 1, "wanted at least 1 data-parallel rank, got ", dp);
  std::vector<std::pair<double, std::vector<int64_t>>> by_cost;
  for (std::vector<int64_t>& group : groups) {
    if (group.empty()) continue;
    double cost = 0;
    for (const int64_t place : group) cost += Cost(lengths[place]);
    by_cost.emplace_back(cost, std::move(group));
  }
  std::stable_sort(by_cost.begin(), by_cost.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<double> cost(dp, 0);
  Packing packing(dp);
  for (auto& [of_group, group] : by_cost) {
    const size_t rank = std::min_element(cost.begin(), cost.end()) - cost.begin();
    cost[rank] += of_group;
    packing[rank].push_back(std::move(group));
  }
  for (std::vector<std::vector<int64_t>>& of_rank : packing)
    std::sort(of_rank.begin(), of_rank.end());
  return packing;
}

MicroBatch MakeMicroBatch(const StepExamples& step, std::vector<int64_t> places, Part part) {
  MicroBatch micro_batch{.places = std::move(places)};
  std::vector<PlacedDocument> documents;
  for (const int64_t place : micro_batch.places) {
    const int64_t size = static_cast<int64_t>(step.examples.size());
    TORCH_CHECK(place >= 0 && place < size, "place ", place, " in a step of ", size, " examples");
    const int64_t index = step.batch.examples[place];
    const Example& example = *step.examples[place];
    const int64_t begin = part == Part::kTrained ? 0 : example.trained_documents();
    const int64_t end = part == Part::kTrained ? example.trained_documents()
                                               : static_cast<int64_t>(example.documents.size());
    micro_batch.examples.push_back(index);
    micro_batch.documents.push_back(end - begin);
    if (example.desirable.has_value()) micro_batch.desirable.push_back(*example.desirable);
    for (int64_t d = begin; d < end; ++d)
      documents.push_back({&example.documents[d], (index << 32) + example.first_identity(d)});
  }
  Fill(documents, micro_batch);
  return micro_batch;
}

}  // namespace moonring::data
