#ifndef MOONRING_LUA_DATASET_H_
#define MOONRING_LUA_DATASET_H_

// Shared by the bindings of data sets and of data sources: the data set behind a handle, and
// reading of the options that control how examples are made.

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/text/template_spec.h"
#include "lua/binding/options.h"
#include "lua/binding/stack.h"

namespace moonring::lua {

struct Dataset {
  std::shared_ptr<const std::vector<data::Example>> examples;
  data::DatasetReport report;
  std::vector<int64_t> lengths;    // from the tokenized folder; else empty
  std::vector<data::RowUse> uses;  // of every row, for examples made with one_turn; else empty
};

template <>
struct Value<data::TemplateSpec> {
  static constexpr const char* kWord = "table";
  static constexpr int kLuaType = LUA_TTABLE;
  static data::TemplateSpec Read(lua_State* L, int index);
};

// Reads { files = {..}, split = "train[:100]" } for each data set of a hub, by name.
template <>
struct Value<std::map<std::string, data::FetchedFiles>> {
  static constexpr const char* kWord = "table";
  static constexpr int kLuaType = LUA_TTABLE;
  static std::map<std::string, data::FetchedFiles> Read(lua_State* L, int index);
};

// Read how rows become examples; the second also which data sets are read and how they are mixed.
data::DatasetOptions ReadExampleOptions(Options& options);
data::DatasetOptions ReadDatasetOptions(Options& options);

}  // namespace moonring::lua

#endif  // MOONRING_LUA_DATASET_H_
