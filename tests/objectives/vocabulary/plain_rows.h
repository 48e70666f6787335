#ifndef MOONRING_TESTS_OBJECTIVES_VOCABULARY_PLAIN_ROWS_H_
#define MOONRING_TESTS_OBJECTIVES_VOCABULARY_PLAIN_ROWS_H_

// A loss of each row of logits, computed with LibTorch's autograd over the whole [tokens,
// vocabulary] matrix: the reference for losses that are computed in chunks.

#include <cstdint>
#include <functional>
#include <memory>

#include <ATen/core/Tensor.h>

#include "base/autograd/parameter.h"
#include "objectives/vocabulary/head_projection.h"

namespace moonring::objectives::testing {

struct Case {
  int64_t tokens = 37, hidden = 12, vocab = 29;
  double scale = 1.0, softcap = 0.0;
  bool bias = false;
  int64_t chunk_rows = 1000;  // chunk_bytes is the size of this many rows
  double ignored = 0.4;       // share of rows without a target
  at::ScalarType dtype = at::kDouble;
  int64_t seed = 7;
  double size = 1.0;  // scale of the head's numbers
};

struct Inputs {
  at::Tensor hidden, weight, bias, targets, upstream;  // upstream: gradient of each loss
};
Inputs MakeInputs(const Case& c);
Inputs InFp64(Inputs in);

struct Result {
  at::Tensor values, hidden_gradient, weight_gradient, bias_gradient;
};

ProjectionOptions OptionsOf(const Case& c);  // without the bias

// Returns the logits of every row.
at::Tensor PlainLogits(const Case& c, const at::Tensor& hidden, const at::Tensor& weight,
                       const at::Tensor& bias);

// Computes the reference. `of_rows` maps logits [tokens, vocab] to losses [tokens]. The loss of a
// token without a target is 0.
Result Plain(const Case& c, const Inputs& in,
             const std::function<at::Tensor(const at::Tensor& z)>& of_rows);

// A function under test, which computes the losses [tokens] in chunks.
using Call =
    std::function<at::Tensor(const at::Tensor& hidden, const std::shared_ptr<base::Parameter>& head,
                             const ProjectionOptions& options)>;
Result Ours(const Case& c, const Inputs& in, const Call& call, ProjectionOptions options);

double Distance(const at::Tensor& a, const at::Tensor& b);  // ||a - b|| / ||b||
void ExpectClose(const Result& ours, const Result& wanted, double bound);

// Expects that `call` throws a ValueError with these words.
void ExpectRefused(const std::function<void()>& call, const std::string& words);

}  // namespace moonring::objectives::testing

#endif  // MOONRING_TESTS_OBJECTIVES_VOCABULARY_PLAIN_ROWS_H_
