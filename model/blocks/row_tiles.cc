#include "model/blocks/row_tiles.h"

#include <algorithm>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/custom_class.h>

#include "model/blocks/layers.h"

namespace moonring::model {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr int64_t kRound = 64;  // rows of a tile are a multiple of it

struct Call : public torch::CustomClassHolder {
  RowFunction function;
  RowTiles tiles;
  size_t inputs = 0;  // that have rows; weights follow

  // fn(first row, rows) for each tile.
  template <class F>
  void ForEachTile(int64_t rows, const F& fn) const {
    const int64_t step = RowsOfTile(tiles, rows);
    int64_t begin = 0;
    do {
      // A few rows alone would take another path through the matrix products: they go with the tile before them.
      const int64_t count = rows - begin < step + kRound ? rows - begin : step;
      fn(begin, count);
      begin += count;
    } while (begin < rows);
  }

  variable_list Values(const variable_list& all) const {
    at::NoGradGuard no_grad;
    variable_list results;
    for (const at::Tensor& like : tiles.shapes) results.push_back(results.empty() ? at::empty(like.sizes(), like.options()) : at::zeros(like.sizes(), like.options()));
    const absl::Span<const at::Tensor> weights = absl::MakeConstSpan(all).subspan(inputs);
    ForEachTile(all[0].size(0), [&](int64_t begin, int64_t count) {
      variable_list rows;
      for (size_t i = 0; i < inputs; ++i) rows.push_back(all[i].narrow(0, begin, count));
      const variable_list made = function(weights, rows, begin);
      TORCH_CHECK(made.size() == results.size(), "row tiles: the function gave ", made.size(), " results, wanted ", results.size());
      results[0].narrow(0, begin, count).copy_(made[0]);
      for (size_t i = 1; i < made.size(); ++i) results[i].add_(made[i]);
    });
    return results;
  }

  variable_list StandIns() const {
    variable_list results;
    for (const at::Tensor& like : tiles.shapes) results.push_back(StandIn(like.sizes(), like.options()));
    return results;
  }
};

// One tile's part of a backward: what it differentiates with respect to, and where that goes.
class Backward {
 public:
  Backward(const Call& call, variable_list all, const std::vector<bool>& wanted, variable_list gradients)
      : call_(call), all_(std::move(all)), wanted_(wanted), gradients_(std::move(gradients)), results_(all_.size()) {}

  variable_list Run() {
    for (size_t i = 0; i < call_.inputs; ++i) {
      if (wanted_[i]) results_[i] = i == 0 && MayReuse() ? gradients_[0] : at::empty_like(all_[i], at::MemoryFormat::Contiguous);
    }
    call_.ForEachTile(all_[0].size(0), [&](int64_t begin, int64_t count) { Tile(begin, count); });
    for (size_t i = call_.inputs; i < all_.size(); ++i) {
      if (results_[i].defined()) results_[i] = results_[i].to(all_[i].scalar_type());
    }
    return std::move(results_);
  }

 private:
  // A tile's rows of the gradient are read before its rows of the result are written.
  bool MayReuse() const {
    const at::Tensor &gradient = gradients_[0], &input = all_[0];
    return call_.tiles.gradient_is_free && gradient.defined() && gradient.is_contiguous() && gradient.sizes() == input.sizes() &&
           gradient.scalar_type() == input.scalar_type();
  }

  void Tile(int64_t begin, int64_t count) {
    variable_list inputs, leaves;
    std::vector<size_t> places;
    for (size_t i = 0; i < all_.size(); ++i) {
      inputs.push_back((i < call_.inputs ? all_[i].narrow(0, begin, count) : all_[i]).detach());
      if (!wanted_[i]) continue;
      leaves.push_back(inputs.back().requires_grad_());
      places.push_back(i);
    }
    variable_list roots, root_gradients;
    {
      at::AutoGradMode enable(true);
      const absl::Span<const at::Tensor> span = absl::MakeConstSpan(inputs);
      const variable_list made = call_.function(span.subspan(call_.inputs), span.first(call_.inputs), begin);
      for (size_t i = 0; i < made.size(); ++i) {
        if (!made[i].requires_grad() || !gradients_[i].defined()) continue;
        roots.push_back(made[i]);
        root_gradients.push_back(i == 0 ? gradients_[i].narrow(0, begin, count) : gradients_[i]);
      }
    }
    variable_list parts(leaves.size());
    if (!roots.empty()) parts = torch::autograd::grad(roots, leaves, root_gradients, /*retain_graph=*/false, /*create_graph=*/false, /*allow_unused=*/true);
    for (size_t i = 0; i < places.size(); ++i) Put(places[i], std::move(parts[i]), begin, count);
  }

  void Put(size_t place, at::Tensor part, int64_t begin, int64_t count) {
    at::Tensor& result = results_[place];
    if (place < call_.inputs) {
      at::Tensor rows = result.narrow(0, begin, count);
      part.defined() ? rows.copy_(part) : rows.zero_();
    } else if (part.defined() && !result.defined()) {
      const bool last = begin + count == all_[0].size(0);
      result = last ? std::move(part) : part.to(StreamDtype(part.scalar_type()));
    } else if (part.defined()) {
      result.add_(part);
    }
  }

  const Call& call_;
  const variable_list all_;
  const std::vector<bool>& wanted_;
  const variable_list gradients_;
  variable_list results_;
};

class TilesFunction : public torch::autograd::Function<TilesFunction> {
 public:
  static variable_list forward(AutogradContext* ctx, at::TensorList all, const c10::intrusive_ptr<Call>& call) {
    ctx->set_materialize_grads(false);
    ctx->saved_data["call"] = c10::IValue::make_capsule(call);
    ctx->save_for_backward(all.vec());
    variable_list results = call->tiles.values ? call->Values(all.vec()) : call->StandIns();
    variable_list counts;
    for (const at::Tensor& result : results) {
      if (!result.is_floating_point()) counts.push_back(result);
    }
    ctx->mark_non_differentiable(counts);
    return results;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    TORCH_CHECK(!at::GradMode::is_enabled(), "row tiles: backward with create_graph is not supported");
    const auto call = c10::static_intrusive_pointer_cast<Call>(ctx->saved_data.at("call").toCapsule());
    variable_list all = ctx->get_saved_variables();
    std::vector<bool> wanted;
    for (size_t i = 0; i < all.size(); ++i) wanted.push_back(ctx->needs_input_grad(i));
    variable_list results = Backward(*call, std::move(all), wanted, gradients).Run();
    results.emplace_back();  // of the call itself
    return results;
  }
};

}  // namespace

int64_t RowsOfTile(const RowTiles& tiles, int64_t rows) {
  const int64_t most = std::max({tiles.least_rows, tiles.tile_bytes / std::max<int64_t>(1, tiles.row_bytes), kRound});
  const int64_t count = std::max<int64_t>(1, (rows + most - 1) / most);
  const int64_t even = (rows + count - 1) / count;
  // Rounded up, so that no tile is a short one but the last.
  return std::max<int64_t>(1, count == 1 ? rows : (even + kRound - 1) / kRound * kRound);
}

at::Tensor StandIn(at::IntArrayRef sizes, const at::TensorOptions& options) {
  return at::empty_strided(sizes, std::vector<int64_t>(sizes.size(), 0), options);
}

std::vector<at::Tensor> RunInTiles(const RowFunction& function, const std::vector<at::Tensor>& weights, const std::vector<at::Tensor>& rows, const RowTiles& tiles) {
  TORCH_CHECK(!rows.empty() && !tiles.shapes.empty(), "row tiles: ", rows.size(), " inputs with rows and ", tiles.shapes.size(), " results, wanted one or more");
  for (const at::Tensor& each : rows) TORCH_CHECK(each.size(0) == rows[0].size(0), "row tiles: inputs of ", each.size(0), " and of ", rows[0].size(0), " rows");
  auto call = c10::make_intrusive<Call>();
  call->function = function;
  call->tiles = tiles;
  call->inputs = rows.size();
  variable_list all = rows;
  all.insert(all.end(), weights.begin(), weights.end());
  const bool graph = at::GradMode::is_enabled() && std::any_of(all.begin(), all.end(), [](const at::Tensor& each) { return each.requires_grad(); });
  if (!graph) return call->Values(all);
  return TilesFunction::apply(at::TensorList(all), call);
}

}  // namespace moonring::model
