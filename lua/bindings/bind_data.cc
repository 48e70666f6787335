// Lua bindings for data sets and training steps.

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/status/torch_status.h"
#include "comm/mesh.h"
#include "data/dataset.h"
#include "data/example_digest.h"
#include "data/example_ids.h"
#include "data/mixing/dataset_split.h"
#include "data/pipeline/prefetcher.h"
#include "data/preprocess_writer.h"
#include "data/similarity/text_similarity.h"
#include "data/similarity/word_list.h"
#include "data/similarity/word_segmenter.h"
#include "data/steps/dataset_steps.h"
#include "data/steps/packer.h"
#include "data/steps/step_batches.h"
#include "data/steps/step_source.h"
#include "data/steps/stream_steps.h"
#include "data/stream/example_stream.h"
#include "data/text/chat_template.h"
#include "data/text/template_spec.h"
#include "data/text/tokenizer.h"
#include "data/tokenized_folder.h"
#include "lua/binding/class.h"
#include "lua/binding/options.h"
#include "lua/binding/tensor.h"
#include "lua/bindings/bindings.h"
#include "lua/bindings/dataset.h"
#include "lua/vm/vm.h"

namespace moonring::lua {
namespace {

constexpr int64_t kStepsAhead = 2;
using Steps = data::Prefetcher<data::Step>;

template <typename T>
std::shared_ptr<T> Shared(T value) {
  return std::make_shared<T>(std::move(value));
}

std::shared_ptr<Dataset> Shared(data::PreparedDataset prepared) {
  return Shared(
      Dataset{std::make_shared<const std::vector<data::Example>>(std::move(prepared.examples)),
              std::move(prepared.report), std::move(prepared.lengths), std::move(prepared.uses)});
}

// Loads data sets. Returns the training examples, and the evaluation examples if val_size is given
// (else nil).
std::tuple<std::shared_ptr<Dataset>, std::shared_ptr<Dataset>> LoadDataset(Options options) {
  auto tokenizer = options.Require<std::shared_ptr<data::Tokenizer>>("tokenizer");
  const data::DatasetOptions wanted = ReadDatasetOptions(options);
  const double val_size = options.Get<double>("val_size", 0);
  const bool held_out_one_turn = options.Get<bool>("held_out_one_turn", false);
  options.Finish();
  if (!data::HoldsOut(val_size))
    return {Shared(base::ValueOrThrow(data::PrepareDataset(wanted, std::move(tokenizer)))),
            nullptr};
  auto [train, held_out] = base::ValueOrThrow(
      data::PrepareSplit(wanted, std::move(tokenizer), val_size, held_out_one_turn));
  return {Shared(std::move(train)), Shared(std::move(held_out))};
}

// Loads tokenized data sets, by split: "train", "validation", ...
std::map<std::string, std::shared_ptr<Dataset>> LoadTokenized(Options options) {
  auto tokenizer = options.Require<std::shared_ptr<data::Tokenizer>>("tokenizer");
  const std::string path = options.Require<std::string>("path");
  const data::Stage stage =
      base::ValueOrThrow(data::ParseStage(options.Get<std::string>("stage", "sft")));
  const data::ChatTemplate chat_template = base::ValueOrThrow(data::ChatTemplate::Create(
      options.Require<data::TemplateSpec>("template"), std::move(tokenizer), std::nullopt));
  const std::string length_column = options.Get<std::string>("length_column", "");
  const bool with_train = options.Get<bool>("with_train", true);
  options.Finish();
  std::map<std::string, std::shared_ptr<Dataset>> splits;
  for (auto& [name, prepared] : base::ValueOrThrow(
           data::LoadTokenized(path, stage, chat_template.pad(), length_column, with_train)))
    splits[name] = Shared(std::move(prepared));
  return splits;
}

absl::Status SaveTokenized(std::string path, std::map<std::string, std::shared_ptr<Dataset>> splits,
                           std::string stage) {
  std::map<std::string, const std::vector<data::Example>*> examples;
  for (const auto& [name, dataset] : splits) examples[name] = dataset->examples.get();
  return data::SaveTokenized(path, examples, base::ValueOrThrow(data::ParseStage(stage)));
}

std::shared_ptr<data::ExampleStream> OpenStream(Options options) {
  auto tokenizer = options.Require<std::shared_ptr<data::Tokenizer>>("tokenizer");
  data::StreamOptions wanted{.dataset = ReadDatasetOptions(options)};
  wanted.buffer_size = options.Get<int64_t>("buffer_size", wanted.buffer_size);
  wanted.shuffle = options.Get<bool>("shuffle", true);
  wanted.lanes = options.Get<int64_t>("lanes", 1);
  wanted.held_out = options.Get<int64_t>("val_size", 0);
  wanted.only_held_out = options.Get<bool>("only_held_out", false);
  options.Finish();
  return base::ValueOrThrow(data::ExampleStream::Create(std::move(wanted), std::move(tokenizer)));
}

// Pushes the example's documents as a list of {ids, labels}, and whether its answer is desirable
// (stage kto; nil in other stages).
Pushed PushExample(lua_State* L, Dataset& dataset, int64_t index) {
  if (index < 0 || index >= static_cast<int64_t>(dataset.examples->size())) {
    base::ThrowIfError(
        absl::OutOfRangeError(absl::StrCat("example ", index, " of ", dataset.examples->size())));
  }
  const data::Example& example = (*dataset.examples)[index];
  lua_createtable(L, static_cast<int>(example.documents.size()), 0);
  for (size_t d = 0; d < example.documents.size(); ++d) {
    lua_createtable(L, 0, 2);
    Value<std::vector<int32_t>>::Push(L, example.documents[d].ids);
    lua_setfield(L, -2, "ids");
    Value<std::vector<int32_t>>::Push(L, example.documents[d].labels);
    lua_setfield(L, -2, "labels");
    lua_rawseti(L, -2, static_cast<int>(d + 1));
  }
  return {1 + Value<std::optional<bool>>::Push(L, example.desirable)};
}

// Pushes, for each row of the data set, what became of it: a list of {where, left_out, prompt_cut,
// answer_cut}.
Pushed PushRowUses(lua_State* L, Dataset& dataset) {
  lua_createtable(L, static_cast<int>(dataset.uses.size()), 0);
  for (size_t i = 0; i < dataset.uses.size(); ++i) {
    const data::RowUse& use = dataset.uses[i];
    lua_createtable(L, 0, 4);
    Value<std::string>::Push(L, use.where);
    lua_setfield(L, -2, "where");
    if (!use.left_out.empty()) {
      Value<std::string>::Push(L, use.left_out);
      lua_setfield(L, -2, "left_out");
    }
    Value<int64_t>::Push(L, use.prompt_cut);
    lua_setfield(L, -2, "prompt_cut");
    Value<int64_t>::Push(L, use.answer_cut);
    lua_setfield(L, -2, "answer_cut");
    lua_rawseti(L, -2, static_cast<int>(i + 1));
  }
  return {1};
}

// Returns the text about how the rows of a data set were used; with `other`, of both data sets
// added.
std::string ReportOf(Dataset& dataset, std::optional<std::string> use,
                     std::optional<std::shared_ptr<Dataset>> other) {
  TORCH_CHECK_VALUE(!use.has_value() || *use == "learnt" || *use == "evaluated",
                    "report: expected 'learnt' or 'evaluated', got '", *use, "'");
  data::DatasetReport report = dataset.report;
  if (other.has_value()) report.Add((*other)->report);
  return report.Text(use == "evaluated");
}

// Pushes the prompts of a step's examples, on all dp ranks, as a list of {ids, row}; row: the
// example's row of the data set as JSON.
Pushed PushPrompts(lua_State* L, data::Step& step) {
  lua_createtable(L, static_cast<int>(step.examples.size()), 0);
  for (size_t i = 0; i < step.examples.size(); ++i) {
    const data::Example& example = *step.examples[i];
    TORCH_CHECK_VALUE(!example.row.empty(),
                      "prompts: the step's examples are not prompts, but of another stage");
    lua_createtable(L, 0, 2);
    Value<std::vector<int32_t>>::Push(L, example.documents[0].ids);
    lua_setfield(L, -2, "ids");
    Value<std::string>::Push(L, example.row);
    lua_setfield(L, -2, "row");
    lua_rawseti(L, -2, static_cast<int>(i + 1));
  }
  return {1};
}

// Packs the steps' examples into micro-batches for this rank.
std::shared_ptr<Steps> PackSteps(std::unique_ptr<data::Source<data::StepExamples>> examples,
                                 const std::optional<std::shared_ptr<comm::Mesh>>& mesh,
                                 int64_t micro_batch_tokens, bool share_prefixes) {
  const data::PackOptions packing = {.dp = mesh.has_value() ? (*mesh)->dp_size() : 1,
                                     .micro_batch_tokens = micro_batch_tokens,
                                     .share_prefixes = share_prefixes};
  auto source = base::ValueOrThrow(data::StepSource::Create(
      std::move(examples), packing, mesh.has_value() ? (*mesh)->dp_rank() : 0));
  return std::make_shared<Steps>(std::move(source), kStepsAhead);
}

std::vector<int64_t> TokensOf(const Dataset& dataset) {
  std::vector<int64_t> lengths;
  for (const data::Example& each : *dataset.examples) lengths.push_back(each.trained_tokens());
  return lengths;
}

std::shared_ptr<Steps> MakeSteps(Dataset& dataset, Options options) {
  const auto mesh = options.Find<std::shared_ptr<comm::Mesh>>("mesh");
  data::StepBatchesOptions order;
  order.examples = static_cast<int64_t>(dataset.examples->size());
  order.examples_per_step = options.Require<int64_t>("batch");
  order.seed = options.Get<int64_t>("seed", 42);
  order.shuffle = options.Get<bool>("shuffle", true);
  order.total_steps = options.Find<int64_t>("total_steps");
  const std::optional<int64_t> whole = options.Find<int64_t>("drop_last");
  order.drop_last = whole.has_value();
  order.batch = whole.value_or(1);
  if (options.Get<bool>("group_by_length", false))
    order.lengths = dataset.lengths.empty() ? TokensOf(dataset) : dataset.lengths;
  order.orders = options.Get<std::vector<std::vector<int64_t>>>("orders", {});
  const int64_t micro_batch_tokens = options.Require<int64_t>("micro_batch_tokens");
  const bool share_prefixes = options.Get<bool>("share_prefixes", false);
  options.Finish();
  auto batches = base::ValueOrThrow(data::StepBatches::Create(order));
  return PackSteps(
      base::ValueOrThrow(data::DatasetSteps::Create(dataset.examples, std::move(batches))), mesh,
      micro_batch_tokens, share_prefixes);
}

std::shared_ptr<Steps> MakeStreamSteps(std::shared_ptr<data::ExampleStream> stream,
                                       Options options) {
  const auto mesh = options.Find<std::shared_ptr<comm::Mesh>>("mesh");
  data::StreamStepsOptions wanted;
  wanted.batch = options.Require<int64_t>("batch");
  wanted.batches = options.Get<int64_t>("batches", 1);
  wanted.total_steps = options.Find<int64_t>("total_steps");
  const int64_t micro_batch_tokens = options.Require<int64_t>("micro_batch_tokens");
  const bool share_prefixes = options.Get<bool>("share_prefixes", false);
  options.Finish();
  return PackSteps(base::ValueOrThrow(data::StreamSteps::Create(std::move(stream), wanted)), mesh,
                   micro_batch_tokens, share_prefixes);
}

std::shared_ptr<data::Step> NextStep(Steps& steps) {
  std::optional<data::Step> step = base::ValueOrThrow(steps.Next());
  return step.has_value() ? std::make_shared<data::Step>(*std::move(step)) : nullptr;
}

// Returns handles to the micro-batches `batches`, which are a member of *step. The handles keep the
// step alive.
std::vector<std::shared_ptr<data::MicroBatch>> Handles(const std::shared_ptr<data::Step>& step,
                                                       std::vector<data::MicroBatch>& batches) {
  std::vector<std::shared_ptr<data::MicroBatch>> handles;
  for (data::MicroBatch& each : batches) handles.emplace_back(step, &each);
  return handles;
}

absl::Status Regroup(data::Step& step, std::vector<std::vector<int64_t>> groups,
                     std::optional<std::shared_ptr<comm::Mesh>> mesh) {
  return data::Regroup(groups, mesh.has_value() ? (*mesh)->dp_size() : 1,
                       mesh.has_value() ? (*mesh)->dp_rank() : 0, step);
}

// Packs the examples of a step into micro-batches once more. Returns a new step, because the given
// step's micro-batches may be in use.
std::shared_ptr<data::Step> Repacked(data::Step& step, int64_t micro_batch_tokens,
                                     std::optional<std::shared_ptr<comm::Mesh>> mesh) {
  TORCH_CHECK_VALUE(micro_batch_tokens >= 1, "micro_batch_tokens: expected at least 1, got ",
                    micro_batch_tokens);
  return std::make_shared<data::Step>(
      data::MakeStep({.batch = step.batch, .examples = step.examples, .families = step.families},
                     {.dp = mesh.has_value() ? (*mesh)->dp_size() : 1,
                      .micro_batch_tokens = micro_batch_tokens,
                      .share_prefixes = step.share_prefixes},
                     mesh.has_value() ? (*mesh)->dp_rank() : 0));
}

std::shared_ptr<data::WordSegmenter> OpenWordSegmenter(lua_State* L) {
  return Shared(
      data::WordSegmenter(base::ValueOrThrow(data::WordList::Read(HostOf(L).assets.words()))));
}

// Returns similarity scores under the names that LLaMA-Factory uses.
std::map<std::string, double> CompareTexts(data::WordSegmenter& segmenter, std::string prediction,
                                           std::string label) {
  const data::TextSimilarity found = data::CompareTexts(segmenter, prediction, label);
  return {{"bleu-4", found.bleu_4},
          {"rouge-1", found.rouge_1},
          {"rouge-2", found.rouge_2},
          {"rouge-l", found.rouge_l}};
}

}  // namespace

void OpenData(lua_State* L) {
  Class<Dataset>::Register(
      L, "Dataset",
      {
          {"size", Bind<[](Dataset& dataset) { return dataset.examples->size(); }>},
          {"example", Bind<&PushExample>},
          {"ids_from", Bind<[](Dataset& dataset, int32_t first) {
             return data::IdsFrom(*dataset.examples, first);
           }>},
          {"digest", Bind<[](Dataset& dataset) { return data::DigestOf(*dataset.examples); }>},
          {"report", Bind<&ReportOf>},
          {"row_uses", Bind<&PushRowUses>},
          {"report_json", Bind<[](Dataset& dataset) { return dataset.report.Json(); }>},
          {"cut_warning", Bind<[](Dataset& dataset) { return dataset.report.CutWarning(); }>},
          {"steps", Bind<&MakeSteps>},
          {"lengths", Bind<[](Dataset& dataset) { return TokensOf(dataset); }>},
          {"document_lengths", Bind<[](Dataset& dataset) {
             std::vector<int64_t> lengths;
             for (const data::Example& example : *dataset.examples) {
               for (const data::Document& document : example.documents)
                 lengths.push_back(document.size());
             }
             return lengths;
           }>},
          {"write", Bind<[](Dataset& dataset, std::string path) {
             return data::WritePreprocessed(path, *dataset.examples);
           }>},
          {"__tostring", Bind<[](Dataset& dataset) {
             return absl::StrCat("Dataset of ", dataset.examples->size(), " examples");
           }>},
      });
  Class<data::ExampleStream>::Register(
      L, "Stream",
      {
          {"size", Bind<[](data::ExampleStream&) { return std::optional<int64_t>(); }>},
          {"steps", Bind<&MakeStreamSteps>},
          {"whole", Bind<[](data::ExampleStream& stream, int64_t batch) {
             return Shared(base::ValueOrThrow(data::OnePass(stream, batch)));
           }>},
          {"report", Bind<[](data::ExampleStream& stream) { return stream.report().Text(); }>},
          {"report_json", Bind<[](data::ExampleStream& stream) { return stream.report().Json(); }>},
          {"cut_warning",
           Bind<[](data::ExampleStream& stream) { return stream.report().CutWarning(); }>},
          {"__tostring", Bind<[](data::ExampleStream& stream) {
             return absl::StrCat("Stream of ", stream.Names());
           }>},
      });
  Class<Steps>::Register(
      L, "Steps",
      {
          {"next", Bind<&NextStep>},
          {"save_state", Bind<[](Steps& steps) { return steps.SaveState(); }>},
          {"load_state",
           Bind<[](Steps& steps, std::string state) { return steps.LoadState(state); }>},
      });
  Class<data::Step>::Register(
      L, "Step",
      {
          {"epoch", Bind<[](data::Step& step) { return step.batch.epoch; }>},
          {"index", Bind<[](data::Step& step) { return step.batch.step; }>},
          {"last", Bind<[](data::Step& step) { return step.batch.last; }>},
          {"tokens", Bind<[](data::Step& step) { return step.tokens; }>},
          {"squares", Bind<[](data::Step& step) { return step.squares; }>},
          {"examples", Bind<[](data::Step& step) { return step.batch.examples; }>},
          {"size", Bind<[](data::Step& step) { return step.batch.examples.size(); }>},
          {"dp_size", Bind<[](data::Step& step) { return step.dp; }>},
          {"micro_batches", Bind<[](std::shared_ptr<data::Step> step) {
             return Handles(step, step->micro_batches);
           }>},
          {"lengths", Bind<[](data::Step& step) { return step.lengths; }>},
          {"prompts", Bind<&PushPrompts>},
          {"regroup", Bind<&Regroup>},
          {"repacked", Bind<&Repacked>},
          {"mismatched",
           Bind<[](std::shared_ptr<data::Step> step) { return Handles(step, step->mismatched); }>},
      });
  Class<data::MicroBatch>::Register(
      L, "MicroBatch",
      {
          {"sequence", Bind<[](std::shared_ptr<data::MicroBatch> batch) {
             return std::shared_ptr<comm::Sequence>(batch, &batch->sequence);
           }>},
          {"labels", Bind<[](data::MicroBatch& batch) { return batch.labels_T; }>},
          {"examples", Bind<[](data::MicroBatch& batch) { return batch.examples; }>},
          {"places", Bind<[](data::MicroBatch& batch) { return batch.places; }>},
          {"document_counts", Bind<[](data::MicroBatch& batch) { return batch.documents; }>},
          {"desirable", Bind<[](data::MicroBatch& batch) {
             return batch.desirable.empty() ? std::nullopt : std::optional(batch.desirable);
           }>},
      });
  Class<data::WordSegmenter>::Register(
      L, "WordSegmenter",
      {
          {"cut", Bind<[](data::WordSegmenter& segmenter, std::string text) {
             return segmenter.Cut(text);
           }>},
          {"compare", Bind<&CompareTexts>},
          {"__tostring", Bind<[](data::WordSegmenter&) { return std::string("WordSegmenter"); }>},
      });
  PushModule(
      L, "moonring.data",
      {
          {"word_segmenter", Bind<&OpenWordSegmenter>},
          {"load", Bind<&LoadDataset>},
          {"stream", Bind<&OpenStream>},
          {"has_tokenized", Bind<[](std::string path) { return data::HasTokenized(path); }>},
          {"load_tokenized", Bind<&LoadTokenized>},
          {"save_tokenized", Bind<&SaveTokenized>},
          {"check_tool_format", Bind<[](std::string name) { return data::CheckToolFormat(name); }>},
          {"tokenized_train_files",
           Bind<[](std::string path) { return data::TokenizedTrainFiles(path); }>},
      });
  AddSteps(L);
  AddTexts(L);
}

}  // namespace moonring::lua
