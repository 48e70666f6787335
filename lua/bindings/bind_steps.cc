// Lua bindings for steps made from token ids of a script, such as newly generated answers.

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <c10/util/Exception.h>
#include <lua.hpp>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/status/torch_status.h"
#include "comm/communicator.h"
#include "comm/mesh.h"
#include "comm/same_number.h"
#include "data/example.h"
#include "data/steps/packer.h"
#include "data/steps/step.h"
#include "data/steps/step_examples.h"
#include "lua/binding/class.h"
#include "lua/binding/options.h"
#include "lua/binding/stack.h"
#include "lua/bindings/bindings.h"

namespace moonring::lua {
namespace {

struct GivenExample {
  std::vector<data::Document> documents;
  std::optional<int64_t> number, family;
};

// Reads a document's ids, labels (default: the ids) and positions (default: from 0).
data::Document DocumentFrom(Options& fields) {
  data::Document document;
  document.ids = fields.Require<std::vector<int32_t>>("ids");
  document.labels = fields.Get<std::vector<int32_t>>("labels", document.ids);
  document.positions = fields.Get<std::vector<int32_t>>("positions", {});
  return document;
}

}  // namespace

template <>
struct Value<data::Document> {
  static constexpr const char* kWord = "table";
  static constexpr int kLuaType = LUA_TTABLE;
  static data::Document Read(lua_State* L, int index) {
    Options fields(L, index);
    data::Document document = DocumentFrom(fields);
    fields.Finish();
    return document;
  }
};

// Reads an example: one document, or a list of documents in the field `documents`.
template <>
struct Value<GivenExample> {
  static constexpr const char* kWord = "table";
  static constexpr int kLuaType = LUA_TTABLE;
  static GivenExample Read(lua_State* L, int index) {
    Options fields(L, index);
    GivenExample given{.number = fields.Find<int64_t>("number"),
                       .family = fields.Find<int64_t>("family")};
    if (auto documents = fields.Find<std::vector<data::Document>>("documents")) {
      given.documents = *std::move(documents);
    } else {
      given.documents.push_back(DocumentFrom(fields));
    }
    fields.Finish();
    return given;
  }
};

namespace {

absl::Status Check(const GivenExample& given, size_t place) {
  const auto wrong = [&](const auto&... words) {
    return absl::InvalidArgumentError(
        absl::StrCat("data.step: example ", place + 1, ": ", words...));
  };
  size_t tokens = 0;
  for (const data::Document& document : given.documents) {
    if (document.labels.size() != document.ids.size())
      return wrong(document.labels.size(), " labels for ", document.ids.size(), " ids");
    if (!document.positions.empty() && document.positions.size() != document.ids.size())
      return wrong(document.positions.size(), " positions for ", document.ids.size(), " ids");
    tokens += document.ids.size();
  }
  if (tokens == 0) return wrong("no tokens");
  for (const auto& [name, number] : {std::pair("number", given.number), {"family", given.family}})
    if (number.value_or(0) < 0) return wrong(name, " ", *number, ", expected none below 0");
  return absl::OkStatus();
}

// FNV-1a over what an example consists of.
class ExamplesChecksum {
 public:
  void Add(const GivenExample& given, int64_t number, int64_t family) {
    Add({number, family, static_cast<int64_t>(given.documents.size())});
    for (const data::Document& document : given.documents) {
      for (const std::vector<int32_t>* numbers :
           {&document.ids, &document.labels, &document.positions}) {
        Add({static_cast<int64_t>(numbers->size())});
        Add(absl::MakeSpan(*numbers));
      }
    }
  }
  uint32_t value() const { return value_; }

 private:
  template <typename T>
  void Add(absl::Span<const T> numbers) {
    for (const T number : numbers) {
      for (int shift = 0; shift < 64; shift += 8)
        value_ = (value_ ^ ((static_cast<uint64_t>(number) >> shift) & 0xff)) * 16777619u;
    }
  }
  void Add(std::initializer_list<int64_t> numbers) { Add(absl::Span<const int64_t>(numbers)); }

  uint32_t value_ = 2166136261u;
};

// Each dp rank takes its share of the list, so all must pass the same one: otherwise some of their
// examples would be in no share.
void CheckSame(comm::Mesh& mesh, size_t examples, uint32_t checksum) {
  if (base::ValueOrThrow(comm::IsSameNumber(mesh.world(), checksum))) return;
  base::ThrowIfError(absl::InvalidArgumentError(absl::StrCat(
      "the ranks passed different examples; rank ", mesh.world().rank(), " passed ", examples,
      " with the checksum ", absl::Hex(checksum, absl::kZeroPad8), ". With the option mesh every ",
      "rank passes all examples of the step, in the same order, and each dp rank takes its share; ",
      "without it each sp group passes its own")));
}

std::shared_ptr<data::Step> MakeStep(Options options) {
  auto given = options.Require<std::vector<GivenExample>>("examples");
  const auto mesh = options.Find<std::shared_ptr<comm::Mesh>>("mesh");
  const auto micro_batch_tokens = options.Require<int64_t>("micro_batch_tokens");
  data::StepExamples taken;
  taken.batch.epoch = options.Get<int64_t>("epoch", 0);
  taken.batch.step = options.Get<int64_t>("step", 0);
  taken.batch.last = options.Get<bool>("last", false);
  const bool share_prefixes = options.Get<bool>("share_prefixes", false);
  options.Finish();
  TORCH_CHECK_VALUE(micro_batch_tokens >= 1, "micro_batch_tokens: expected at least 1, got ",
                    micro_batch_tokens);
  ExamplesChecksum checksum;
  for (size_t place = 0; place < given.size(); ++place) {
    base::ThrowIfError(Check(given[place], place));
    taken.families.push_back(given[place].family.value_or(-1 - static_cast<int64_t>(place)));
    taken.batch.examples.push_back(given[place].number.value_or(static_cast<int64_t>(place)));
    checksum.Add(given[place], taken.batch.examples.back(), taken.families.back());
    data::Example example{.documents = std::move(given[place].documents)};
    // If there are more than two documents, each token's identity (which selects its random noise)
    // is its position in the example.
    if (example.documents.size() > 2) example.padding = data::RowPadding();
    taken.examples.push_back(std::make_shared<const data::Example>(std::move(example)));
  }
  if (mesh.has_value()) CheckSame(**mesh, given.size(), checksum.value());
  return std::make_shared<data::Step>(
      data::MakeStep(taken,
                     {.dp = mesh.has_value() ? (*mesh)->dp_size() : 1,
                      .micro_batch_tokens = micro_batch_tokens,
                      .share_prefixes = share_prefixes},
                     mesh.has_value() ? (*mesh)->dp_rank() : 0));
}

}  // namespace

void AddSteps(lua_State* L) { AddToModule(L, "moonring.data", {{"step", Bind<&MakeStep>}}); }

}  // namespace moonring::lua
