// Losses over the vocabulary compared with KL over whole logits by LibTorch's autograd, forward and
// backward: CPU time and memory. The reference is as wide as the policy.
//
//   bazel run //tests/objectives/vocabulary:vocabulary_benchmark -- [rows] [vocab] [hidden]
//
// Each case runs on one thread in a separate process (a fork), because the peak memory is that of a
// process.

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "objectives/log_prob.h"
#include "objectives/vocabulary/divergence.h"
#include "objectives/vocabulary/entropy.h"
#include "objectives/vocabulary/top_divergence.h"
#include "objectives/vocabulary/top_log_probs.h"
#include "objectives/vocabulary/z_loss.h"

namespace {

using moonring::base::Parameter;
using namespace moonring::objectives;

struct Problem {
  at::Tensor hidden, other, targets, weight, other_weight;
  std::shared_ptr<Parameter> head, other_head;
};
using Loss = std::function<at::Tensor(Problem&)>;

struct Measured {
  double seconds, mebibytes;
};

rusage Usage() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage;
}
double Peak() { return static_cast<double>(Usage().ru_maxrss) / 1024.0; }
double CpuSeconds() {
  const rusage usage = Usage();
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         1e-6 * static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

Measured Measure(int64_t rows, int64_t vocab, int64_t width, const Loss& loss) {
  at::manual_seed(1);
  Problem p;
  p.weight = at::randn({vocab, width}).mul_(0.05);
  p.other_weight = at::randn({vocab, width}).mul_(0.05);
  p.hidden = at::randn({rows, width}).requires_grad_();
  p.other = at::randn({rows, width});
  p.targets = at::randint(vocab, {rows}, at::kLong);
  p.head = std::make_shared<Parameter>("head", p.weight.clone());
  p.other_head = std::make_shared<Parameter>("other", p.other_weight, /*trainable=*/false);
  p.weight.requires_grad_();
  const double before = Peak();
  double best = 1e9;
  for (int run = 0; run < 3; ++run) {
    p.head->ClearGradient();
    p.weight.mutable_grad().reset();
    p.hidden.mutable_grad().reset();
    const double start = CpuSeconds();
    const at::Tensor values = loss(p);
    if (values.requires_grad()) values.sum().backward();
    best = std::min(best, CpuSeconds() - start);
  }
  return {best, Peak() - before};
}

Measured InChild(const std::function<Measured()>& measure) {
  int ends[2];
  if (pipe(ends) != 0) std::exit(1);
  const pid_t child = fork();
  if (child == 0) {
    at::set_num_threads(1);
    const Measured measured = measure();
    _exit(write(ends[1], &measured, sizeof(measured)) == sizeof(measured) ? 0 : 1);
  }
  Measured measured{};
  if (read(ends[0], &measured, sizeof(measured)) != sizeof(measured)) std::exit(1);
  waitpid(child, nullptr, 0);
  return measured;
}

Loss Against(DivergenceKind kind) {
  return [kind](Problem& p) {
    return TokenDivergence(p.hidden, p.head, p.targets, ReferenceHead{p.other, p.other_head, {}},
                           {.kind = kind});
  };
}

at::Tensor PlainKl(Problem& p) {
  const at::Tensor log_p = at::log_softmax(p.hidden.matmul(p.weight.t()), 1),
                   log_q = at::log_softmax(p.other.matmul(p.other_weight.t()), 1);
  return (log_q.exp() * (log_q - log_p)).sum(1);
}

at::Tensor AgainstTop(Problem& p) {
  static const TopLogProbs top = TokenTopLogProbs(p.other, *p.other_head, p.targets, 64);
  return TokenDivergence(p.hidden, p.head, p.targets,
                         ReferenceTop{top.ids_TK, top.log_probs_TK, Rest::kBucket}, {});
}

}  // namespace

int main(int argc, char** argv) {
  const auto argument = [&](int index, int64_t otherwise) {
    return argc > index ? std::stoll(argv[index]) : otherwise;
  };
  const int64_t rows = argument(1, 2048), vocab = argument(2, 49152), width = argument(3, 576);
  std::printf("%ld rows, vocabulary %ld, hidden %ld, fp32: %.0f MiB of logits\n",
              static_cast<long>(rows), static_cast<long>(vocab), static_cast<long>(width),
              static_cast<double>(rows * vocab * 4) / (1 << 20));
  const std::pair<const char*, Loss> losses[] = {
      {"plain forward KL", PlainKl},
      {"log_prob", [](Problem& p) { return TokenLogProb(p.hidden, p.head, p.targets); }},
      {"forward", Against(DivergenceKind::kForward)},
      {"reverse", Against(DivergenceKind::kReverse)},
      {"js", Against(DivergenceKind::kJs)},
      {"forward, top 64", AgainstTop},
      {"entropy", [](Problem& p) { return TokenEntropy(p.hidden, p.head, p.targets); }},
      {"z_loss", [](Problem& p) { return TokenZLoss(p.hidden, p.head, p.targets); }},
      {"top_log_probs 64, forward alone", [](Problem& p) {
         return TokenTopLogProbs(p.other, *p.other_head, p.targets, 64).log_probs_TK;
       }}};
  for (const auto& [name, loss] : losses) {
    const Measured measured = InChild([&] { return Measure(rows, vocab, width, loss); });
    std::printf("%-32s %.2f s  %5.0f MiB\n", name, measured.seconds, measured.mebibytes);
  }
  return 0;
}
