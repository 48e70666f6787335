#include "model/blocks/block_runner.h"

#include <algorithm>
#include <utility>

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/custom_class.h>

#include "comm/heap.h"
#include "comm/memory_account.h"
#include "comm/small_work.h"

namespace moonring::model {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

bool Trainable(const std::shared_ptr<comm::Parameter>& parameter) { return parameter != nullptr && parameter->trainable(); }

// An autograd node exists only where an input requires a gradient. Ids never do, and hidden states do not below the first
// trainable block, so a block with trainable weights also takes this empty leaf. Its gradient is always undefined.
at::Tensor Anchor(bool trainable) { return at::empty({0}, at::kFloat).requires_grad_(trainable); }

void FetchAhead(const std::vector<Loan>& loans) {
  for (const Loan& loan : loans) {
    if (loan.parameter != nullptr) loan.parameter->Fetch(loan.dtype);
  }
}

// One run of a block with its graph: leaves going in, the results coming out.
struct Graph {
  at::Tensor hidden;
  std::vector<at::Tensor> weights;
  variable_list results;
};

// What a node keeps besides its saved tensors.
struct Call : public torch::CustomClassHolder {
  BlockFunction function;
  std::vector<Loan> loans;
  RunnerOptions options;
  // From forward to backward:
  Graph graph;                                                // kNone
  std::unique_ptr<StoredActivation> hidden;                   // where there is a store
  attention::KeptAttention kept;                              // kSelective
  std::vector<std::unique_ptr<StoredActivation>> kept_away;  // the same, where there is a store

  std::vector<at::Tensor> Lease(bool as_leaves) const {
    std::vector<at::Tensor> weights;
    weights.reserve(loans.size());
    for (const Loan& loan : loans) {
      weights.push_back(loan.parameter == nullptr ? at::Tensor() : loan.parameter->Lease(loan.dtype));
      if (as_leaves && Trainable(loan.parameter)) weights.back().requires_grad_();
    }
    return weights;
  }

  // One pass over `hidden_TD`: through the weights, and in attention at most each row with each other.
  comm::SmallWorkScope Small(const at::Tensor& hidden_TD) const {
    int64_t elements = hidden_TD.numel();
    for (const Loan& loan : loans) elements += loan.parameter == nullptr ? 0 : loan.parameter->numel();
    return comm::SmallWorkScope(hidden_TD.size(0), elements);
  }

  bool keeps_graph() const { return options.recompute == Recompute::kNone; }
  attention::KeptAttention* Kept() { return options.recompute == Recompute::kSelective ? &kept : nullptr; }

  variable_list Run(const at::Tensor& hidden, attention::KeptAttention* keep) const {
    at::NoGradGuard no_grad;
    const comm::SmallWorkScope small = Small(hidden);
    const std::vector<at::Tensor> weights = Lease(/*as_leaves=*/false);
    FetchAhead(options.neighbours.after);
    return function(weights, hidden, {.kept = keep, .tile_bytes = options.tile_bytes});
  }

  void Store(const at::Tensor& input) {
    hidden = options.store->Put(input);
    for (const at::Tensor& tensor : kept.tensors()) kept_away.push_back(options.store->Put(tensor));
    kept = {};
  }

  // Brings back what the backward needs beside its input.
  void Fetch() {
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

  // `next`: the loans of the block that runs after this.
  Graph RunWithGraph(const at::Tensor& hidden, bool needs_hidden, const std::vector<Loan>& next, const BlockRun& how) {
    at::AutoGradMode enable(true);
    const comm::SmallWorkScope small = Small(hidden);
    Graph run;
    run.hidden = hidden.detach().requires_grad_(needs_hidden);
    run.weights = Lease(/*as_leaves=*/true);
    FetchAhead(next);
    run.results = function(run.weights, run.hidden, how);
    return run;
  }

  // Differentiates `run`, sinks the weights' gradients and returns that of hidden (undefined where none is wanted).
  at::Tensor Backward(Graph run, const variable_list& gradients_of_results, bool retain) const {
    const comm::SmallWorkScope small = Small(run.hidden);
    variable_list leaves, roots, root_gradients;
    std::vector<comm::Parameter*> sinks;
    const bool needs_hidden = run.hidden.requires_grad();
    if (needs_hidden) leaves.push_back(run.hidden);
    for (size_t i = 0; i < loans.size(); ++i) {
      if (!run.weights[i].defined() || !run.weights[i].requires_grad()) continue;
      leaves.push_back(run.weights[i]);
      sinks.push_back(loans[i].parameter.get());
    }
    for (size_t i = 0; i < run.results.size(); ++i) {
      if (!run.results[i].requires_grad() || !gradients_of_results[i].defined()) continue;
      roots.push_back(run.results[i]);
      root_gradients.push_back(gradients_of_results[i]);
    }
    if (leaves.empty() || roots.empty()) return at::Tensor();
    variable_list gradients = torch::autograd::grad(roots, leaves, root_gradients, /*retain_graph=*/retain, /*create_graph=*/false, /*allow_unused=*/true);
    roots.clear();
    run = Graph();
    leaves.clear();
    for (size_t i = 0; i < sinks.size(); ++i) {
      at::Tensor weight_gradient = std::move(gradients[i + (needs_hidden ? 1 : 0)]);
      if (sinks[i]->trainable()) sinks[i]->TakeGradient(std::move(weight_gradient));
    }
    comm::TrimHeap();
    return needs_hidden ? gradients[0] : at::Tensor();
  }
};

c10::intrusive_ptr<Call> CallOf(AutogradContext* ctx) { return c10::static_intrusive_pointer_cast<Call>(ctx->saved_data.at("call").toCapsule()); }

class BlockNode : public torch::autograd::Function<BlockNode> {
 public:
  static variable_list forward(AutogradContext* ctx, const at::Tensor& hidden, const at::Tensor& anchor, const c10::intrusive_ptr<Call>& call) {
    ctx->set_materialize_grads(false);
    ctx->saved_data["call"] = c10::IValue::make_capsule(call);
    if (!call->keeps_graph()) {
      comm::CountAs(comm::MemoryPart::kCheckpointInputs, hidden);
      variable_list results = call->Run(hidden, call->Kept());
      if (call->options.store == nullptr) {
        ctx->save_for_backward({hidden});
      } else {
        call->Store(hidden);
      }
      return results;
    }
    call->graph = call->RunWithGraph(hidden, hidden.requires_grad(), call->options.neighbours.after, {});
    variable_list results;
    for (const at::Tensor& result : call->graph.results) results.push_back(result.detach());
    return results;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    TORCH_CHECK(!at::GradMode::is_enabled(), "block runner: backward with create_graph is not supported");
    const comm::MemoryScope memory(comm::MemoryPart::kActivations);
    const c10::intrusive_ptr<Call> call = CallOf(ctx);
    const bool retain = torch::autograd::get_current_graph_task_keep_graph();
    if (!call->keeps_graph()) {
      call->Fetch();
      const at::Tensor hidden = call->hidden != nullptr ? call->hidden->Get() : ctx->get_saved_variables()[0];
      // What the engine moved here and nobody else holds is of no use to anybody after this.
      const bool alone = gradients[0].defined() && gradients[0].use_count() == 1 && gradients[0].storage().use_count() == 1;
      const bool goes_on = ctx->needs_input_grad(0);
      Graph run = call->RunWithGraph(hidden, goes_on, goes_on ? call->options.neighbours.before : std::vector<Loan>(),
                                     {.kept = call->Kept(), .tile_bytes = call->options.tile_bytes, .values = false, .gradient_is_free = alone});
      if (call->options.store != nullptr) call->kept = {};
      if (!retain) call->Forget();
      return {call->Backward(std::move(run), gradients, /*retain=*/false), at::Tensor(), at::Tensor()};
    }
    TORCH_CHECK(!call->graph.results.empty(), "block runner: a second backward through one forward needs retain_graph in the first");
    Graph run = retain ? call->graph : std::exchange(call->graph, Graph());
    return {call->Backward(std::move(run), gradients, retain), at::Tensor(), at::Tensor()};
  }
};

class LookUpNode : public torch::autograd::Function<LookUpNode> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& anchor, const at::Tensor& ids, const c10::intrusive_ptr<Call>& call,
                            const LookUpOptions& options) {
    ctx->saved_data["call"] = c10::IValue::make_capsule(call);
    ctx->saved_data["pad_id"] = options.pad_id;
    ctx->save_for_backward({ids});
    return call->loans[0].parameter->LeaseForPart(options.lookup_dtype).index_select(0, ids).to(options.lookup_dtype).to(options.result_dtype);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    TORCH_CHECK(!at::GradMode::is_enabled(), "embedding: backward with create_graph is not supported");
    comm::Parameter& parameter = *CallOf(ctx)->loans[0].parameter;
    if (parameter.trainable()) {
      const at::Tensor ids_T = ctx->get_saved_variables()[0];
      at::Tensor rows_TD = gradients[0].to(parameter.gradient_dtype());
      if (const auto pad_id = ctx->saved_data["pad_id"].toOptional<int64_t>()) rows_TD = rows_TD.masked_fill(ids_T.eq(*pad_id).unsqueeze(1), 0.0);
      parameter.AddGradientRows(ids_T, rows_TD);
    }
    return variable_list(4);
  }
};

}  // namespace

std::vector<at::Tensor> RunBlock(BlockFunction function, std::vector<Loan> loans, const at::Tensor& hidden, RunnerOptions options) {
  auto call = c10::make_intrusive<Call>();
  call->function = std::move(function);
  call->loans = std::move(loans);
  call->options = std::move(options);
  const bool trainable = std::any_of(call->loans.begin(), call->loans.end(), [](const Loan& loan) { return Trainable(loan.parameter); });
  if (!at::GradMode::is_enabled() || !(trainable || hidden.requires_grad())) return call->Run(hidden, nullptr);
  return BlockNode::apply(hidden, Anchor(trainable), call);
}

at::Tensor LookUp(const std::shared_ptr<comm::Parameter>& embedding_VD, const at::Tensor& ids_T, const LookUpOptions& options) {
  TORCH_CHECK(ids_T.dim() == 1 && ids_T.scalar_type() == at::kLong, "embedding: ids of shape ", ids_T.sizes(), " in ", ids_T.scalar_type(),
              ", wanted int64 [T]");
  if (ids_T.is_cpu() && ids_T.numel() > 0) {  // elsewhere reading the answer would wait for the device
    const int64_t largest = ids_T.max().item<int64_t>(), rows = embedding_VD->shape()[0];
    TORCH_CHECK_INDEX(largest < rows, "embedding: id ", largest, ", the vocabulary has ", rows, " rows; Checkpoint:grow_vocabulary makes more");
  }
  auto call = c10::make_intrusive<Call>();
  call->loans = {{embedding_VD, options.lookup_dtype}};
  return LookUpNode::apply(Anchor(Trainable(embedding_VD)), ids_T, call, options);
}

}  // namespace moonring::model
