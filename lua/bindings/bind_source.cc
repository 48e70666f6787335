// Lua bindings for custom data sources: rows read from files, and a feed that turns a script's rows
// into examples and steps.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status/torch_status.h"
#include "comm/mesh.h"
#include "data/description/dataset_info.h"
#include "data/files/row_source.h"
#include "data/formats/format_table.h"
#include "data/steps/step.h"
#include "data/stream/example_feed.h"
#include "data/text/tokenizer.h"
#include "lua/binding/class.h"
#include "lua/binding/json.h"
#include "lua/binding/options.h"
#include "lua/bindings/bindings.h"
#include "lua/bindings/dataset.h"

namespace moonring::lua {
namespace {

std::shared_ptr<data::RowSource> OpenRows(std::vector<std::string> files) {
  return base::ValueOrThrow(data::RowSource::Open(std::move(files)));
}

// Opens the rows of a data set in dataset_info.json. Also returns a description of how to interpret
// the rows.
std::tuple<std::shared_ptr<data::RowSource>, Json> OpenNamedRows(
    std::string folder, std::string name,
    std::optional<std::map<std::string, data::FetchedFiles>> fetched,
    std::optional<bool> is_checkout) {
  const data::DatasetDescription description = base::ValueOrThrow(data::ReadDatasetInfo(
      folder, {name}, data::RowFormatNames(),
      std::move(fetched).value_or(std::map<std::string, data::FetchedFiles>{}),
      is_checkout.value_or(false)))[0];
  if (!description.slices.empty() || description.num_samples.has_value()) {
    base::ThrowIfError(absl::UnimplementedError(absl::StrCat(
        "data set '", name, "': 'split' with slices and 'num_samples' are not for rows")));
  }
  return {OpenRows(description.files), data::DescriptionJson(description)};
}

std::optional<Json> NextRow(data::RowSource& rows) {
  std::optional<data::Row> row = base::ValueOrThrow(rows.Next());
  if (!row.has_value()) return std::nullopt;
  return std::move(row->value);
}

std::shared_ptr<data::ExampleFeed> OpenFeed(Options options) {
  auto tokenizer = options.Require<std::shared_ptr<data::Tokenizer>>("tokenizer");
  data::FeedOptions wanted{.dataset = ReadExampleOptions(options)};
  wanted.dataset.names = {options.Require<std::string>("name")};
  wanted.prepared = options.Get<bool>("prepared", false);
  if (const auto description = options.Find<std::string>("description"))
    wanted.description = Json::parse(*description);  // written by Moonring's own Lua
  options.Finish();
  return base::ValueOrThrow(data::ExampleFeed::Create(std::move(wanted), std::move(tokenizer)));
}

// Makes a step from the examples that are ready; at most `batch` of them.
std::shared_ptr<data::Step> TakeStep(data::ExampleFeed& feed, Options options) {
  const auto mesh = options.Find<std::shared_ptr<comm::Mesh>>("mesh");
  const int64_t batch = options.Require<int64_t>("batch");
  int64_t index = options.Require<int64_t>("index");
  data::StepExamples taken;
  taken.batch.epoch = options.Require<int64_t>("epoch");
  taken.batch.step = options.Require<int64_t>("step");
  taken.batch.last = options.Get<bool>("last", false);
  const data::PackOptions packing = {
      .dp = mesh.has_value() ? (*mesh)->dp_size() : 1,
      .micro_batch_tokens = options.Require<int64_t>("micro_batch_tokens"),
      .share_prefixes = options.Get<bool>("share_prefixes", false)};
  options.Finish();
  for (data::Example& example : feed.Take(batch)) {
    taken.batch.examples.push_back(index++);
    taken.examples.push_back(std::make_shared<const data::Example>(std::move(example)));
  }
  return std::make_shared<data::Step>(
      data::MakeStep(taken, packing, mesh.has_value() ? (*mesh)->dp_rank() : 0));
}

std::shared_ptr<Dataset> FinishFeed(data::ExampleFeed& feed) {
  data::PreparedDataset prepared = base::ValueOrThrow(std::move(feed).Finish());
  return std::make_shared<Dataset>(
      Dataset{std::make_shared<const std::vector<data::Example>>(std::move(prepared.examples)),
              std::move(prepared.report)});
}

}  // namespace

void OpenSource(lua_State* L) {
  Class<data::RowSource>::Register(
      L, "Rows",
      {
          {"next", Bind<&NextRow>},
          {"save_state", Bind<[](data::RowSource& rows) { return rows.SaveState(); }>},
          {"load_state",
           Bind<[](data::RowSource& rows, std::string state) { return rows.LoadState(state); }>},
          {"__tostring", Bind<[](data::RowSource&) { return std::string("Rows"); }>},
      });
  Class<data::ExampleFeed>::Register(
      L, "Feed",
      {
          {"limit_ids", Bind<[](data::ExampleFeed& feed, int64_t ids) { feed.LimitIds(ids); }>},
          {"begin", Bind<[](data::ExampleFeed& feed, int64_t rows, std::string digest) {
             feed.Begin(rows, std::move(digest));
           }>},
          {"add", Bind<[](data::ExampleFeed& feed, Json row) { return feed.Add(std::move(row)); }>},
          {"pass_over", Bind<[](data::ExampleFeed& feed, Json row) { return feed.PassOver(row); }>},
          {"end_batch", Bind<[](data::ExampleFeed& feed) { return feed.EndBatch(); }>},
          {"ready", Bind<[](data::ExampleFeed& feed) { return feed.ready(); }>},
          {"rows", Bind<[](data::ExampleFeed& feed) { return feed.rows(); }>},
          {"digest", Bind<[](data::ExampleFeed& feed) { return feed.digest(); }>},
          {"row_digests", Bind<[](data::ExampleFeed& feed) { return feed.TakeRowDigests(); }>},
          {"batch_digest", Bind<[](data::ExampleFeed& feed) { return feed.batch_digest(); }>},
          {"joins_rows", Bind<[](data::ExampleFeed& feed) { return feed.joins_rows(); }>},
          {"drop", Bind<[](data::ExampleFeed& feed, int64_t most) { feed.Take(most); }>},
          {"step", Bind<&TakeStep>},
          {"finish", Bind<&FinishFeed>},
          {"check", Bind<[](data::ExampleFeed& feed) { return feed.Check(); }>},
          {"report", Bind<[](data::ExampleFeed& feed) { return feed.report().Text(); }>},
          {"report_json", Bind<[](data::ExampleFeed& feed) { return feed.report().Json(); }>},
          {"cut_warning", Bind<[](data::ExampleFeed& feed) { return feed.report().CutWarning(); }>},
          {"__tostring", Bind<[](data::ExampleFeed& feed) {
             return absl::StrCat("Feed of ", feed.rows(), " rows");
           }>},
      });
  PushModule(L, "moonring.source",
             {
                 {"rows", Bind<&OpenRows>},
                 {"named_rows", Bind<&OpenNamedRows>},
                 {"feed", Bind<&OpenFeed>},
             });
}

}  // namespace moonring::lua
