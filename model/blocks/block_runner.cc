#include "model/blocks/block_runner.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/core/TensorImpl.h>

#include "absl/strings/ascii.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "base/autograd/custom_function.h"
#include "base/memory/heap.h"
#include "base/memory/memory_account.h"
#include "base/memory/to_device.h"
#include "base/memory/unshared.h"
#include "base/threads/small_work.h"
#include "base/trace/recorder.h"
#include "kernels/products/product_scope.h"

namespace moonring::model {
namespace {

using base::BackwardCall;
using base::Tensors;
using Sums = std::vector<std::shared_ptr<kernels::GradientSum>>;

// The kind of a trace span of one module's execution; spans are labelled with the module's name
// ("model.layers.3", "model.norm").
constexpr base::SpanKind LayerSpan(const char* name) {
  return {.name = name, .category = "layer", .text = "of", .numbers = {"rows"}};
}
constexpr base::SpanKind kForward = LayerSpan("layer forward"),
                         kRecompute = LayerSpan("layer recompute"),
                         kBackward = LayerSpan("layer backward"),
                         kEmbed = LayerSpan("embedding forward"),
                         kEmbedBackward = LayerSpan("embedding backward");

bool Trainable(const std::shared_ptr<base::Parameter>& parameter) {
  return parameter != nullptr && parameter->trainable();
}

void FetchAhead(const std::vector<Loan>& loans) {
  for (const Loan& loan : loans) {
    if (loan.parameter != nullptr) loan.parameter->Fetch(loan.dtype);
  }
}

// The accumulator of a weight's gradient; null if autograd is to return the gradient.
std::shared_ptr<kernels::GradientSum> SumFor(const Loan& loan) {
  if (!Trainable(loan.parameter)) return nullptr;
  const at::ScalarType dtype = loan.parameter->gradient_dtype();
  if (loan.dtype == dtype && loan.parameter->device().is_cpu()) return nullptr;
  return std::make_shared<kernels::GradientSum>(dtype);
}

// Prepares `sum` for a backward: discards values that a failed backward left in it, and starts from
// the Parameter's gradient.
void Begin(kernels::GradientSum& sum, const base::Parameter& parameter) {
  sum.Take();
  at::Tensor gradient = parameter.GradientToAddTo();
  if (gradient.defined()) sum.AddTo(std::move(gradient));
}

// The autograd graph of one execution of a block: the leaves, the results, and the accumulators of
// the weights' gradients.
struct Graph {
  BlockInputs inputs;
  std::vector<at::Tensor> weights;
  Sums sums;
  Tensors results;
};

// The state of a block's autograd node, in addition to its saved tensors.
struct Call {
  BlockFunction function;
  std::vector<Loan> loans;
  RunnerOptions options;
  // From forward to backward:
  Graph graph;                               // with kNone
  std::unique_ptr<StoredActivation> hidden;  // with a store
  c10::VariableVersion version;              // version counter of hidden when it was stored
  uint32_t stored_version = 0;
  attention::KeptAttention kept;                             // with kSelective
  std::vector<std::unique_ptr<StoredActivation>> kept_away;  // `kept`, moved to the store

  std::vector<at::Tensor> Lease(bool as_leaves) const {
    std::vector<at::Tensor> weights;
    weights.reserve(loans.size());
    for (const Loan& loan : loans) {
      weights.push_back(loan.parameter == nullptr ? at::Tensor()
                                                  : loan.parameter->Lease(loan.dtype));
      if (as_leaves && Trainable(loan.parameter)) weights.back().requires_grad_();
    }
    return weights;
  }

  // While the result exists, operators use only one thread if the block is small work. The estimate
  // of its work counts a product of all rows with all weights, and attention of every row to every
  // row.
  base::SmallWorkScope Small(const at::Tensor& hidden_TD) const {
    int64_t elements = hidden_TD.numel();
    for (const Loan& loan : loans)
      elements += loan.parameter == nullptr ? 0 : loan.parameter->numel();
    return base::SmallWorkScope(hidden_TD.size(0), elements);
  }

  bool keeps_graph() const { return options.recompute == Recompute::kNone; }
  attention::KeptAttention* Kept() {
    return options.recompute == Recompute::kSelective ? &kept : nullptr;
  }

  Tensors Run(const BlockInputs& inputs, attention::KeptAttention* keep) const {
    at::NoGradGuard no_grad;
    const base::SmallWorkScope small = Small(inputs.hidden);
    const kernels::ProductScope products(options.products);
    const std::vector<at::Tensor> weights = Lease(/*as_leaves=*/false);
    FetchAhead(options.neighbours.after);
    return function(
        weights, inputs,
        {.kept = keep, .tile_bytes = options.tile_bytes, .tile_rows = options.tile_rows});
  }

  // Stores the input, which others may share. Autograd detects an in-place write to a saved tensor,
  // but not to one whose contents were copied to a store, so the version counter is recorded here.
  void Store(const at::Tensor& input) {
    version = input.unsafeGetTensorImpl()->version_counter();
    stored_version = version.enabled() ? version.current_version() : 0;
    hidden = options.store->Put(input);
    for (const at::Tensor& tensor : kept.tensors()) kept_away.push_back(options.store->Put(tensor));
    kept = {};
  }

  // Fetches the kept attention tensors from the store, after checking that the block's input was
  // not overwritten.
  void Fetch() {
    TORCH_CHECK(!version.enabled() || version.current_version() == stored_version,
                "block runner: a block's input was written to in place after the block had run, so "
                "its gradient cannot be computed");
    if (kept_away.empty()) return;
    std::vector<at::Tensor> tensors;
    for (const auto& each : kept_away) tensors.push_back(each->Get());
    kept.Keep(std::move(tensors));
  }

  void Forget() {
    hidden.reset();
    kept = {};
    kept_away.clear();
  }

  // Runs the block with an autograd graph. `wanted`: which inputs need a gradient. `next`: the
  // weights of the block that runs after this one, to be fetched meanwhile.
  Graph RunWithGraph(const BlockInputs& inputs, const std::vector<bool>& wanted,
                     const std::vector<Loan>& next, BlockRun how) {
    at::AutoGradMode enable(true);
    const base::SmallWorkScope small = Small(inputs.hidden);
    const kernels::ProductScope products(options.products);
    Graph run;
    run.inputs.hidden = inputs.hidden.detach().requires_grad_(wanted[0]);
    for (size_t i = 0; i < inputs.besides.size(); ++i)
      run.inputs.besides.push_back(inputs.besides[i].detach().requires_grad_(wanted[i + 1]));
    run.weights = Lease(/*as_leaves=*/true);
    FetchAhead(next);
    for (const Loan& loan : loans) run.sums.push_back(SumFor(loan));
    how.sums = run.sums;
    run.results = function(run.weights, run.inputs, how);
    return run;
  }

  // Differentiates `run`, passes the weights' gradients to their Parameters, and returns the
  // gradients of the inputs (undefined if not needed).
  Tensors Backward(Graph run, const Tensors& gradients_of_results, bool retain) const {
    const base::SmallWorkScope small = Small(run.inputs.hidden);
    const kernels::ProductScope products(options.products);
    Tensors leaves, roots, root_gradients;
    std::vector<base::Parameter*> sinks;
    Sums sums;
    Tensors of_inputs(1 + run.inputs.besides.size());
    std::vector<size_t> wanted;  // indices of inputs
    for (size_t i = 0; i < of_inputs.size(); ++i) {
      const at::Tensor& input = i == 0 ? run.inputs.hidden : run.inputs.besides[i - 1];
      if (!input.requires_grad()) continue;
      wanted.push_back(i);
      leaves.push_back(input);
    }
    for (size_t i = 0; i < loans.size(); ++i) {
      if (!run.weights[i].defined() || !run.weights[i].requires_grad()) continue;
      leaves.push_back(run.weights[i]);
      sinks.push_back(loans[i].parameter.get());
      sums.push_back(run.sums[i]);
    }
    for (size_t i = 0; i < run.results.size(); ++i) {
      if (!run.results[i].requires_grad() || !gradients_of_results[i].defined()) continue;
      roots.push_back(run.results[i]);
      root_gradients.push_back(gradients_of_results[i]);
    }
    if (leaves.empty() || roots.empty()) return of_inputs;
    for (size_t i = 0; i < sinks.size(); ++i) {
      if (sums[i] != nullptr) Begin(*sums[i], *sinks[i]);
    }
    Tensors gradients =
        base::Differentiate(roots, leaves, root_gradients, {.retain_graph = retain});
    roots.clear();
    run = Graph();
    leaves.clear();
    for (size_t i = 0; i < sinks.size(); ++i) {
      at::Tensor weight_gradient = std::move(gradients[wanted.size() + i]);
      if (sums[i] != nullptr) {
        const at::Tensor sum = sums[i]->Take();
        if (sum.defined())
          weight_gradient = weight_gradient.defined() ? sum.add_(weight_gradient) : sum;
      }
      if (sinks[i]->trainable()) sinks[i]->TakeGradient(std::move(weight_gradient));
    }
    base::TrimHeap();
    for (size_t i = 0; i < wanted.size(); ++i) of_inputs[wanted[i]] = std::move(gradients[i]);
    return of_inputs;
  }
};

// The module of a parameter, for traces: its name up to the layer's number ("model.layers.3"), or
// without ".weight" if it has no number ("model.norm").
std::string ModuleOf(const std::string& name) {
  const std::vector<absl::string_view> words = absl::StrSplit(name, '.');
  const auto is_number = [](absl::string_view word) {
    return !word.empty() && std::all_of(word.begin(), word.end(), absl::ascii_isdigit);
  };
  const auto number = std::find_if(words.begin(), words.end(), is_number);
  return absl::StrJoin(words.begin(), number == words.end() ? number - 1 : number + 1, ".");
}

class CallSpan {
 public:
  CallSpan(const base::SpanKind& kind, const Call& call, const at::Tensor& hidden)
      : span_(kind, {hidden.defined() ? hidden.size(0) : 0}, Of(call)) {
    if (hidden.defined()) span_.OnDevice(hidden.device());
  }

 private:
  static std::string Of(const Call& call) {
    if (base::CurrentTrace() == nullptr) return "";
    for (const Loan& loan : call.loans) {
      if (loan.parameter != nullptr) return ModuleOf(loan.parameter->name());
    }
    return "";
  }

  base::TraceSpan span_;
};

// Recomputes the autograd graph of a call whose forward did not keep it.
Graph Recomputed(Call& call, const BlockInputs& inputs, const std::vector<bool>& wanted,
                 const BlockRun& how) {
  const CallSpan span(kRecompute, call, inputs.hidden);
  const bool goes_on = wanted[0];
  return call.RunWithGraph(inputs, wanted,
                           goes_on ? call.options.neighbours.before : std::vector<Loan>(), how);
}

// Runs the forward of a block's autograd node and returns its outputs. Sets `saved` to the node's
// inputs, except hidden if the store has it.
Tensors Forward(Call& call, const BlockInputs& inputs, Tensors* saved) {
  const CallSpan span(kForward, call, inputs.hidden);
  if (!call.keeps_graph()) {
    base::CountAs(base::MemoryPart::kCheckpointInputs, inputs.hidden);
    Tensors results = call.Run(inputs, call.Kept());
    *saved = inputs.besides;
    if (call.options.store == nullptr) {
      saved->push_back(inputs.hidden);
    } else {
      call.Store(inputs.hidden);
    }
    return results;
  }
  std::vector<bool> wanted = {inputs.hidden.requires_grad()};
  for (const at::Tensor& input : inputs.besides) wanted.push_back(input.requires_grad());
  call.graph = call.RunWithGraph(inputs, wanted, call.options.neighbours.after, {});
  Tensors results;
  for (const at::Tensor& result : call.graph.results) results.push_back(result.detach());
  return results;
}

// Runs the backward of a block's autograd node and returns the gradients of the block's inputs.
Tensors Backward(Call& call, BackwardCall& backward) {
  const base::MemoryScope memory(base::MemoryPart::kActivations);
  const Tensors& gradients = backward.gradients;
  const CallSpan span(kBackward, call, gradients[0]);
  if (call.keeps_graph()) {
    TORCH_CHECK(!call.graph.results.empty(),
                "block runner: its backward failed before, and it has no graph left");
    Graph run = backward.retains_graph ? call.graph : std::exchange(call.graph, Graph());
    return call.Backward(std::move(run), gradients, backward.retains_graph);
  }
  call.Fetch();
  const size_t besides = backward.saved.size() - (call.hidden == nullptr ? 1 : 0);
  const BlockInputs inputs{
      .hidden = call.hidden != nullptr ? call.hidden->Get() : backward.saved.back(),
      .besides = {backward.saved.begin(), backward.saved.begin() + static_cast<int64_t>(besides)}};
  // If autograd passed this gradient and nothing else shares it, its memory can be reused.
  const bool alone = gradients[0].defined() && base::IsUnshared(gradients[0]);
  Graph run = Recomputed(call, inputs, backward.wanted,
                         {.kept = call.Kept(),
                          .tile_bytes = call.options.tile_bytes,
                          .tile_rows = call.options.tile_rows,
                          .values = false,
                          .gradient_is_free = alone});
  if (call.options.store != nullptr) call.kept = {};
  if (!backward.retains_graph) call.Forget();
  return call.Backward(std::move(run), gradients, /*retain=*/false);
}

}  // namespace

std::vector<at::Tensor> RunBlock(BlockFunction function, std::vector<Loan> loans,
                                 const BlockInputs& inputs, RunnerOptions options) {
  const auto call = std::make_shared<Call>();
  call->function = std::move(function);
  call->loans = std::move(loans);
  call->options = std::move(options);
  const bool trainable = std::any_of(call->loans.begin(), call->loans.end(),
                                     [](const Loan& loan) { return Trainable(loan.parameter); });
  Tensors all = {inputs.hidden};
  all.insert(all.end(), inputs.besides.begin(), inputs.besides.end());
  const bool flows = std::any_of(all.begin(), all.end(),
                                 [](const at::Tensor& input) { return input.requires_grad(); });
  if (!at::GradMode::is_enabled() || !(trainable || flows)) {
    const CallSpan span(kForward, *call, inputs.hidden);
    return call->Run(inputs, nullptr);
  }
  // Token ids never require a gradient, and hidden states do not before the first trainable block.
  all.push_back(base::Anchor(trainable));
  return base::Apply(
      {.name = "block runner",
       .forward = [&](Tensors* saved) { return Forward(*call, inputs, saved); },
       .backward = [call](BackwardCall& backward) { return Backward(*call, backward); },
       .undefined_gradients = true},
      all);
}

at::Tensor LookUp(const std::shared_ptr<base::Parameter>& embedding_VD,
                  const at::Tensor& given_ids_T, const LookUpOptions& options) {
  TORCH_CHECK(given_ids_T.dim() == 1 && given_ids_T.scalar_type() == at::kLong,
              "embedding: ids of shape ", given_ids_T.sizes(), " in ", given_ids_T.scalar_type(),
              ", expected int64 [T]");
  // The range of ids is checked only on the CPU: on a GPU, reading the result would wait for the
  // GPU.
  if (given_ids_T.is_cpu() && given_ids_T.numel() > 0) {
    const int64_t largest = given_ids_T.max().item<int64_t>(), rows = embedding_VD->shape()[0];
    TORCH_CHECK_INDEX(largest < rows, "embedding: id ", largest, ", the vocabulary has ", rows,
                      " rows; Checkpoint:grow_vocabulary makes more");
  }
  const at::Tensor ids_T = base::ToDevice(given_ids_T, embedding_VD->device());
  return base::ApplyToOne(
      {.name = "embedding",
       .forward = [&](Tensors* saved) -> Tensors {
         const base::TraceSpan span(kEmbed, {ids_T.size(0)}, embedding_VD->name());
         *saved = {ids_T};
         const at::Tensor table_VD = embedding_VD->LeaseForPart(options.lookup_dtype);
         return {table_VD.index_select(0, ids_T).to(options.lookup_dtype).to(options.result_dtype)};
       },
       .backward = [embedding_VD, pad_id = options.pad_id](BackwardCall& call) -> Tensors {
         if (!embedding_VD->trainable()) return {};
         const at::Tensor& ids_T = call.saved[0];
         const base::TraceSpan span(kEmbedBackward, {ids_T.size(0)}, embedding_VD->name());
         at::Tensor rows_TD = call.gradients[0].to(embedding_VD->gradient_dtype());
         if (pad_id.has_value()) rows_TD = rows_TD.masked_fill(ids_T.eq(*pad_id).unsqueeze(1), 0.0);
         embedding_VD->AddGradientRows(ids_T, rows_TD);
         return {};
       }},
      {base::Anchor(Trainable(embedding_VD))});
}

}  // namespace moonring::model
