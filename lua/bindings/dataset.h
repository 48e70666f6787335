#ifndef MOONRING_LUA_BINDINGS_DATASET_H_
#define MOONRING_LUA_BINDINGS_DATASET_H_

// Shared by the bindings of data sets (bind_data.cc) and of custom data sources (bind_source.cc):
// the object behind a data set's Lua handle, and functions that read the options for making
// examples.

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
  std::vector<int64_t> lengths;    // one per example, if read from a tokenized folder; else empty
  std::vector<data::RowUse> uses;  // of every row, for examples made with one_turn; else empty
};

template <>
struct Value<data::TemplateSpec> {
  static constexpr const char* kWord = "table";
  static constexpr int kLuaType = LUA_TTABLE;
  static data::TemplateSpec Read(lua_State* L, int index);
};

// Reads a Lua table of { files = {..}, split = "train[:100]" } by data set name: the files that
// were downloaded from a hub.
template <>
struct Value<std::map<std::string, data::FetchedFiles>> {
  static constexpr const char* kWord = "table";
  static constexpr int kLuaType = LUA_TTABLE;
  static std::map<std::string, data::FetchedFiles> Read(lua_State* L, int index);
};

// ReadExampleOptions reads the options that control how rows become examples. ReadDatasetOptions
// reads these, which data sets to load, and how to mix them.
data::DatasetOptions ReadExampleOptions(Options& options);
data::DatasetOptions ReadDatasetOptions(Options& options);

}  // namespace moonring::lua

#endif  // MOONRING_LUA_BINDINGS_DATASET_H_
