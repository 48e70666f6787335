#include "tests/attention/kernel_benchmark.h"

#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <torch/csrc/autograd/autograd.h>

#include "absl/strings/str_cat.h"
#include "attention/kernels/cpu_block_attention.h"
#include "attention/kernels/tile_plan.h"
#include "attention/strategy/strategies.h"
#include "tests/attention/problem.h"
#include "tests/attention/turns.h"

namespace moonring::attention {
namespace {

using testing::Real;
using testing::ResultTable;
using testing::Seconds;
using testing::SecondsOf;
using testing::TakeTurns;
using testing::Text;
using testing::Whole;

Seconds Ours(PlannedAttention& plan, const Problem& problem) {
  const auto leaf = [](const at::Tensor& stream) { return stream.detach().requires_grad_(); };
  const at::Tensor q = leaf(problem.q), k = leaf(problem.k), v = leaf(problem.v);
  at::Tensor out;
  Seconds seconds;
  seconds.forward = SecondsOf([&] { out = plan.Forward(q, k, v, problem.rule(), nullptr); });
  seconds.backward = SecondsOf([&] { torch::autograd::grad({out}, {q, k, v}, {problem.dout}); });
  return seconds;
}

Seconds Stock(const Problem& problem) {
  Seconds seconds{0, 0};
  int64_t offset = 0;
  for (const int64_t length : problem.lengths) {
    const auto batch = [&](const at::Tensor& stream) {
      return stream.narrow(0, offset, length).transpose(0, 1).unsqueeze(0);
    };
    const at::Tensor q = batch(problem.q), k = batch(problem.k), v = batch(problem.v),
                     dout = batch(problem.dout);
    std::tuple<at::Tensor, at::Tensor> result;
    seconds.forward += SecondsOf([&] {
      result =
          at::_scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, true, {}, problem.scale());
    });
    seconds.backward += SecondsOf([&] {
      at::_scaled_dot_product_flash_attention_for_cpu_backward(
          dout, q, k, v, std::get<0>(result), std::get<1>(result), 0.0, true, {}, problem.scale());
    });
    offset += length;
  }
  return seconds;
}

std::unique_ptr<PlannedAttention> PlanDense(const std::vector<int64_t>& lengths) {
  const auto dense = *CreateAttention({{.name = "dense"}, comm::Communicator::Alone()});
  return *dense->Plan(MakeLayout(*dense, lengths));
}

std::string NameOf(at::ScalarType type) { return type == at::kFloat ? "fp32" : "bf16"; }

class Roofline {
 public:
  Roofline(const std::string& filter, bool quick)
      : turns_seconds_(quick ? 0.15 : 0.5),
        table_("roofline", filter,
               "1. Roofline, fp32, D = 64: GFLOP/s of matmul at attention's shapes (8 heads of 512 "
               "x 512 scores) and of one large square; of a block\n"
               "as strategies call it (2 query heads of one kv head; 4 M N H D flops forward, 10 "
               "backward, half if causal); of a dense layer, one\n"
               "document, 8/4 heads, by its tile area; of one with a softcap, whose tanh is not "
               "counted. Ratios to the better matmul at attention's shapes and\n"
               "to the square, on as many threads.",
               {{"what", "what", -36},
                {"threads", "threads", 7},
                {"GFLOP/s", "gflops", 9},
                {"of shapes", "ratio_shapes", 9},
                {"of square", "ratio_square", 9}}) {}

  // Measures all lines, or none if the filter excludes the table: ratios refer to the first lines.
  ResultTable Run() && {
    if (!table_.Wants({})) return std::move(table_);
    const int machine_threads = at::get_num_threads();
    OnThreads(1);
    if (machine_threads > 1) OnThreads(machine_threads);
    return std::move(table_);
  }

 private:
  void OnThreads(int threads) {
    at::set_num_threads(threads);
    threads_ = threads;
    Matmuls();
    if (threads == 1) {  // a thread always computes whole blocks
      Block("block 512 x 512", 512, 512, TileKind::kFull);
      Block("block 512 x 512 causal", 512, 512, TileKind::kCausal);
      Block("block 64 x 4096", 64, 4096, TileKind::kFull);
    }
    for (const double softcap : {0.0, 50.0}) Layer(4096, softcap);
  }

  double Best(const std::function<void()>& body) const {
    double best = std::numeric_limits<double>::infinity();
    TakeTurns(turns_seconds_, [&] { best = std::min(best, SecondsOf(body)); });
    return best;
  }

  void Add(const std::string& what, double flops, double seconds) {
    const double rate = flops / seconds / 1e9;
    table_.Add({Text(what), Whole(threads_), Real(rate, 1), Real(rate / shapes_, 2),
                Real(rate / square_, 2)});
  }

  void Matmuls() {
    const at::Tensor q = at::randn({8, 512, 64}), k = at::randn({8, 64, 512}),
                     p = at::randn({8, 512, 512}), v = at::randn({8, 512, 64});
    const at::Tensor a = at::randn({2048, 2048}), b = at::randn({2048, 2048});
    at::Tensor scores = at::empty({8, 512, 512}), out = at::empty({8, 512, 64}),
               c = at::empty({2048, 2048});
    const double of_shape = 2.0 * 8 * 512 * 512 * 64, of_square = 2.0 * 2048 * 2048 * 2048;
    const double qk = Best([&] { at::bmm_out(scores, q, k); }),
                 pv = Best([&] { at::bmm_out(out, p, v); }),
                 large = Best([&] { at::mm_out(c, a, b); });
    shapes_ = of_shape / std::min(qk, pv) / 1e9;
    square_ = of_square / large / 1e9;
    Add("matmul 8 x [512,64] x [64,512]", of_shape, qk);
    Add("matmul 8 x [512,512] x [512,64]", of_shape, pv);
    Add("matmul [2048,2048] x [2048,2048]", of_square, large);
  }

  void Block(const std::string& what, int64_t m, int64_t n, TileKind kind) {
    const CpuBlockAttention block;
    const Tile tile{at::randn({m, 2, 64}), at::randn({n, 1, 64}), at::randn({n, 1, 64}), kind,
                    0.125};
    const at::Tensor dout = at::randn({m, 2, 64});
    const PartialAttention part = block.Forward(tile);
    const double flops =
        static_cast<double>(m * n * 2 * 64) * (kind == TileKind::kFull ? 1.0 : 0.5);
    Add(what + " forward", 4 * flops, Best([&] { block.Forward(tile); }));
    Add(what + " backward", 10 * flops,
        Best([&] { block.Backward(tile, dout, part.out_MHD, part.lse_MH); }));
  }

  void Layer(int64_t tokens, double softcap) {
    const Problem problem = RandomProblem({tokens}, {8, 4, 64}, at::kFloat, /*window=*/0, softcap);
    const auto plan = PlanDense(problem.lengths);
    Seconds best;
    TakeTurns(2 * turns_seconds_, [&] { best.KeepLeast(Ours(*plan, problem)); });
    const double flops = CausalTileArea(0, 0, tokens) * 8 * 64;
    const std::string what =
        absl::StrCat("dense layer of ", tokens, softcap > 0 ? ", softcap" : "");
    Add(what + " forward", 4 * flops, best.forward);
    Add(what + " backward", 10 * flops, best.backward);
  }

  double turns_seconds_;
  int threads_ = 1;
  double shapes_ = 0, square_ = 0;  // GFLOP/s
  ResultTable table_;
};

// Compares dense attention with LibTorch's operator. They run alternately and the best time of each
// counts, so that other work on the machine affects both equally.
void DenseBesideStock(ResultTable& table, const std::string& documents,
                      const std::vector<int64_t>& lengths, const Heads& heads, at::ScalarType type,
                      int threads, double turns_seconds) {
  const std::string shape = absl::StrCat(heads.heads, "/", heads.kv_heads, "x", heads.head_dim);
  if (!table.Wants({documents, shape, NameOf(type), absl::StrCat(threads)})) return;
  at::set_num_threads(threads);
  const Problem problem = RandomProblem(lengths, heads, type);
  const auto plan = PlanDense(lengths);
  Seconds ours, stock;
  TakeTurns(turns_seconds, [&] {
    ours.KeepLeast(Ours(*plan, problem));
    stock.KeepLeast(Stock(problem));
  });
  table.Add({Text(documents), Text(shape), Text(NameOf(type)), Whole(threads),
             Real(ours.forward * 1e3, 2), Real(stock.forward * 1e3, 2),
             Real(ours.forward / stock.forward, 2), Real(ours.backward * 1e3, 2),
             Real(stock.backward * 1e3, 2), Real(ours.backward / stock.backward, 2)});
}

}  // namespace

ResultTable MeasureRoofline(const std::string& filter, bool quick) {
  return Roofline(filter, quick).Run();
}

ResultTable MeasureDense(const std::string& filter, bool quick) {
  ResultTable table("dense", filter,
                    "2. Dense attention beside LibTorch's CPU flash operator, called once a "
                    "document with all heads, on as many threads.\n"
                    "ms, of the wall; with one thread of its CPU. ratio: ours over the operator's.",
                    {{"tokens", "tokens", -7},
                     {"heads", "heads", -7},
                     {"type", "type", -4},
                     {"threads", "threads", 7},
                     {"forward", "forward_ms", 8},
                     {"stock", "stock_forward_ms", 8},
                     {"ratio", "ratio_forward", 5},
                     {"backward", "backward_ms", 8},
                     {"stock", "stock_backward_ms", 8},
                     {"ratio", "ratio_backward", 5}});
  const int machine_threads = at::get_num_threads();
  const double seconds = quick ? 0.3 : 0.8;
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    for (const int threads : {1, 2}) {
      DenseBesideStock(table, "4096", {4096}, {9, 3, 64}, type, threads, 2 * seconds);
      for (const int64_t tokens : {2048, 4096})
        DenseBesideStock(table, absl::StrCat(tokens), {tokens}, {1, 1, 64}, type, threads, seconds);
    }
    DenseBesideStock(table, "packed", {700, 64, 1000, 30, 1, 253}, {9, 3, 64}, type,
                     machine_threads, seconds);
    if (quick) continue;
    for (const int64_t tokens : {128, 512, 2048, 8192}) {
      DenseBesideStock(table, absl::StrCat(tokens), {tokens}, {9, 3, 64}, type, machine_threads,
                       seconds);
      if (tokens < 8192)
        DenseBesideStock(table, absl::StrCat(tokens), {tokens}, {8, 2, 128}, type, machine_threads,
                         seconds);
    }
  }
  at::set_num_threads(machine_threads);
  return table;
}

}  // namespace moonring::attention
