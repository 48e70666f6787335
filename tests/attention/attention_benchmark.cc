// Attention beside one stock call a document, on one rank; and every strategy on ranks that are threads of this process.
//
//   bazel run //tests/attention:attention_benchmark
//
// `ratio` is our time over that of LibTorch's kernel called once for each document with all heads, on the same number of
// threads; forward and backward each. `bytes` are those that rank 0 sends for one forward and backward, `of_formula` the
// same over the textbook formula for one document (ring: 2Nk(P-1)/P forward, that and 2Nk(P-1)/P 4/e backward; Ulysses:
// (P-1)/P^2 (2N + 2Nk) each way).

#include <algorithm>
#include <cmath>
#include <ctime>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <torch/csrc/autograd/autograd.h>

#include "attention/strategies.h"
#include "attention/tile_plan.h"
#include "benchmark/benchmark.h"
#include "comm/layout.h"
#include "comm/process_groups.h"
#include "tests/testing/run_ranks.h"

namespace moonring::attention {
namespace {

// Of the wall; of this thread's own work where it is the only one, so that a busy machine does not matter.
double Now() {
  timespec now;
  clock_gettime(at::get_num_threads() == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double SecondsOf(const std::function<void()>& body) {
  const double start = Now();
  body();
  return Now() - start;
}

struct Rows {
  at::Tensor q, k, v, dout;
};

Rows RandomRows(int64_t tokens, int64_t heads, int64_t kv_heads, int64_t head_dim, at::ScalarType type) {
  const auto random = [&](int64_t of) { return at::randn({tokens, of, head_dim}).to(type); };
  return {random(heads), random(kv_heads), random(kv_heads), random(heads)};
}

struct Seconds {
  double forward = 0, backward = 0;
};

Seconds Stock(const Rows& rows, const std::vector<int64_t>& lengths, double scale) {
  Seconds seconds;
  int64_t offset = 0;
  for (const int64_t length : lengths) {
    const auto batch = [&](const at::Tensor& stream) { return stream.narrow(0, offset, length).transpose(0, 1).unsqueeze(0); };
    const at::Tensor q = batch(rows.q), k = batch(rows.k), v = batch(rows.v), dout = batch(rows.dout);
    std::tuple<at::Tensor, at::Tensor> result;
    seconds.forward += SecondsOf([&] { result = at::_scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, true, {}, scale); });
    seconds.backward += SecondsOf(
        [&] { at::_scaled_dot_product_flash_attention_for_cpu_backward(dout, q, k, v, std::get<0>(result), std::get<1>(result), 0.0, true, {}, scale); });
    offset += length;
  }
  return seconds;
}

Seconds Ours(PlannedAttention& plan, const Rows& rows, double scale) {
  const auto leaf = [](const at::Tensor& stream) { return stream.detach().requires_grad_(); };
  const at::Tensor q = leaf(rows.q), k = leaf(rows.k), v = leaf(rows.v);
  at::Tensor out;
  Seconds seconds;
  seconds.forward = SecondsOf([&] { out = plan.Forward(q, k, v, scale); });
  seconds.backward = SecondsOf([&] { torch::autograd::grad({out}, {q, k, v}, {rows.dout}); });
  return seconds;
}

// The two take turns, and the best of each counts: other work on the machine falls on both alike.
void DenseBesideStock(benchmark::State& state, const std::vector<int64_t>& lengths, int64_t heads, int64_t kv_heads, int64_t head_dim, at::ScalarType type) {
  const int64_t tokens = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
  const Rows rows = RandomRows(tokens, heads, kv_heads, head_dim, type);
  const double scale = 1.0 / std::sqrt(static_cast<double>(head_dim));
  const auto layout = *comm::Layout::Create(lengths, 1, comm::Ownership::kContiguous);
  const auto plan = *(*CreateAttention({"dense", comm::Communicator::Alone()}))->Plan(layout);
  Seconds ours{1e9, 1e9}, stock{1e9, 1e9};
  const auto keep = [](Seconds& best, const Seconds& now) { best = {std::min(best.forward, now.forward), std::min(best.backward, now.backward)}; };
  for (auto _ : state) {
    const Seconds now = Ours(*plan, rows, scale);
    keep(ours, now);
    keep(stock, Stock(rows, lengths, scale));
    state.SetIterationTime(std::max(1e-9, now.forward + now.backward));
  }
  state.counters["threads"] = at::get_num_threads();
  state.counters["forward_ms"] = ours.forward * 1e3;
  state.counters["backward_ms"] = ours.backward * 1e3;
  state.counters["ratio_forward"] = ours.forward / stock.forward;
  state.counters["ratio_backward"] = ours.backward / stock.backward;
}

// One forward and backward a rank, as time of the slowest.
void OnRanks(benchmark::State& state, const std::string& strategy, int ranks, const std::vector<int64_t>& lengths) {
  constexpr int64_t kHeads = 8, kKvHeads = 4, kHeadDim = 64;
  const int64_t tokens = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
  const Rows rows = RandomRows(tokens, kHeads, kKvHeads, kHeadDim, at::kBFloat16);
  int64_t bytes = 0;
  for (auto _ : state) {
    std::vector<double> seconds(ranks);
    testing::RunRanks(ranks, [&](std::shared_ptr<comm::World> world) {
      at::set_num_threads(1);
      const auto attention = *CreateAttention({strategy, world->communicator()});
      const auto layout = *comm::Layout::Create(lengths, ranks, attention->ownership(), CausalTileArea);
      const auto plan = *attention->Plan(layout);
      const int rank = world->rank();
      const Rows local{layout->Cut(rows.q, rank), layout->Cut(rows.k, rank), layout->Cut(rows.v, rank), layout->Cut(rows.dout, rank)};
      Ours(*plan, local, 0.125);  // warm
      const int64_t before = world->communicator()->counters().bytes_sent;
      const Seconds now = Ours(*plan, local, 0.125);
      seconds[rank] = now.forward + now.backward;
      if (rank == 0) bytes = world->communicator()->counters().bytes_sent - before;
    });
    state.SetIterationTime(*std::max_element(seconds.begin(), seconds.end()));
  }
  const double n = 2.0 * static_cast<double>(tokens * kHeads * kHeadDim), nk = 2.0 * static_cast<double>(tokens * kKvHeads * kHeadDim), p = ranks;
  const double formula = strategy == "ulysses" ? 2 * (p - 1) / (p * p) * (2 * n + 2 * nk) : (p - 1) / p * 2 * nk * (1 + 1 + 2);
  state.counters["bytes"] = static_cast<double>(bytes);
  state.counters["of_formula"] = static_cast<double>(bytes) / formula;
}

void RegisterAll() {
  const auto add = [](const std::string& name, auto body) { benchmark::RegisterBenchmark(name.c_str(), body)->UseManualTime()->Unit(benchmark::kMillisecond); };
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const std::string dtype = type == at::kFloat ? "fp32" : "bf16";
    for (const int64_t tokens : {128, 512, 2048, 4096, 8192}) {
      const std::string length = "/" + std::to_string(tokens) + "/" + dtype;
      add("dense/9-3x64" + length, [=](benchmark::State& state) { DenseBesideStock(state, {tokens}, 9, 3, 64, type); });
      add("dense/8-2x128" + length, [=](benchmark::State& state) { DenseBesideStock(state, {tokens}, 8, 2, 128, type); });
    }
    add("dense/9-3x64/packed/" + dtype, [=](benchmark::State& state) { DenseBesideStock(state, {700, 64, 1000, 30, 1, 253}, 9, 3, 64, type); });
    add("dense/1-1x64/2048/" + dtype, [=](benchmark::State& state) { DenseBesideStock(state, {2048}, 1, 1, 64, type); });
  }
  for (const std::string strategy : {"ulysses", "ring", "zigzag-ring"}) {
    for (const int ranks : {2, 4}) {
      add(strategy + "/" + std::to_string(ranks) + "/4096", [=](benchmark::State& state) { OnRanks(state, strategy, ranks, {4096}); });
      add(strategy + "/" + std::to_string(ranks) + "/packed", [=](benchmark::State& state) { OnRanks(state, strategy, ranks, {700, 64, 2000, 30, 1, 253}); });
    }
  }
}

}  // namespace
}  // namespace moonring::attention

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  moonring::attention::RegisterAll();
  benchmark::RunSpecifiedBenchmarks();
}
