#include "tests/objectives/vocabulary/plain_rows.h"

#include <algorithm>
#include <string>

#include <ATen/ATen.h>

#include "comm/sequence.h"
#include "gtest/gtest.h"

namespace moonring::objectives::testing {

Inputs MakeInputs(const Case& c) {
  auto generator = at::detail::createCPUGenerator(c.seed);
  const auto normal = [&](at::IntArrayRef sizes) {
    return at::randn(sizes, generator, at::kDouble).to(c.dtype);
  };
  Inputs in{normal({c.tokens, c.hidden}), normal({c.vocab, c.hidden}).mul_(c.size),
            normal({c.vocab}), at::randint(0, c.vocab, {c.tokens}, generator, at::kLong),
            normal({c.tokens})};
  in.targets.masked_fill_(at::rand({c.tokens}, generator, at::kDouble).lt(c.ignored),
                          comm::kIgnore);
  return in;
}

Inputs InFp64(Inputs in) {
  for (at::Tensor* t : {&in.hidden, &in.weight, &in.bias, &in.upstream}) *t = t->to(at::kDouble);
  return in;
}

ProjectionOptions OptionsOf(const Case& c) {
  ProjectionOptions options;
  options.head.scale = c.scale;
  options.head.softcap = c.softcap;
  options.chunk_bytes = c.chunk_rows * c.vocab * static_cast<int64_t>(c10::elementSize(c.dtype));
  return options;
}

at::Tensor PlainLogits(const Case& c, const at::Tensor& hidden, const at::Tensor& weight,
                       const at::Tensor& bias) {
  at::Tensor logits = hidden.matmul(weight.t());
  if (c.bias) logits = logits + bias;
  logits = logits * c.scale;
  return c.softcap == 0.0 ? logits : (logits / c.softcap).tanh() * c.softcap;
}

Result Plain(const Case& c, const Inputs& in,
             const std::function<at::Tensor(const at::Tensor& z)>& of_rows) {
  at::Tensor hidden = in.hidden.clone().requires_grad_(),
             weight = in.weight.clone().requires_grad_(), bias = in.bias.clone().requires_grad_();
  const at::Tensor all = of_rows(PlainLogits(c, hidden, weight, bias));
  const at::Tensor values = at::where(in.targets.ne(comm::kIgnore), all, at::zeros_like(all));
  (values * in.upstream).sum().backward();
  return {values.detach(), hidden.grad(), weight.grad(), c.bias ? bias.grad() : at::Tensor()};
}

Result Ours(const Case& c, const Inputs& in, const Call& call, ProjectionOptions options) {
  const auto head = std::make_shared<base::Parameter>("lm_head.weight", in.weight.clone());
  if (c.bias)
    options.head.bias_V = std::make_shared<base::Parameter>("lm_head.bias", in.bias.clone());
  at::Tensor hidden = in.hidden.clone().requires_grad_();
  const at::Tensor values = call(hidden, head, options);
  (values * in.upstream).sum().backward();
  return {values.detach(), hidden.grad(), head->gradient(),
          c.bias ? options.head.bias_V->gradient() : at::Tensor()};
}

double Distance(const at::Tensor& a, const at::Tensor& b) {
  return (a.to(at::kDouble) - b.to(at::kDouble)).norm().item<double>() /
         std::max(1e-300, b.to(at::kDouble).norm().item<double>());
}

void ExpectClose(const Result& ours, const Result& wanted, double bound) {
  EXPECT_LE(Distance(ours.values, wanted.values), bound);
  EXPECT_LE(Distance(ours.hidden_gradient, wanted.hidden_gradient), bound);
  EXPECT_LE(Distance(ours.weight_gradient, wanted.weight_gradient), bound);
  if (wanted.bias_gradient.defined()) {
    EXPECT_LE(Distance(ours.bias_gradient, wanted.bias_gradient), bound);
  }
}

void ExpectRefused(const std::function<void()>& call, const std::string& words) {
  try {
    call();
    FAIL() << "nothing was thrown; expected: " << words;
  } catch (const c10::ValueError& error) {
    EXPECT_NE(std::string(error.what_without_backtrace()).find(words), std::string::npos)
        << error.what_without_backtrace();
  }
}

}  // namespace moonring::objectives::testing
