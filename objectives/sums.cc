#include "objectives/sums.h"

#include <ATen/ATen.h>

#include "comm/status_macros.h"

namespace moonring::objectives {
namespace {

const char* NameOf(Kind kind) { return kind == Kind::kSharded ? "sharded" : "replicated"; }

}  // namespace

Metrics::Metrics(const std::vector<Declared>& declared) {
  for (const Declared& metric : declared) {
    const bool is_new = entries_.emplace(metric.name, Entry{metric.kind, {}}).second;
    TORCH_CHECK(is_new, "objectives.metrics: ", metric.name, " is declared twice");
  }
}

void Metrics::Add(const std::string& name, Kind kind, double sum, int64_t count) {
  const auto entry = entries_.find(name);
  TORCH_CHECK(entry != entries_.end(), "objectives.metrics: ", name, " was not declared");
  TORCH_CHECK(entry->second.kind == kind, "objectives.metrics: ", name, " is declared ", NameOf(entry->second.kind), ", a ", NameOf(kind), " sum came");
  entry->second.total.sum += sum;
  entry->second.total.count += count;
}

void Metrics::Add(const Metrics& other) {
  for (const auto& [name, entry] : other.entries_) Add(name, entry.kind, entry.total.sum, entry.total.count);
}

const Metrics::Total& Metrics::at(const std::string& name) const {
  const auto entry = entries_.find(name);
  TORCH_CHECK(entry != entries_.end(), "objectives.metrics: ", name, " was not declared");
  return entry->second.total;
}

absl::StatusOr<std::map<std::string, Metrics::Total>> Metrics::Reduce(comm::Communicator& world, comm::Communicator& dp) const {
  std::map<std::string, Total> result;
  for (const Kind kind : {Kind::kSharded, Kind::kReplicated}) {
    std::vector<std::string> names;
    std::vector<double> sums;
    std::vector<int64_t> counts;
    for (const auto& [name, entry] : entries_) {
      if (entry.kind != kind) continue;
      names.push_back(name);
      sums.push_back(entry.total.sum);
      counts.push_back(entry.total.count);
    }
    if (names.empty()) continue;
    comm::Communicator& group = kind == Kind::kSharded ? world : dp;
    at::Tensor all_sums = at::tensor(sums, at::kDouble), all_counts = at::tensor(counts, at::kLong);
    RETURN_IF_ERROR(group.AllReduceSum(all_sums), "objectives.metrics: sums");
    RETURN_IF_ERROR(group.AllReduceSum(all_counts), "objectives.metrics: counts");
    for (size_t i = 0; i < names.size(); ++i) {
      result[names[i]] = Total{all_sums.data_ptr<double>()[i], all_counts.data_ptr<int64_t>()[i]};
    }
  }
  return result;
}

}  // namespace moonring::objectives
