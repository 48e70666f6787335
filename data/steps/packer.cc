#include "data/steps/packer.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>

#include "data/steps/prefixes.h"

namespace moonring::data {
namespace {

double Cost(int64_t tokens) {
  constexpr double kTokensWhereAttentionEqualsTheRest = 16384;
  return static_cast<double>(tokens) *
         (1 + static_cast<double>(tokens) / kTokensWhereAttentionEqualsTheRest);
}

// Assigns examples to dp ranks, in order of descending length, each to the rank with the lowest
// cost so far. Returns for each rank the indices in `lengths`, the longest first.
std::vector<std::vector<int64_t>> DealByCost(absl::Span<const int64_t> lengths, int64_t dp) {
  std::vector<int64_t> longest_first(lengths.size());
  std::iota(longest_first.begin(), longest_first.end(), int64_t{0});
  std::stable_sort(longest_first.begin(), longest_first.end(),
                   [&](int64_t a, int64_t b) { return lengths[a] > lengths[b]; });
  std::vector<double> cost(dp, 0);
  std::vector<std::vector<int64_t>> of_rank(dp);
  for (const int64_t example : longest_first) {
    const size_t rank = std::min_element(cost.begin(), cost.end()) - cost.begin();
    cost[rank] += Cost(lengths[example]);
    of_rank[rank].push_back(example);
  }
  return of_rank;
}

// Divides the examples of one rank into micro-batches, first fit. `examples`: indices in `lengths`,
// the longest first.
std::vector<std::vector<int64_t>> PackRank(const std::vector<int64_t>& examples,
                                           absl::Span<const int64_t> lengths, int64_t capacity) {
  std::vector<std::vector<int64_t>> micro_batches;
  std::vector<int64_t> room;  // free tokens in each; negative after an overlong example
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

// Examples that must be in the same micro-batch, and their number of tokens.
struct Unit {
  std::vector<int64_t> places;
  int64_t tokens = 0;
};

// Examples of one family, whose documents begin with the same `shared` tokens.
struct Family {
  std::vector<int64_t> places;
  int64_t shared = 0;
};

// The families of a step, in the order of their first examples.
std::vector<Family> FamiliesOf(const StepExamples& step) {
  std::vector<Family> families;
  std::map<int64_t, size_t> numbers;
  for (size_t place = 0; place < step.examples.size(); ++place) {
    const auto [found, is_new] =
        numbers.emplace(step.family(static_cast<int64_t>(place)), families.size());
    if (is_new) families.emplace_back();
    families[found->second].places.push_back(static_cast<int64_t>(place));
  }
  for (Family& family : families) {
    std::vector<const Document*> documents;
    for (const int64_t place : family.places) {
      const Example& example = *step.examples[place];
      for (int64_t d = 0; d < example.trained_documents(); ++d)
        documents.push_back(&example.documents[d]);
    }
    family.shared = SharedTokens(documents);
  }
  return families;
}

// Splits families into units of at most `capacity` tokens, or of one example.
std::vector<Unit> PartsOf(const StepExamples& step, const std::vector<Family>& families,
                          int64_t capacity) {
  std::vector<Unit> parts;
  for (const Family& family : families) {
    Unit part;
    for (const int64_t place : family.places) {
      const Example& example = *step.examples[place];
      const int64_t own = example.trained_tokens() - family.shared * example.trained_documents();
      if (!part.places.empty() && (family.shared == 0 || part.tokens + own > capacity))
        parts.push_back(std::exchange(part, {}));
      part.tokens += own + (part.places.empty() ? family.shared : 0);
      part.places.push_back(place);
    }
    parts.push_back(std::move(part));
  }
  return parts;
}

std::vector<int64_t> LengthsOf(const std::vector<Unit>& units) {
  std::vector<int64_t> lengths;
  for (const Unit& unit : units) lengths.push_back(unit.tokens);
  return lengths;
}

// The cost of the dp rank with the highest cost.
double GreatestCost(const std::vector<Unit>& units, int64_t dp) {
  const std::vector<int64_t> lengths = LengthsOf(units);
  double greatest = 0;
  for (const std::vector<int64_t>& of_rank : DealByCost(lengths, dp)) {
    double cost = 0;
    for (const int64_t unit : of_rank) cost += Cost(lengths[unit]);
    greatest = std::max(greatest, cost);
  }
  return greatest;
}

std::vector<Unit> UnitsOf(const StepExamples& step, const PackOptions& options) {
  if (!options.share_prefixes) {
    std::vector<Unit> units;
    for (size_t place = 0; place < step.examples.size(); ++place)
      units.push_back({{static_cast<int64_t>(place)}, step.examples[place]->trained_tokens()});
    return units;
  }
  const std::vector<Family> families = FamiliesOf(step);
  std::vector<Unit> whole = PartsOf(step, families, options.micro_batch_tokens);
  if (options.dp == 1) return whole;
  const std::vector<int64_t> lengths = LengthsOf(whole);
  const int64_t tokens = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
  std::vector<Unit> even =
      PartsOf(step, families, std::min(options.micro_batch_tokens, tokens / options.dp));
  return GreatestCost(even, options.dp) < GreatestCost(whole, options.dp) ? even : whole;
}

// Tokens [begin, end) of a document.
struct Piece {
  const Document* document;
  int64_t begin, end;
  int64_t identity;  // identity of token `begin`
  comm::Parent parent;

  int64_t size() const { return end - begin; }
};

void Fill(const std::vector<Piece>& pieces, MicroBatch& micro_batch) {
  comm::Sequence& sequence = micro_batch.sequence;
  bool shares = false;
  for (const Piece& each : pieces) {
    TORCH_CHECK(each.document->ids.size() == each.document->labels.size(), "a document of ",
                each.document->ids.size(), " ids and ", each.document->labels.size(), " labels");
    TORCH_CHECK(each.document->positions.empty() ||
                    each.document->positions.size() == each.document->ids.size(),
                "a document of ", each.document->ids.size(), " ids and ",
                each.document->positions.size(), " positions");
    sequence.lengths.push_back(each.size());
    shares |= each.parent.document >= 0;
  }
  if (shares) {
    for (const Piece& each : pieces) sequence.parents.push_back(each.parent);
  }
  const int64_t tokens =
      std::accumulate(sequence.lengths.begin(), sequence.lengths.end(), int64_t{0});
  for (at::Tensor* tensor :
       {&sequence.ids_T, &micro_batch.labels_T, &sequence.identity_T, &sequence.positions_T})
    *tensor = at::empty({tokens}, at::kLong);
  int64_t* ids = sequence.ids_T.data_ptr<int64_t>();
  int64_t* labels = micro_batch.labels_T.data_ptr<int64_t>();
  int64_t* identity = sequence.identity_T.data_ptr<int64_t>();
  int64_t* positions = sequence.positions_T.data_ptr<int64_t>();
  for (const Piece& each : pieces) {
    const auto copy = [&](const std::vector<int32_t>& from, int64_t* to) {
      return std::copy(from.begin() + each.begin, from.begin() + each.end, to);
    };
    ids = copy(each.document->ids, ids);
    labels = copy(each.document->labels, labels);
    std::iota(identity, identity + each.size(), each.identity);
    identity += each.size();
    if (each.document->positions.empty()) {
      std::iota(positions, positions + each.size(), each.begin);
    } else {
      copy(each.document->positions, positions);
    }
    positions += each.size();
  }
  sequence.targets_T = comm::ShiftLabels(micro_batch.labels_T, sequence.lengths);
}

}  // namespace

Packing PackStep(absl::Span<const int64_t> lengths, const PackOptions& options) {
  TORCH_CHECK(options.dp >= 1, "expected at least 1 data-parallel rank, got ", options.dp);
  TORCH_CHECK(options.micro_batch_tokens >= 1, "micro_batch_tokens must be at least 1, got ",
              options.micro_batch_tokens);
  for (size_t example = 0; example < lengths.size(); ++example) {
    TORCH_CHECK(lengths[example] >= 1, "example ", example, " of the step has ", lengths[example],
                " tokens, expected at least 1");
  }
  Packing packing;
  for (const std::vector<int64_t>& examples : DealByCost(lengths, options.dp))
    packing.push_back(PackRank(examples, lengths, options.micro_batch_tokens));
  return packing;
}

Packing PackExamples(const StepExamples& step, const PackOptions& options) {
  const std::vector<Unit> units = UnitsOf(step, options);
  Packing packing = PackStep(LengthsOf(units), options);
  for (std::vector<std::vector<int64_t>>& of_rank : packing) {
    for (std::vector<int64_t>& micro_batch : of_rank) {
      std::vector<int64_t> places;
      for (const int64_t unit : micro_batch)
        places.insert(places.end(), units[unit].places.begin(), units[unit].places.end());
      std::sort(places.begin(), places.end());
      micro_batch = std::move(places);
    }
    std::sort(of_rank.begin(), of_rank.end());
  }
  return packing;
}

Packing DealGroups(std::vector<std::vector<int64_t>> groups, absl::Span<const int64_t> lengths,
                   int64_t dp) {
  TORCH_CHECK(dp >= 1, "expected at least 1 data-parallel rank, got ", dp);
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

MicroBatch MakeMicroBatch(const StepExamples& step, std::vector<int64_t> places, Part part,
                          bool share_prefixes) {
  MicroBatch micro_batch{.places = std::move(places)};
  struct Given {
    const Document* document;
    int64_t identity, family;
  };
  std::vector<Given> documents;
  std::map<int64_t, std::vector<const Document*>> of_family;
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
    for (int64_t d = begin; d < end; ++d) {
      documents.push_back(
          {&example.documents[d], (index << 32) + example.first_identity(d), step.family(place)});
      of_family[step.family(place)].push_back(&example.documents[d]);
    }
  }
  std::map<int64_t, comm::Parent> prefixes;  // shared prefixes, by family
  std::vector<Piece> pieces;
  for (const auto& [document, identity, family] : documents) {
    if (share_prefixes && prefixes.find(family) == prefixes.end()) {
      const int64_t shared = SharedTokens(of_family[family]);
      const auto place = static_cast<int64_t>(pieces.size());
      prefixes[family] = shared > 0 ? comm::Parent{place, shared} : comm::Parent();
      if (shared > 0) pieces.push_back({document, 0, shared, identity, {}});
    }
    const comm::Parent prefix = share_prefixes ? prefixes[family] : comm::Parent();
    pieces.push_back({document, prefix.tokens, document->size(), identity + prefix.tokens, prefix});
  }
  Fill(pieces, micro_batch);
  return micro_batch;
}

}  // namespace moonring::data
