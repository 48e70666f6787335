#include "model/checkpoint/checkpoint.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/files/confinement.h"
#include "base/files/input_file.h"
#include "base/status/status_macros.h"
#include "base/status/torch_status.h"
#include "base/text/ordered_json.h"
#include "model/checkpoint/companions.h"
#include "model/checkpoint/fresh_weights.h"
#include "model/checkpoint/resaved_weights.h"
#include "model/checkpoint/vocabulary_growth.h"
#include "model/config/text_config.h"
#include "model/config/weights.h"
#include "model/families/parse_config.h"
#include "model/families/rope_scaling.h"
#include "model/files/json_text.h"
#include "model/files/mapped_file.h"
#include "model/files/mxfp4.h"
#include "model/files/pickled_folder.h"
#include "model/files/safetensors.h"
#include "model/gguf/gguf.h"
#include "model/gguf/gguf_model.h"
#include "model/gguf/gguf_tokenizer.h"
#include "nlohmann/json.hpp"

namespace moonring::model {
namespace {

constexpr char kGenerationConfig[] = "generation_config.json";

std::string TextOf(const base::OrderedJson& json) {
  return json.dump(2, ' ', /*ensure_ascii=*/false) + "\n";
}

// Sets a field of a JSON object that is given as text.
void SetField(std::string& text, const char* key, const nlohmann::json& value) {
  base::OrderedJson json = base::OrderedJson::parse(text);
  json[key] = value;
  text = TextOf(json);
}

// Sets a field of a config.json: always in the section `first` (the top level or text_config), and
// also in the other section if that has the key.
enum class Part { kWhole, kText };
void SetField(ModelConfig& config, Part first, const char* key, const nlohmann::json& value) {
  base::OrderedJson root = base::OrderedJson::parse(config.json);
  base::OrderedJson& text = TextConfigOf(*config.family, root);
  if (first == Part::kText || text.contains(key)) text[key] = value;
  // This must be the last change, because it may invalidate the reference `text`.
  if (first == Part::kWhole || root.contains(key)) root[key] = value;
  config.json = TextOf(root);
}

// Whether a config that ParseConfig accepted is of a quantised model. The format is then MXFP4;
// ParseConfig refuses all others.
bool IsQuantized(const std::string& json) {
  return !nlohmann::json::parse(json).value("quantization_config", nlohmann::json()).is_null();
}

// Opens a folder's weights; prefers safetensors if a folder has both formats, as Transformers does.
absl::StatusOr<std::unique_ptr<WeightStore>> OpenWeights(const std::string& dir) {
  if (SafetensorsFolder::IsIn(dir)) return SafetensorsFolder::Open(dir);
  if (PickledFolder::IsIn(dir)) return PickledFolder::Open(dir);
  return absl::NotFoundError(absl::StrCat(
      dir,
      ": no model.safetensors and no pytorch_model.bin, nor the index of one in several files"));
}

// Whether all weights that the config requires and the files contain have the required shapes.
bool ShapesFit(const ModelConfig& config, const WeightStore& store) {
  for (const WeightShape& wanted : WantedWeights(config)) {
    const auto found = store.weights().find(wanted.name);
    if (found != store.weights().end() && found->second.shape != wanted.shape) return false;
  }
  return true;
}

}  // namespace

absl::StatusOr<std::shared_ptr<Checkpoint>> Checkpoint::Open(const std::string& path) {
  std::shared_ptr<Checkpoint> checkpoint(new Checkpoint);
  checkpoint->path_ = path;
  // This check comes first, so that nothing about the path is revealed if reading it is not
  // allowed.
  RETURN_IF_ERROR(base::CheckReading(path));
  std::error_code ignored;
  if (path.empty() || !PathExists(path))
    return absl::NotFoundError(absl::StrCat("model_name_or_path: no folder or file '", path, "'"));
  if (!std::filesystem::is_directory(path, ignored)) {
    RETURN_IF_ERROR(checkpoint->OpenGguf(path));
  } else if (PathExists(path + "/config.json")) {
    RETURN_IF_ERROR(checkpoint->OpenFolder());
  } else {
    ASSIGN_OR_RETURN(const std::string file, TheGgufIn(path));
    RETURN_IF_ERROR(checkpoint->OpenGguf(file));
  }
  RETURN_IF_ERROR(checkpoint->CheckWeights());
  return checkpoint;
}

absl::StatusOr<std::shared_ptr<Checkpoint>> Checkpoint::OpenConfig(const std::string& path) {
  RETURN_IF_ERROR(base::CheckReading(path));
  std::error_code ignored;
  const bool folder = std::filesystem::is_directory(path, ignored);
  const std::string file = folder ? path + "/config.json" : path;
  if (!absl::EndsWith(file, ".json") || !PathExists(file)) return Open(path);
  std::shared_ptr<Checkpoint> checkpoint(new Checkpoint);
  checkpoint->path_ = path;
  RETURN_IF_ERROR(checkpoint->ReadConfig(file));
  return checkpoint;
}

absl::StatusOr<std::shared_ptr<Checkpoint>> Checkpoint::OpenFresh(const std::string& path,
                                                                  uint64_t seed) {
  RETURN_IF_ERROR(base::CheckReading(path));
  const std::string file = path + "/config.json";
  if (path.empty() || !PathExists(path))
    return absl::NotFoundError(absl::StrCat("model_name_or_path: no folder or file '", path, "'"));
  if (!PathExists(file)) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": fresh weights are made by a config.json: expected a folder that has one"));
  }
  std::shared_ptr<Checkpoint> checkpoint(new Checkpoint);
  checkpoint->path_ = path;
  RETURN_IF_ERROR(checkpoint->ReadConfig(file));
  if (checkpoint->config_.family->composite()) {
    return absl::UnimplementedError(
        absl::StrCat(file, ": ", checkpoint->config_.architecture,
                     ": no fresh weights for a model of which only the text model is trained: its "
                     "other weights would be missing"));
  }
  ASSIGN_OR_RETURN(checkpoint->companions_, CompanionsIn(path));
  ASSIGN_OR_RETURN(checkpoint->store_, FreshWeights::Create(checkpoint->config_, file, seed));
  return checkpoint;
}

absl::Status Checkpoint::ReadConfig(const std::string& file) {
  RETURN_IF_ERROR(base::CheckWholeFile(file, base::kMostWrittenFile));
  ASSIGN_OR_RETURN(const auto config_file, MappedFile::Open(file));
  ASSIGN_OR_RETURN(config_, ParseConfig(config_file->bytes(), file));
  return absl::OkStatus();
}

absl::Status Checkpoint::OpenFolder() {
  RETURN_IF_ERROR(ReadConfig(path_ + "/config.json"));
  ASSIGN_OR_RETURN(store_, OpenWeights(path_));
  if (IsQuantized(config_.json)) {
    ASSIGN_OR_RETURN(store_, ReadMxfp4(std::move(store_)));
  }
  ASSIGN_OR_RETURN(companions_, CompanionsIn(path_));
  if (!config_.family->stored_names.empty()) RETURN_IF_ERROR(Rename());
  if (config_.family->composite()) FindTie();
  FindExperts();
  if (renamed_ == nullptr) store_ = AsPublished(std::move(store_), config_);
  return absl::OkStatus();
}

// Needed for Qwen3-VL-MoE, whose stacked experts are transposed in the published files but not in
// those that Transformers 5 saves.
void Checkpoint::FindExperts() {
  ModelConfig stacked = config_;
  stacked.experts.storage = ExpertStorage::kStacked;
  if (config_.experts.storage == ExpertStorage::kTransposedHalves && !ShapesFit(config_, *store_) &&
      ShapesFit(stacked, *store_))
    config_ = stacked;
  if (config_.experts.storage != ExpertStorage::kEach) return;
  for (int64_t layer = 0; layer < config_.layers; ++layer) {
    const std::string name = WeightName(stacked, layer, kExpertsGateUp);
    if (!name.empty() && store_->weights().contains(name)) config_ = stacked;
  }
}

absl::Status Checkpoint::Rename() {
  ASSIGN_OR_RETURN(std::unique_ptr<RenamedWeights> weights,
                   RenamedWeights::Create(std::move(store_), *config_.family));
  renamed_ = weights.get();
  store_ = std::move(weights);
  return absl::OkStatus();
}

// Finds whether the head of a composite model is tied. Transformers 4 reads this from text_config,
// and Transformers 5 from the top level of the config; their defaults differ. Transformers 5 never
// ties a head that the files contain. If the two sections disagree, the head is tied here unless
// the files contain it.
void Checkpoint::FindTie() {
  constexpr char kKey[] = "tie_word_embeddings";
  base::OrderedJson root = base::OrderedJson::parse(config_.json);
  const base::OrderedJson& text = TextConfigOf(*config_.family, root);
  if (!root.contains(kKey) || !text.contains(kKey) || root[kKey] != text[kKey])
    config_.tie_word_embeddings = !store_->weights().contains(HeadName(config_));
}

absl::Status Checkpoint::OpenGguf(const std::string& path) {
  ASSIGN_OR_RETURN(std::shared_ptr<const GgufFile> file, GgufFile::Open(path));
  ASSIGN_OR_RETURN(companions_, TokenizerFilesFromGguf(*file));
  ASSIGN_OR_RETURN(std::unique_ptr<GgufModel> model, GgufModel::Open(std::move(file)));
  config_ = model->config();
  store_ = std::move(model);
  return absl::OkStatus();
}

absl::Status Checkpoint::CheckWeights() const {
  std::vector<WeightShape> missing;
  for (WeightShape& wanted : WantedWeights(config_)) {
    const auto found = store_->weights().find(wanted.name);
    if (found == store_->weights().end()) {
      missing.push_back(std::move(wanted));
      continue;
    }
    const StoredWeight& stored = found->second;
    if (stored.shape != wanted.shape) {
      return absl::InvalidArgumentError(absl::StrCat(stored.file, ": ", wanted.name,
                                                     ": expected shape ", ShapeText(wanted.shape),
                                                     ", found ", ShapeText(stored.shape)));
    }
    if (!stored.unreadable.empty())
      return absl::UnimplementedError(
          absl::StrCat(stored.file, ": ", wanted.name, ": ", stored.unreadable));
  }
  if (missing.empty()) return absl::OkStatus();
  const std::string others =
      missing.size() == 1
          ? ""
          : absl::StrCat(", and ", missing.size() - 1,
                         missing.size() == 2 ? " more, " : " more, such as ", missing[1].name);
  return absl::NotFoundError(absl::StrCat(path_, ": the tensor ", missing[0].name, " ",
                                          ShapeText(missing[0].shape), " is missing", others));
}

std::vector<std::string> Checkpoint::names() const {
  std::vector<std::string> names;
  for (WeightShape& weight : WantedWeights(config_)) names.push_back(std::move(weight.name));
  return names;
}

std::vector<std::string> Checkpoint::UnwantedNames() const {
  const std::vector<std::string> list = names();
  const std::set<std::string> wanted(list.begin(), list.end());
  std::vector<std::string> unwanted;
  if (store_ == nullptr) return unwanted;
  for (const auto& [name, weight] : store_->weights()) {
    const bool tied_head = config_.tie_word_embeddings && name == HeadName(config_);
    if (!wanted.contains(name) && !tied_head) unwanted.push_back(name);
  }
  return unwanted;
}

std::vector<std::string> Checkpoint::extra_names() const {
  if (config_.family->composite()) return {};
  std::vector<std::string> extra = UnwantedNames();
  std::erase_if(extra, [](const std::string& name) { return IsStoredBuffer(name); });
  return extra;
}

CarriedWeights Checkpoint::carried() const {
  CarriedWeights carried;
  if (store_ == nullptr) return carried;
  for (const WeightShape& weight : WantedWeights(config_)) {
    if (!weight.learns)
      carried.dtypes[weight.name] = base::ValueOrThrow(store_->Read(weight.name)).scalar_type();
  }
  if (renamed_ == nullptr) return carried;
  carried.stored_name = [this](const std::string& name) { return renamed_->StoredName(name); };
  if (!config_.family->composite()) return carried;
  for (const std::string& name : UnwantedNames()) {
    // A view of the mapped file: its bytes are read when they are written.
    const auto read = [this, name] { return base::ValueOrThrow(store_->Read(name)); };
    carried.tensors.push_back({.name = renamed_->StoredName(name),
                               .shape = store_->weights().at(name).shape,
                               .dtype = read().scalar_type(),
                               .tensor = read});
  }
  return carried;
}

std::vector<std::string> Checkpoint::stored_dtypes() const {
  if (store_ == nullptr) return {};
  std::map<std::string, int64_t> elements;
  for (const WeightShape& wanted : WantedWeights(config_)) {
    int64_t count = 1;
    for (const int64_t size : wanted.shape) count *= size;
    elements[store_->weights().at(wanted.name).dtype] += count;
  }
  std::vector<std::string> dtypes;
  for (const auto& [dtype, count] : elements) dtypes.push_back(dtype);
  std::stable_sort(dtypes.begin(), dtypes.end(), [&](const std::string& a, const std::string& b) {
    return elements[a] > elements[b];
  });
  return dtypes;
}

std::vector<std::string> Checkpoint::files() const {
  if (store_ == nullptr) return {};
  std::set<std::string> files;
  for (const auto& [name, weight] : store_->weights()) files.insert(weight.file);
  return {files.begin(), files.end()};
}

uint64_t Checkpoint::file_bytes() const {
  uint64_t bytes = 0;
  for (const std::string& file : files()) {
    std::error_code error;
    const uint64_t size = std::filesystem::file_size(file, error);
    if (!error) bytes += size;
  }
  return bytes;
}

absl::StatusOr<std::string> Checkpoint::ScaleRope(absl::string_view kind, int64_t length) {
  ASSIGN_OR_RETURN(ScaledRope scaled, model::ScaleRope(config_, kind, length, path_));
  // These two fields come from the weight files, not from the text of config.json.
  scaled.config.experts.storage = config_.experts.storage;
  scaled.config.tie_word_embeddings = config_.tie_word_embeddings;
  config_ = std::move(scaled.config);
  return std::move(scaled.report);
}

void Checkpoint::GrowVocabulary(int64_t tokens, uint64_t seed) {
  growth_seed_ = seed;
  const auto grow = [&](int64_t& rows, const char* key) {
    if (tokens <= rows) return;
    rows = GrownHeight(tokens);
    SetField(config_, Part::kText, key, rows);
  };
  grow(config_.vocab_size, "vocab_size");
  if (config_.layer_inputs.width > 0)
    grow(config_.layer_inputs.vocab_size, "vocab_size_per_layer_input");
}

void Checkpoint::ReplaceCompanions(const std::map<std::string, std::string>& files) {
  for (const auto& [name, contents] : files) companions_[name] = contents;
}

absl::Status Checkpoint::EndWith(int64_t eos) {
  config_.eos_token_ids = {eos};
  SetField(config_, Part::kWhole, "eos_token_id", eos);
  const auto generation = companions_.find(kGenerationConfig);
  if (generation == companions_.end()) return absl::OkStatus();
  ASSIGN_OR_RETURN(
      const nlohmann::json json,
      ParseJsonObject(generation->second, absl::StrCat(path_, "/", kGenerationConfig)));
  nlohmann::json ends = nlohmann::json::array({eos});
  const nlohmann::json before = json.value("eos_token_id", nlohmann::json());
  if (before.is_array()) ends.insert(ends.end(), before.begin(), before.end());
  if (before.is_number()) ends.push_back(before);
  SetField(generation->second, "eos_token_id", ends);
  return absl::OkStatus();
}

std::shared_ptr<const kernels::WeightCode> Checkpoint::CodeOf(const std::string& name) const {
  return store_ == nullptr ? nullptr : store_->CodeOf(name);
}

absl::StatusOr<kernels::PackedWeight> Checkpoint::LoadPacked(const std::string& name) const {
  ASSIGN_OR_RETURN(kernels::PackedWeight packed, store_->ReadPacked(name), path_);
  return packed;
}

absl::StatusOr<at::Tensor> Checkpoint::Load(const std::string& name, at::ScalarType dtype) const {
  if (store_ == nullptr)
    return absl::FailedPreconditionError(
        absl::StrCat(path_, ": ", name, ": opened for its config alone, without weights"));
  int64_t rows = 0;  // rows of an embedding or head after growth
  if (name == EmbeddingName(config_) || name == HeadName(config_)) rows = config_.vocab_size;
  if (config_.layer_inputs.width > 0 && name == LayerTableName(config_))
    rows = config_.layer_inputs.vocab_size;
  at::Tensor loaded;
  RETURN_IF_ERROR(
      base::TryTorch([&]() -> absl::Status {
        ASSIGN_OR_RETURN(const at::Tensor stored, store_->Read(name));
        loaded = (rows > 0 ? WithNewRows(stored, rows, growth_seed_, name) : stored).to(dtype);
        return absl::OkStatus();
      }),
      path_, ": ", name);
  return loaded;
}

}  // namespace moonring::model
