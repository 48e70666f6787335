// TokenLogProb compared with linear + log-softmax + gather by LibTorch's autograd, forward and
// backward: CPU time and memory. Also the additional cost of label smoothing and of the statistics.
//
//   bazel run //tests/objectives:log_prob_benchmark -- [rows] [vocab] [hidden] [fp32|bf16]
//       [threads]
//
// Each case runs in a separate process (a fork), because the peak memory is that of a process.

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "objectives/log_prob.h"

namespace {

using moonring::base::Parameter;

struct Shape {
  int64_t rows, vocab, hidden;
  bool bf16;
};

// The results that TokenLogProb computes in addition to the log-probs.
struct Extra {
  const char* name;
  double label_smoothing;
  moonring::objectives::Statistics statistics;
};

struct Measured {
  double seconds, mebibytes;
};

double PeakMebibytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024.0;
}

// Returns the CPU time of the process on all its threads, which, unlike wall time, excludes other
// processes.
double CpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         1e-6 * static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

Measured InChild(int threads, const std::function<Measured()>& measure) {
  int ends[2];
  if (pipe(ends) != 0) std::exit(1);
  const pid_t child = fork();
  if (child == 0) {
    at::set_num_threads(threads);
    const Measured measured = measure();
    const bool written = write(ends[1], &measured, sizeof(measured)) == sizeof(measured);
    _exit(written ? 0 : 1);
  }
  Measured measured{};
  if (read(ends[0], &measured, sizeof(measured)) != sizeof(measured)) std::exit(1);
  waitpid(child, nullptr, 0);
  return measured;
}

Measured Measure(const Shape& shape, bool ours, int64_t chunk_bytes, const Extra& extra = {}) {
  at::manual_seed(1);
  const at::Tensor weight = at::randn({shape.vocab, shape.hidden}).mul_(0.05);
  at::Tensor hidden = at::randn({shape.rows, shape.hidden}).requires_grad_();
  const at::Tensor targets = at::randint(shape.vocab, {shape.rows}, at::kLong);
  auto head = std::make_shared<Parameter>("head", weight);
  at::Tensor plain_weight = weight.clone().requires_grad_();
  const double before = PeakMebibytes();
  double best = 1e9;
  for (int run = 0; run < 4; ++run) {
    head->ClearGradient();
    plain_weight.mutable_grad().reset();
    hidden.mutable_grad().reset();
    const double start = CpuSeconds();
    if (ours) {
      moonring::objectives::LogProbOptions options{
          .label_smoothing = extra.label_smoothing,
          .matmul_dtype = shape.bf16 ? at::kBFloat16 : at::kFloat,
          .chunk_bytes = chunk_bytes};
      moonring::objectives::TokenLogProb(hidden, head, targets, options, extra.statistics)
          .log_prob_T.sum()
          .backward();
    } else {
      const at::ScalarType dtype = shape.bf16 ? at::kBFloat16 : at::kFloat;
      const at::Tensor logits = hidden.to(dtype).matmul(plain_weight.to(dtype).t()).to(at::kFloat);
      at::log_softmax(logits, 1).gather(1, targets.unsqueeze(1)).sum().backward();
    }
    best = std::min(best, CpuSeconds() - start);
  }
  return {best, PeakMebibytes() - before};
}

}  // namespace

int main(int argc, char** argv) {
  const auto argument = [&](int index, const char* otherwise) {
    return std::string(argc > index ? argv[index] : otherwise);
  };
  const Shape shape{std::stoll(argument(1, "2048")), std::stoll(argument(2, "49152")),
                    std::stoll(argument(3, "576")), argument(4, "fp32") == "bf16"};
  const int threads = std::stoi(argument(5, "1"));
  const Measured plain = InChild(threads, [&] { return Measure(shape, false, 0); });
  std::printf("%ld rows, vocabulary %ld, hidden %ld, %s, %d threads\n",
              static_cast<long>(shape.rows), static_cast<long>(shape.vocab),
              static_cast<long>(shape.hidden), shape.bf16 ? "bf16" : "fp32", threads);
  std::printf("plain                  %.3f s  %.0f MiB\n", plain.seconds, plain.mebibytes);
  for (const int64_t mebibytes : {16, 32, 64, 128}) {
    const Measured ours = InChild(threads, [&] { return Measure(shape, true, mebibytes << 20); });
    std::printf("chunks of %4ld MiB     %.3f s  %.0f MiB   time x %.2f  memory x %.2f\n",
                static_cast<long>(mebibytes), ours.seconds, ours.mebibytes,
                ours.seconds / plain.seconds, ours.mebibytes / plain.mebibytes);
  }
  double alone = 0.0;
  for (const Extra& extra :
       {Extra{"no extra", 0.0, {}}, Extra{"label_smoothing", 0.1, {}},
        Extra{"mean_logit", 0.0, {.mean_logit = true}}, Extra{"greedy", 0.0, {.greedy = true}},
        Extra{"top_entropy", 0.0, {.top_entropy = true}},
        Extra{"entropy", 0.0, {.entropy = true}}}) {
    const Measured ours =
        InChild(threads, [&] { return Measure(shape, true, int64_t{64} << 20, extra); });
    if (alone == 0.0) alone = ours.seconds;
    std::printf("%-20s   %.3f s  time x %.2f\n", extra.name, ours.seconds, ours.seconds / alone);
  }
  return 0;
}
