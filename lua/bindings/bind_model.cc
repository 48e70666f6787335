// Lua bindings for models, adapters, value heads and decoding.

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/CachingDeviceAllocator.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "attention/attention.h"
#include "base/status/torch_status.h"
#include "base/threads/work_count.h"
#include "comm/bin_exchange.h"
#include "kernels/products/onednn_products.h"
#include "kernels/products/product_choice.h"
#include "kernels/products/product_timing.h"
#include "kernels/random/counter_random.h"
#include "lua/autograd/running_backward.h"
#include "lua/binding/class.h"
#include "lua/binding/dtype_names.h"
#include "lua/binding/handles.h"
#include "lua/binding/options.h"
#include "lua/binding/tensor.h"
#include "lua/bindings/answer_hooks.h"
#include "lua/bindings/bindings.h"
#include "lua/bindings/block_hooks.h"
#include "lua/bindings/forward_options.h"
#include "lua/bindings/gguf_options.h"
#include "lua/bindings/rollout_options.h"
#include "lua/bindings/rollout_prompts.h"
#include "model/adapter.h"
#include "model/adapter_folder.h"
#include "model/base_packing.h"
#include "model/blocks/activation_place.h"
#include "model/checkpoint/checkpoint.h"
#include "model/checkpoint/companions.h"
#include "model/checkpoint/file_mark.h"
#include "model/checkpoint/save_folder.h"
#include "model/digest.h"
#include "model/expert_parts.h"
#include "model/files/safetensors_writer.h"
#include "model/files/watched_file.h"
#include "model/first_nonfinite.h"
#include "model/freeze.h"
#include "model/frozen_copy.h"
#include "model/precision.h"
#include "model/rollout/first_tokens.h"
#include "model/rollout/rollout.h"
#include "model/sampler.h"
#include "model/save_gradients.h"
#include "model/transformer.h"
#include "model/value_head.h"
#include "nlohmann/json.hpp"
#include "objectives/vocabulary/head_low_rank.h"
#include "trainer/sharding/zero.h"

namespace moonring::lua {
namespace {

constexpr int64_t kShardBytes = 5'000'000'000;  // largest safetensors file, as in Transformers

struct LoadedModel {
  std::shared_ptr<model::Checkpoint> checkpoint;
  std::shared_ptr<model::Transformer> transformer;
  std::shared_ptr<LoadedModel> base;  // the model under an adapter; null without one
  std::string folder;  // folder with the value head: the last adapter's, else the checkpoint's

  // The trainable parameters: those of the adapter, if there is one, else of the model.
  const base::Parameters& parameters() const {
    return base == nullptr ? transformer->parameters() : transformer->adapter()->parameters;
  }
};

// Reads the options of `finetuning_type: freeze`. Returns the names of the weights that are
// trained; nullopt: all weights.
std::optional<std::set<std::string>> Learning(const model::ModelConfig& config, Options& options) {
  const std::optional<int64_t> layers = options.Find<int64_t>("trainable_layers");
  const auto modules = options.Find<std::vector<std::string>>("trainable_modules"),
             extra = options.Find<std::vector<std::string>>("extra_modules");
  if (!layers.has_value() && !modules.has_value() && !extra.has_value()) return std::nullopt;
  model::FreezeOptions wanted;
  wanted.layers = layers.value_or(wanted.layers);
  wanted.modules = modules.value_or(wanted.modules);
  wanted.extra = extra.value_or(wanted.extra);
  return base::ValueOrThrow(model::TrainableWeights(config, wanted));
}

// Returns where the option activation_offload stores the inputs of blocks, for a model on this
// device: memory, host or disk.
std::string PlaceOfActivations(std::optional<std::string> offload, std::string device) {
  const auto place = model::PlaceOfActivations(offload, c10::Device(device).type());
  return std::string(model::PlaceName(base::ValueOrThrow(place)));
}

std::shared_ptr<LoadedModel> LoadModel(std::shared_ptr<model::Checkpoint> checkpoint,
                                       Options options) {
  model::TransformerOptions wanted =
      base::ValueOrThrow(model::OptionsOfPrecision(options.Get<std::string>("precision", "fp32")));
  const std::string recompute = options.Get<std::string>("recompute", "block");
  wanted.frozen = options.Get<bool>("frozen", false);
  wanted.learning = Learning(checkpoint->config(), options);
  const auto pack = options.Find<std::string>("pack");
  const std::string pack_dtype = options.Get<std::string>("pack_dtype", "fp32");
  const bool rounds_only = options.Get<bool>("pack_rounds_only", false);
  if (pack.has_value()) {
    wanted.packing = base::ValueOrThrow(model::PackingNamed(*pack));
    wanted.packing->dtype = DtypeNamed(pack_dtype);
    wanted.packing->rounds_only = rounds_only;
    const model::PackedSize size =
        base::ValueOrThrow(model::SizeOfPacked(*checkpoint, *wanted.packing));
    TORCH_CHECK_VALUE(size.numbers > 0, "pack: ", *pack, ": no matrix of ", checkpoint->path(),
                      " is stored in blocks of a code");
  }
  const auto adapters = options.Get<std::vector<std::string>>("adapters", {});
  const std::string device = options.Get<std::string>("device", "cpu");
  const std::optional<std::string> offload = options.Find<std::string>("activation_offload"),
                                   offload_dir = options.Find<std::string>("activation_dir");
  wanted.work = options.Get<std::shared_ptr<base::WorkCount>>("work", nullptr);
  wanted.tile_bytes = options.Get<int64_t>("tile_bytes", wanted.tile_bytes);
  wanted.tile_rows = options.Get<int64_t>("tile_rows", 0);
  wanted.logit_rows = options.Get<int64_t>("logit_rows", 0);
  if (const auto stream = options.Find<std::string>("residual_dtype"))
    wanted.stream_dtype = DtypeNamed(*stream);
  wanted.products =
      base::ValueOrThrow(kernels::ParseProductChoice(options.Get<std::string>("products", "mkl")));
  wanted.whole_layers = options.Get<int64_t>("whole_layers", 0);
  wanted.selective_layers = options.Get<int64_t>("selective_layers", 0);
  if (const auto zero = options.Find<std::shared_ptr<trainer::Zero>>("zero")) {
    wanted.on_load = [zero = *zero](base::Parameter& parameter) {
      zero->Part(parameter);
      return absl::OkStatus();
    };
    const int64_t experts = checkpoint->config().experts.count;
    if ((*zero)->experts()->size() > 1 && experts > 0) {
      wanted.expert_ranks = std::make_shared<const comm::BinExchange>(
          (*zero)->experts(), comm::BinParts(experts, (*zero)->experts()->size()));
    }
  }
  options.Finish();
  TORCH_CHECK_VALUE(wanted.tile_bytes >= 0, "tile_bytes: expected 0 (no tiles) or more, got ",
                    wanted.tile_bytes);
  TORCH_CHECK_VALUE(wanted.tile_rows >= 0 && wanted.logit_rows >= 0,
                    "tile_rows, logit_rows: expected 0 (by device) or more, got ", wanted.tile_rows,
                    " and ", wanted.logit_rows);
  TORCH_CHECK_VALUE(wanted.whole_layers >= 0 && wanted.selective_layers >= 0,
                    "whole_layers, selective_layers: expected 0 or more, got ", wanted.whole_layers,
                    " and ", wanted.selective_layers);
  TORCH_CHECK_VALUE(!(wanted.frozen && wanted.learning.has_value()),
                    "frozen: true leaves no trainable_layers, trainable_modules or extra_modules");
  TORCH_CHECK_VALUE(device == "cpu" || device == "cuda", "device: expected cpu or cuda, got '",
                    device, "'");
  wanted.device = c10::Device(device);
  wanted.activation_store =
      base::ValueOrThrow(model::OpenActivationStore(offload, offload_dir, wanted.device));
  TORCH_CHECK_VALUE(recompute == "block" || recompute == "selective" || recompute == "none",
                    "recompute: expected block, selective or none, got '", recompute, "'");
  wanted.recompute = recompute == "block"       ? model::Recompute::kBlock
                     : recompute == "selective" ? model::Recompute::kSelective
                                                : model::Recompute::kNone;
  std::vector<std::shared_ptr<const model::Adapter>> merged;
  for (const std::string& path : adapters) {
    merged.push_back(base::ValueOrThrow(model::ReadAdapter(
        path, checkpoint->config(), model::WideDtype(wanted.matmul_dtype), at::kCPU)));
  }
  auto transformer = base::ValueOrThrow(model::Transformer::Load(checkpoint, wanted, merged));
  const std::string folder = adapters.empty() ? checkpoint->path() : adapters.back();
  return std::make_shared<LoadedModel>(
      LoadedModel{std::move(checkpoint), std::move(transformer), nullptr, folder});
}

// Throws if the adapter would modify experts, and each rank has only some of the experts.
void CheckAdapter(const LoadedModel& base, const model::AdapterOptions& adapter) {
  const auto& ranks = base.transformer->options().expert_ranks;
  if (ranks == nullptr) return;
  const model::ModelConfig& config = base.transformer->config();
  const model::AdapterPlan plan = base::ValueOrThrow(model::PlanAdapter(config, adapter));
  base::ThrowIfError(model::ExpertParts(config, *ranks).Check(plan));
}

std::shared_ptr<model::Adapter> NewAdapter(const LoadedModel& base, Options& options) {
  model::AdapterOptions wanted;
  wanted.rank = options.Get<int64_t>("rank", wanted.rank);
  wanted.alpha = options.Get<double>("alpha", 2.0 * static_cast<double>(wanted.rank));
  wanted.dropout = options.Get<double>("dropout", 0.0);
  wanted.rslora = options.Get<bool>("use_rslora", false);
  wanted.dora = options.Get<bool>("use_dora", false);
  wanted.targets = options.Get<std::vector<std::string>>("target", {"all"});
  wanted.saved = options.Get<std::vector<std::string>>("additional_target", {});
  const auto blocks = options.Find<int64_t>("oft_rank"),
             block_size = options.Find<int64_t>("oft_block_size"),
             terms = options.Find<int64_t>("cayley_terms"),
             iterations = options.Find<int64_t>("pissa_iter");
  if (blocks.has_value() || block_size.has_value()) {
    wanted.rotation = {blocks.value_or(0), block_size.value_or(0), terms.value_or(5)};
  } else {
    TORCH_CHECK_VALUE(!terms.has_value(), "cayley_terms: expected oft_rank or oft_block_size too");
  }
  if (iterations.has_value()) wanted.principal = {*iterations};
  const auto seed = static_cast<uint64_t>(options.Get<int64_t>("seed", 0));
  options.Finish();
  CheckAdapter(base, wanted);
  const model::Transformer& transformer = *base.transformer;
  return base::ValueOrThrow(model::Adapter::Create(transformer.config(), wanted,
                                                   transformer.parameters(), seed,
                                                   transformer.options().weight_dtype));
}

// Creates an adapter over a frozen model, or loads the one in the folder `path`.
std::shared_ptr<LoadedModel> Adapt(std::shared_ptr<LoadedModel> base, Options options) {
  const model::TransformerOptions& held = base->transformer->options();
  const std::optional<std::string> path = options.Find<std::string>("path");
  std::shared_ptr<model::Adapter> adapter;
  if (path.has_value()) {
    const std::optional<double> dropout = options.Find<double>("dropout");
    options.Find<int64_t>("seed");  // unused: nothing is random here
    options.Finish();
    adapter = base::ValueOrThrow(
        model::ReadAdapter(*path, base->transformer->config(), held.weight_dtype, held.device));
    adapter->options.dropout = dropout.value_or(adapter->options.dropout);
    base::ThrowIfError(model::Validate(adapter->options));
    CheckAdapter(*base, adapter->options);
  } else {
    adapter = NewAdapter(*base, options);
  }
  std::shared_ptr<model::Transformer> transformer =
      base::ValueOrThrow(model::Transformer::Adapt(*base->transformer, std::move(adapter)));
  return std::make_shared<LoadedModel>(LoadedModel{base->checkpoint, std::move(transformer), base,
                                                   path.value_or(base->checkpoint->path())});
}

// A frozen copy of the model, which later steps do not change.
std::shared_ptr<LoadedModel> Copy(LoadedModel& model) {
  const model::Transformer* const base =
      model.base == nullptr ? nullptr : model.base->transformer.get();
  return std::make_shared<LoadedModel>(
      LoadedModel{model.checkpoint, base::ValueOrThrow(model::FrozenCopy(*model.transformer, base)),
                  model.base, model.folder});
}

// Returns the forward options that follow from the plan of a micro-batch.
model::ForwardOptions PlannedOptions(const LoadedModel& model, const AttentionPlan& plan) {
  const model::ModelConfig& config = model.transformer->config();
  if (plan.shares_prefixes && config.rotary_depends_on_length()) {
    base::ThrowIfError(absl::UnimplementedError(
        "shared prefixes (share_prefixes): this model's rotary embedding depends on how long a "
        "document is, so that no two documents begin alike"));
  }
  if (plan.masks_have_parents && config.layers_keeping(model::MixerCache::kState) > 0) {
    base::ThrowIfError(absl::UnimplementedError(
        "mask: parents: this model's layers that are not softmax attention know of a sequence's "
        "parents (moonring.comm.sequence), and of no mask's"));
  }
  model::ForwardOptions options;
  options.lengths_T = plan.lengths_T;
  options.mixing = plan.mixing;
  options.keys = plan.keys;
  return options;
}

// Pushes the final hidden states; the hidden states of the requested layers; and the sums of the
// router's probabilities, if they are requested and the model has a router.
Pushed Forward(lua_State* L, LoadedModel& model, at::Tensor ids_T, at::Tensor positions_T,
               std::shared_ptr<AttentionPlan> plan, Options options) {
  model::ForwardOptions wanted = PlannedOptions(model, *plan);
  wanted.noise = NoiseOf(options);
  wanted.router_groups = RouterGroupsOf(options);
  wanted.hooks = StreamHooksOf(L, options, model.transformer->config().layers);
  wanted.inside = InsideOf(L, options, model.transformer->config().layers);
  if (auto weights = options.Find<model::GivenWeights>("weights"))
    wanted.weights = std::make_shared<const model::GivenWeights>(*std::move(weights));
  options.Finish();
  model::Hidden result;
  RunBackward(L, [&] {  // hooks inside blocks call Lua
    result = model.transformer->Forward(ids_T, positions_T, plan->attention, wanted);
    return 0;
  });
  Value<at::Tensor>::Push(L, result.hidden_TD);
  if (wanted.hooks.states.empty()) {
    lua_pushnil(L);
  } else {
    lua_createtable(L, static_cast<int>(wanted.hooks.states.size()), 0);
    for (size_t i = 0; i < result.states_TD.size(); ++i) {
      Value<at::Tensor>::Push(L, result.states_TD[i]);
      lua_rawseti(L, -2, static_cast<int>(wanted.hooks.states[i]));
    }
  }
  Value<at::Tensor>::Push(L, result.tally.probability_GE);
  Value<at::Tensor>::Push(L, result.tally.chosen_GE);
  return {4};
}

// Finds the first module after which the hidden states on this rank contain a NaN or an infinity.
// Returns the module's index from 1 (0: all values are finite) and name.
std::tuple<int, std::string> FirstNonFinite(lua_State* L, LoadedModel& model, at::Tensor ids_T,
                                            at::Tensor positions_T,
                                            std::shared_ptr<AttentionPlan> plan, Options options) {
  model::ForwardOptions wanted = PlannedOptions(model, *plan);
  wanted.noise = NoiseOf(options);
  wanted.hooks.upto = options.Find<int64_t>("upto");
  wanted.hooks.after = AroundOf(L, options, model.transformer->config().layers);
  wanted.inside = InsideOf(L, options, model.transformer->config().layers);
  options.Finish();
  model::NonFinite first;
  RunBackward(L, [&] {  // hooks inside blocks call Lua
    first = model::FirstNonFinite(*model.transformer, ids_T, positions_T, plan->attention,
                                  std::move(wanted));
    return 0;
  });
  return {first.place, first.module};
}

// Measures which library computes fp32 products of these sizes fastest on this CPU.
std::string FastestProducts(Options options) {
  kernels::ProductShapes shapes;
  shapes.rows = options.Get<int64_t>("rows", shapes.rows);
  shapes.outputs = options.Get<int64_t>("outputs", shapes.outputs);
  shapes.inputs = options.Get<int64_t>("inputs", shapes.inputs);
  shapes.narrow = options.Get<int64_t>("narrow", shapes.narrow);
  options.Finish();
  return kernels::ToString(kernels::ChooseProducts(kernels::TimeProducts(shapes)));
}

// Returns `text`, a value of the key cpu_products, in normalized form. Throws if the value is
// invalid.
std::string CheckedProducts(std::string text) {
  const kernels::ProductChoice choice = base::ValueOrThrow(kernels::ParseProductChoice(text));
  if (!(choice == kernels::ProductChoice{}) && !kernels::HasOneDnn()) {
    base::ThrowIfError(absl::InvalidArgumentError(
        absl::StrCat("'", text, "': LibTorch's oneDNN makes fp32 products on processors with ",
                     "AVX-512 alone, and this one has none; expected mkl or auto")));
  }
  return kernels::ToString(choice);
}

// Returns the size of OFT's diagonal blocks for a layer with this many input features.
int64_t RotatedBlock(int64_t inputs, int64_t blocks, int64_t block_size) {
  TORCH_CHECK_VALUE(inputs > 0 && blocks >= 0 && block_size >= 0 && blocks + block_size > 0,
                    "rotated_block: ", inputs, " inputs, ", blocks, " blocks of ", block_size);
  return model::BlockSizeOf({blocks, block_size}, inputs);
}

// `options`: the noise of a forward, which a head with LoRA uses for its dropout.
std::shared_ptr<Head> HeadOf(LoadedModel& model, Options options) {
  const model::Transformer& transformer = *model.transformer;
  const model::ModelConfig& config = transformer.config();
  const std::optional<model::Noise> noise = NoiseOf(options);
  options.Finish();
  auto head =
      std::make_shared<Head>(Head{transformer.head(), config.logit_scale, config.logit_softcap,
                                  transformer.options().products, std::nullopt});
  const model::Adapter::MapWeights* const map = transformer.head_map();
  if (map == nullptr) return head;
  head->low_rank = objectives::HeadLowRank{.a_RD = map->a, .b_VR = map->b, .factor = map->scale};
  if (noise.has_value()) {
    head->low_rank->dropout = transformer.adapter()->options.dropout;
    head->low_rank->key = kernels::CounterKey(noise->seed, noise->step, transformer.head_module());
    head->low_rank->identity_T = noise->identity_T;
  }
  return head;
}

// Pushes A, B and the factor of B A; nil without LoRA on the head.
Pushed PushLowRank(lua_State* L, Head& head) {
  if (!head.low_rank.has_value()) {
    lua_pushnil(L);
    return {1};
  }
  Class<base::Parameter>::Push(L, head.low_rank->a_RD);
  Class<base::Parameter>::Push(L, head.low_rank->b_VR);
  lua_pushnumber(L, head.low_rank->factor);
  return {3};
}

at::ScalarType SavedDtype(const std::string& name) {
  if (name == "fp16") return at::kHalf;
  TORCH_CHECK_VALUE(name == "fp32" || name == "bf16" || name == "fp64",
                    "dtype: expected fp32, bf16, fp16 or fp64, got '", name, "'");
  return DtypeNamed(name);
}

// Called on a rank that does not write these parameters: takes part in gathering those that are
// sharded over ranks, because gathering is collective.
void TakePart(const base::Parameters& parameters, std::optional<at::ScalarType> dtype) {
  for (const auto& parameter : parameters) {
    if (parameter->is_spread()) parameter->LeaseWhole(dtype.value_or(parameter->dtype()));
  }
}

model::Flush FlushOf(Options& options) {
  return options.Get<bool>("flush", true) ? model::Flush::kNow : model::Flush::kLater;
}

void Save(LoadedModel& model, std::string folder, Options options) {
  const bool writes = options.Get<bool>("write", true);
  const model::Flush flush = FlushOf(options);
  const bool converted = options.Get<bool>("converted", false);
  if (model.base != nullptr) {  // an adapter is written in its stored dtype
    options.Get<std::shared_ptr<base::WorkCount>>("work", nullptr);  // unused: an adapter is small
    options.Finish();
    if (!writes) return TakePart(model.parameters(), std::nullopt);
    std::shared_ptr<const model::Adapter> adapter = model.transformer->adapter();
    if (converted) adapter = base::ValueOrThrow(adapter->Converted(model.transformer->config()));
    std::map<std::string, std::string> companions = model.checkpoint->companions();
    companions.erase("generation_config.json");  // it belongs to the base model
    base::ThrowIfError(
        model::SaveAdapter(folder, *adapter, model.checkpoint->name(), companions, flush));
    return;
  }
  const std::optional<std::string> dtype = options.Find<std::string>("dtype");
  const int64_t shard_bytes = options.Get<int64_t>("shard_bytes", kShardBytes);
  const auto work = options.Get<std::shared_ptr<base::WorkCount>>("work", nullptr);
  options.Finish();
  TORCH_CHECK_VALUE(!converted, "converted: expected a model with a PiSSA adapter");
  const at::ScalarType saved =
      dtype.has_value() ? SavedDtype(*dtype) : model.transformer->options().weight_dtype;
  if (!writes) return TakePart(model.transformer->parameters(), saved);
  base::ThrowIfError(model::SaveFolder(
      folder, model.transformer->config(), model.transformer->parameters(), saved,
      model.checkpoint->companions(), shard_bytes, flush, model.checkpoint->carried(), work));
}

// Writes a GGUF file. The calling rank must have all weights, not shards of them.
void SaveGguf(LoadedModel& model, std::string path, Options options) {
  model::GgufOptions gguf = GgufOptionsOf(options, *model.checkpoint);
  gguf.flush = FlushOf(options);
  options.Finish();
  TORCH_CHECK_VALUE(
      model.base == nullptr, "save_gguf: ", path,
      ": expected a model without an adapter of its own: merge it as the base is loaded");
  const base::Parameters parameters = model.transformer->parameters();
  for (const auto& parameter : parameters)
    TORCH_CHECK_VALUE(!parameter->is_spread(), "save_gguf: ", path, ": ", parameter->name(),
                      " is spread over ranks: save a folder, and export that");
  base::ThrowIfError(model::SaveGguf(path, model.transformer->config(), parameters, gguf));
}

// Returns a digest of the weights' names, shapes and bytes; for an adapter also of its scale.
std::string DigestOf(LoadedModel& model) {
  base::Parameters parameters = model.transformer->parameters();
  if (model.base == nullptr) return model::Digest(parameters);
  const model::Adapter& adapter = *model.transformer->adapter();
  for (const base::Parameters* more : {&adapter.parameters, &adapter.first})
    parameters.insert(parameters.end(), more->begin(), more->end());
  const auto& rotation = adapter.options.rotation;
  std::string scales = absl::StrCat(adapter.options.scale());
  for (const auto& [module, map] : adapter.maps) {
    if (map.scale != adapter.options.scale()) absl::StrAppend(&scales, " ", module, " ", map.scale);
  }
  return model::Digest(parameters,
                       rotation.has_value() ? absl::StrCat("oft ", rotation->terms) : scales);
}

std::string DescribeModel(LoadedModel& model) {
  const model::ModelConfig& config = model.transformer->config();
  std::string text = absl::StrCat("Model ", config.architecture, ": ", config.layers,
                                  " layers, hidden ", config.hidden_size, ", ", config.heads, "/",
                                  config.kv_heads, " heads, vocabulary ", config.vocab_size);
  if (model.base == nullptr) return text;
  const model::AdapterOptions& adapter = model.transformer->adapter()->options;
  if (adapter.rotation.has_value()) {
    const bool counts = adapter.rotation->blocks > 0;
    absl::StrAppend(&text, ", OFT ", counts ? "blocks a map " : "blocks of ",
                    counts ? adapter.rotation->blocks : adapter.rotation->block_size);
  } else {
    absl::StrAppend(&text, ", ", adapter.dora ? "DoRA" : "LoRA",
                    adapter.principal.has_value() ? " (PiSSA)" : "", " rank ", adapter.rank,
                    ", scale ", adapter.scale());
  }
  absl::StrAppend(&text, " on ", absl::StrJoin(adapter.targets, " "));
  if (!adapter.saved.empty()) absl::StrAppend(&text, ", whole ", absl::StrJoin(adapter.saved, " "));
  return text;
}

std::shared_ptr<model::ValueHead> MakeValueHead(LoadedModel& model, Options options) {
  const auto seed = static_cast<uint64_t>(options.Get<int64_t>("seed", 0));
  options.Finish();
  const model::TransformerOptions& held = model.transformer->options();
  return base::ValueOrThrow(model::ValueHead::Open(model.folder, model.transformer->config(), seed,
                                                   held.weight_dtype, held.device));
}

void SaveValueHead(model::ValueHead& head, std::string folder, Options options) {
  const bool writes = options.Get<bool>("write", true);
  const model::Flush flush = FlushOf(options);
  options.Finish();
  if (!writes) return TakePart({head.weight_1D, head.bias_1}, std::nullopt);
  base::ThrowIfError(head.Save(folder, flush));
}

// Writes the gradients to one file, under the names of the weights.
void SaveGradients(LoadedModel& model, std::string path, Options options) {
  const bool writes = options.Get<bool>("write", true);
  options.Finish();
  base::ThrowIfError(model::SaveGradients(model.parameters(), path, writes));
}

std::string MatmulDtype(LoadedModel& model) {
  const at::ScalarType dtype = model.transformer->options().matmul_dtype;
  return dtype == at::kBFloat16 ? "bf16"
         : dtype == at::kHalf   ? "fp16"
         : dtype == at::kDouble ? "fp64"
                                : "fp32";
}

int64_t Gpus() { return at::hasCUDA() ? at::detail::getCUDAHooks().deviceCount() : 0; }

// Pushes free and total bytes of this rank's GPU.
Pushed GpuMemory(lua_State* L) {
  if (Gpus() == 0)
    base::ThrowIfError(absl::FailedPreconditionError("this build or this machine has no GPU"));
  at::globalContext().lazyInitDevice(c10::kCUDA);
  const auto [free, total] = at::getDeviceAllocator(c10::kCUDA)
                                 ->getMemoryInfo(static_cast<c10::DeviceIndex>(
                                     at::detail::getCUDAHooks().getCurrentDevice()));
  lua_createtable(L, 0, 2);
  lua_pushnumber(L, static_cast<double>(free));
  lua_setfield(L, -2, "free");
  lua_pushnumber(L, static_cast<double>(total));
  lua_setfield(L, -2, "total");
  return {1};
}

// Returns the device for a requested one: "auto" is "cuda" if this build and this machine can use a
// GPU. Which GPU a rank uses was decided when the ranks connected.
std::string Device(std::string asked) {
  const int64_t gpus = Gpus();
  if (asked == "cpu" || (asked == "auto" && gpus == 0)) return "cpu";
  TORCH_CHECK_VALUE(asked == "cuda" || asked == "auto", "device: expected cpu, cuda or auto, got '",
                    asked, "'");
  if (gpus == 0)
    base::ThrowIfError(
        absl::FailedPreconditionError("--device cuda: this build or this machine has no GPU"));
  return "cuda";
}

// Generates an answer. `on_token`, if given, is called with each new id and ends the answer by
// returning false.
int Generate(lua_State* L) {
  const std::shared_ptr<LoadedModel> held =
      Class<LoadedModel>::Read(L, 1);  // on_token may close the handle
  LoadedModel& model = *held;
  const auto prompt = Value<std::vector<int64_t>>::Read(L, 2);
  Options options(L, 3);
  const model::SamplingOptions sampling = SamplingOf(options);
  lua_settop(L, 4);  // so that index 4 is on_token, or nil if it is absent
  const model::StreamHook around = AroundOf(L, options, model.transformer->config().layers);
  AnswerHooks hooks(L, options);
  options.Finish();
  std::function<bool(int64_t)> on_token;
  if (!lua_isnoneornil(L, 4)) {
    CheckType(L, 4, LUA_TFUNCTION);
    on_token = [L](int64_t id) {
      lua_pushvalue(L, 4);
      lua_pushnumber(L, static_cast<double>(id));
      lua_call(L, 1, 1);
      const bool go_on = !(lua_isboolean(L, -1) && lua_toboolean(L, -1) == 0);
      lua_pop(L, 1);
      return go_on;
    };
  }
  model::Sampler sampler(*model.transformer, around, hooks.logits());
  auto ids = sampler.Generate(prompt, sampling, on_token);
  hooks.Raise();
  return Value<std::vector<int64_t>>::Push(L, base::ValueOrThrow(std::move(ids)));
}

// Generates answers to many prompts. Pushes a list by prompt of lists by answer.
int Rollout(lua_State* L) {
  const std::shared_ptr<LoadedModel> held =
      Class<LoadedModel>::Read(L, 1);  // `around` may close the handle
  model::Transformer& model = *held->transformer;
  ListSize(L, 2);  // before anything is pushed there, if the prompts are absent
  Options options(L, 3);
  model::RolloutOptions wanted = RolloutOptionsOf(L, options, model.config().layers);
  const PromptReader reader(wanted.sampling, options);
  AnswerHooks hooks(L, options);
  hooks.AddTo(wanted, options, reader);
  options.Finish();
  const std::vector<model::RolloutPrompt> prompts = reader.Read(L, 2);
  const auto answers = model::Rollout(model, prompts, wanted);
  hooks.Raise();
  return PushAnswers(L, base::ValueOrThrow(answers), wanted.next_turn != nullptr).count;
}

// Chooses the tokens with which answers to prompts would begin, from given logits. Arguments: the
// model, logits [prompts, V], prompts, options.
int FirstTokens(lua_State* L) {
  const std::shared_ptr<LoadedModel> held = Class<LoadedModel>::Read(L, 1);
  const at::Tensor logits_BV = Value<at::Tensor>::Read(L, 2);
  ListSize(L, 3);
  Options options(L, 4);
  model::RolloutOptions wanted;
  const PromptReader reader(wanted.sampling, options);
  wanted.ends_turn = reader.ends_turn();
  options.Finish();
  const std::vector<model::RolloutPrompt> prompts = reader.Read(L, 3);
  return PushAnswers(L, model::FirstTokens(*held->transformer, logits_BV, prompts, wanted), false)
      .count;
}

}  // namespace

void OpenModel(lua_State* L) {
  RegisterCheckpoint(L);
  Class<LoadedModel>::Register(
      L, "Model",
      {
          {"forward", Bind<&Forward>},
          {"norm", Bind<[](LoadedModel& model, at::Tensor hidden_TD) {
             return model.transformer->Norm(hidden_TD);
           }>},
          {"first_nonfinite", Bind<&FirstNonFinite>},
          {"head", Bind<&HeadOf>},
          {"experts", Bind<[](LoadedModel& model) {
             const model::ExpertRule& experts = model.transformer->config().experts;
             return std::make_tuple(experts.count, experts.chosen);
           }>},
          {"parameters", Bind<[](LoadedModel& model) {
             return std::make_shared<ParameterList>(ParameterList{model.parameters()});
           }>},
          {"base", Bind<[](LoadedModel& model) { return model.base; }>},
          {"fixed_parts", Bind<[](LoadedModel& model) {
             const auto& adapter = model.transformer->adapter();
             return adapter == nullptr || adapter->fixed == nullptr ? std::vector<std::string>()
                                                                    : adapter->fixed->words;
           }>},
          {"has_first_values", Bind<[](LoadedModel& model) {
             return model.base != nullptr && !model.transformer->adapter()->first.empty();
           }>},
          {"value_head", Bind<&MakeValueHead>},
          {"digest", Bind<&DigestOf>},
          {"matmul_dtype", Bind<&MatmulDtype>},
          {"products", Bind<[](LoadedModel& model) {
             return kernels::ToString(model.transformer->options().products);
           }>},
          {"tile_bytes",
           Bind<[](LoadedModel& model) { return model.transformer->options().tile_bytes; }>},
          {"logit_rows",
           Bind<[](LoadedModel& model) { return model.transformer->options().logit_rows; }>},
          {"heads", Bind<[](LoadedModel& model) {
             const model::ModelConfig& config = model.transformer->config();
             const int64_t value_dim = config.value_dim(config.layer_rules[0]);
             return std::make_tuple(config.heads, config.kv_heads, config.head_dim, value_dim);
           }>},
          {"whole_attention_layers", Bind<[](LoadedModel& model) {
             const std::vector<model::LayerRule>& rules = model.transformer->config().layer_rules;
             return std::count_if(rules.begin(), rules.end(), [](const model::LayerRule& rule) {
               return rule.attends() && rule.window == 0;
             });
           }>},
          {"save", Bind<&Save>},
          {"save_gguf", Bind<&SaveGguf>},
          {"save_gradients", Bind<&SaveGradients>},
          {"generate", BindRaw<&Generate, 4>},
          {"rollout", BindRaw<&Rollout, 3>},
          {"first_tokens", BindRaw<&FirstTokens, 4>},
          {"__tostring", Bind<&DescribeModel>},
      });
  Class<Head>::Register(L, "Head",
                        {
                            {"weight", Bind<[](Head& head) { return head.weight_VD; }>},
                            {"scale", Bind<[](Head& head) { return head.scale; }>},
                            {"softcap", Bind<[](Head& head) { return head.softcap; }>},
                            {"low_rank", Bind<&PushLowRank>},
                            {"__tostring", Bind<[](Head& head) {
                               return absl::StrCat("Head ", head.weight_VD->name(),
                                                   head.low_rank.has_value() ? " with LoRA" : "");
                             }>},
                        });
  Class<model::ValueHead>::Register(
      L, "ValueHead",
      {
          {"weight", Bind<[](model::ValueHead& head) { return head.weight_1D; }>},
          {"bias", Bind<[](model::ValueHead& head) { return head.bias_1; }>},
          {"parameters", Bind<[](model::ValueHead& head) {
             return std::make_shared<ParameterList>(ParameterList{{head.weight_1D, head.bias_1}});
           }>},
          {"dropout", Bind<[](model::ValueHead& head) { return head.dropout; }>},
          {"found", Bind<[](model::ValueHead& head) { return head.found; }>},
          {"save", Bind<&SaveValueHead>},
          {"__tostring", Bind<[](model::ValueHead& head) {
             return absl::StrCat("ValueHead ", head.weight_1D->shape()[1], " -> 1");
           }>},
      });
  PushModule(L, "moonring.model",
             {
                 {"open", Bind<[](std::string path) { return model::Checkpoint::Open(path); }>},
                 {"open_fresh", Bind<[](std::string path, int64_t seed) {
                    return model::Checkpoint::OpenFresh(path, static_cast<uint64_t>(seed));
                  }>},
                 {"open_config",
                  Bind<[](std::string path) { return model::Checkpoint::OpenConfig(path); }>},
                 {"companions", Bind<&model::CompanionsOf>},
                 {"file_mark", Bind<[](std::string path) { return model::MarkOfFile(path); }>},
                 {"take_changed_files", Bind<[] { return model::TakeChangedFiles(); }>},
                 {"is_companion", Bind<[](std::string name) { return model::IsCompanion(name); }>},
                 {"load", Bind<&LoadModel>},
                 {"adapt", Bind<&Adapt>},
                 {"copy", Bind<&Copy>},
                 {"rotated_block", Bind<&RotatedBlock>},
                 {"activation_place", Bind<&PlaceOfActivations>},
                 {"fastest_products", Bind<&FastestProducts>},
                 {"checked_products", Bind<&CheckedProducts>},
                 {"device", Bind<&Device>},
                 {"gpus", Bind<&Gpus>},
                 {"gpu_memory", Bind<&GpuMemory>},
             });
}

}  // namespace moonring::lua
