// Checkpoints, models and decoding.

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/detail/CUDAHooksInterface.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "attention/attention.h"
#include "comm/torch_status.h"
#include "lua/bindings.h"
#include "lua/class.h"
#include "lua/handles.h"
#include "lua/options.h"
#include "lua/tensor.h"
#include "model/checkpoint.h"
#include "model/safetensors_writer.h"
#include "model/sampler.h"
#include "model/save_folder.h"
#include "model/staged_files.h"
#include "model/transformer.h"

namespace moonring::lua {
namespace {

constexpr int64_t kShardBytes = 5'000'000'000;  // of a safetensors file, as Transformers cuts them

struct LoadedModel {
  std::shared_ptr<model::Checkpoint> checkpoint;
  std::shared_ptr<model::Transformer> transformer;
};

// `precision`: fp32 | bf16 (fp32 weights, bf16 matmuls) | pure_bf16 | fp64.
model::TransformerOptions PrecisionOf(const std::string& precision) {
  if (precision == "fp32") return {};
  if (precision == "bf16") return {.matmul_dtype = at::kBFloat16};
  if (precision == "pure_bf16") return {.weight_dtype = at::kBFloat16, .matmul_dtype = at::kBFloat16};
  if (precision == "fp64") return {.weight_dtype = at::kDouble, .matmul_dtype = at::kDouble};
  TORCH_CHECK_VALUE(false, "precision: wanted fp32, bf16, pure_bf16 or fp64, got '", precision, "'");
}

std::shared_ptr<LoadedModel> LoadModel(std::shared_ptr<model::Checkpoint> checkpoint, Options options) {
  model::TransformerOptions wanted = PrecisionOf(options.Get<std::string>("precision", "fp32"));
  const std::string recompute = options.Get<std::string>("recompute", "block");
  wanted.frozen = options.Get<bool>("frozen", false);
  const std::string device = options.Get<std::string>("device", "cpu");
  options.Finish();
  TORCH_CHECK_VALUE(device == "cpu" || device == "cuda", "device: wanted cpu or cuda, got '", device, "'");
  wanted.device = c10::Device(device);
  TORCH_CHECK_VALUE(recompute == "block" || recompute == "selective" || recompute == "none", "recompute: wanted block, selective or none, got '", recompute,
                    "'");
  wanted.recompute = recompute == "block" ? model::Recompute::kBlock : recompute == "selective" ? model::Recompute::kSelective : model::Recompute::kNone;
  auto transformer = comm::ValueOrThrow(model::Transformer::Load(checkpoint, wanted));
  return std::make_shared<LoadedModel>(LoadedModel{std::move(checkpoint), std::move(transformer)});
}

at::Tensor Forward(LoadedModel& model, at::Tensor ids_T, at::Tensor positions_T, std::shared_ptr<attention::PlannedAttention> plan) {
  return model.transformer->Forward(ids_T, positions_T, std::move(plan));
}

void Save(LoadedModel& model, std::string folder) {
  const model::TransformerOptions& options = model.transformer->options();
  comm::ThrowIfError(model::SaveFolder(folder, model.transformer->config(), model.transformer->parameters(), options.weight_dtype,
                                       model.checkpoint->companions(), kShardBytes));
}

// The gradients under their weights' names, in one file.
void SaveGradients(LoadedModel& model, std::string path) {
  const std::filesystem::path file(path);
  auto staged = comm::ValueOrThrow(model::StagedFiles::Create(file.has_parent_path() ? file.parent_path().string() : "."));
  std::vector<model::TensorToWrite> tensors;
  at::ScalarType dtype = at::kFloat;
  for (const auto& parameter : model.transformer->parameters()) {
    if (!parameter->trainable()) continue;
    dtype = parameter->gradient_dtype();
    tensors.push_back({parameter->name(), parameter->weight().sizes().vec(), [parameter] { return parameter->GradientOrZeros(); }});
  }
  comm::ThrowIfError(model::StageSafetensors(staged, file.filename().string(), tensors, dtype));
  comm::ThrowIfError(staged.Commit());
}

std::string MatmulDtype(LoadedModel& model) {
  const at::ScalarType dtype = model.transformer->options().matmul_dtype;
  return dtype == at::kBFloat16 ? "bf16" : dtype == at::kDouble ? "fp64" : "fp32";
}

int64_t Gpus() { return at::hasCUDA() ? at::detail::getCUDAHooks().deviceCount() : 0; }

// "cpu" or "cuda" for what was asked: auto takes a GPU where this build and this machine have one. Which one is a rank's own
// was settled when its world connected.
std::string Device(std::string asked) {
  const int64_t gpus = Gpus();
  if (asked == "cpu" || (asked == "auto" && gpus == 0)) return "cpu";
  TORCH_CHECK_VALUE(asked == "cuda" || asked == "auto", "device: wanted cpu, cuda or auto, got '", asked, "'");
  if (gpus == 0) comm::ThrowIfError(absl::FailedPreconditionError("--device cuda: this build or this machine has no GPU"));
  return "cuda";
}

// The ids of an answer; `on_token`, where given, sees each as it is made and ends the answer by returning false.
int Generate(lua_State* L) {
  LoadedModel& model = *Class<LoadedModel>::Read(L, 1);
  const auto prompt = Value<std::vector<int64_t>>::Read(L, 2);
  Options options(L, 3);
  model::SamplingOptions sampling;
  sampling.max_new_tokens = options.Get<int64_t>("max_new_tokens", sampling.max_new_tokens);
  sampling.temperature = options.Get<double>("temperature", sampling.temperature);
  sampling.top_k = options.Get<int64_t>("top_k", sampling.top_k);
  sampling.top_p = options.Get<double>("top_p", sampling.top_p);
  sampling.repetition_penalty = options.Get<double>("repetition_penalty", sampling.repetition_penalty);
  sampling.stop_ids = options.Get<std::vector<int64_t>>("stop_ids", {});
  sampling.seed = static_cast<uint64_t>(options.Get<int64_t>("seed", 0));
  options.Finish();
  std::function<bool(int64_t)> on_token;
  if (!lua_isnoneornil(L, 4)) {
    luaL_checktype(L, 4, LUA_TFUNCTION);
    on_token = [L](int64_t id) {
      lua_pushvalue(L, 4);
      lua_pushnumber(L, static_cast<double>(id));
      lua_call(L, 1, 1);
      const bool go_on = !(lua_isboolean(L, -1) && lua_toboolean(L, -1) == 0);
      lua_pop(L, 1);
      return go_on;
    };
  }
  model::Sampler sampler(*model.transformer);
  return Value<std::vector<int64_t>>::Push(L, comm::ValueOrThrow(sampler.Generate(prompt, sampling, on_token)));
}

std::optional<std::string> Companion(model::Checkpoint& checkpoint, std::string name) {
  const auto found = checkpoint.companions().find(name);
  return found == checkpoint.companions().end() ? std::nullopt : std::optional<std::string>(found->second);
}

}  // namespace

void OpenModel(lua_State* L) {
  Class<model::Checkpoint>::Register(
      L, "Checkpoint",
      {
          {"path", Bind<[](model::Checkpoint& checkpoint) { return checkpoint.path(); }>},
          {"companion", Bind<&Companion>},
          {"eos_token_ids", Bind<[](model::Checkpoint& checkpoint) { return checkpoint.config().eos_token_ids; }>},
          {"max_position_embeddings", Bind<[](model::Checkpoint& checkpoint) { return checkpoint.config().max_position_embeddings; }>},
          {"vocab_size", Bind<[](model::Checkpoint& checkpoint) { return checkpoint.config().vocab_size; }>},
          {"__tostring",
           Bind<[](model::Checkpoint& checkpoint) { return absl::StrCat("Checkpoint ", checkpoint.config().architecture, " at ", checkpoint.path()); }>},
      });
  Class<LoadedModel>::Register(
      L, "Model",
      {
          {"forward", Bind<&Forward>},
          {"head", Bind<[](LoadedModel& model) { return model.transformer->head(); }>},
          {"parameters", Bind<[](LoadedModel& model) { return std::make_shared<ParameterList>(ParameterList{model.transformer->parameters()}); }>},
          {"matmul_dtype", Bind<&MatmulDtype>},
          {"heads", Bind<[](LoadedModel& model) {
             const model::ModelConfig& config = model.transformer->config();
             return std::make_tuple(config.heads, config.kv_heads, config.head_dim);
           }>},
          {"save", Bind<&Save>},
          {"save_gradients", Bind<&SaveGradients>},
          {"generate", &Generate},
          {"__tostring", Bind<[](LoadedModel& model) {
             const model::ModelConfig& config = model.transformer->config();
             return absl::StrCat("Model ", config.architecture, ": ", config.layers, " layers, hidden ", config.hidden_size, ", ", config.heads, "/",
                                 config.kv_heads, " heads, vocabulary ", config.vocab_size);
           }>},
      });
  PushModule(L, "moonring.model",
             {
                 {"open", Bind<[](std::string path) { return model::Checkpoint::Open(path); }>},
                 {"load", Bind<&LoadModel>},
                 {"device", Bind<&Device>},
                 {"gpus", Bind<&Gpus>},
             });
}

}  // namespace moonring::lua
