#ifndef MOONRING_LUA_DATASET_H_
#define MOONRING_LUA_DATASET_H_

// What the bindings of data sets and of sources share: the data set behind a handle, and the
// options that say how examples are made.

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
  std::vector<int64_t> lengths;    // where examples came with them; else empty
  std::vector<data::RowUse> uses;  // of every row, where an example is one turn; else empty
};

template <>
struct Value<data::TemplateSpec> {
  static constexpr const char* kWord = "table";
  static constexpr int kLuaType = LUA_TTABLE;
  static data::TemplateSpec Read(lua_State* L, int index);
};

// { files = {..}, split = "train[:100]" } of a hub's data sets, by name.
template <>
struct Value<std::map<std::string, data::FetchedFiles>> {
  static constexpr const char* kWord = "table";
  static constexpr int kLuaType = LUA_TTABLE;
  static std::map<std::string, data::FetchedFiles> Read(lua_State* L, int index);
};

// How rows become examples; and beside that which data sets there are, and how they are mixed.
data::DatasetOptions ReadExampleOptions(Options& options);
data::DatasetOptions ReadDatasetOptions(Options& options);

}  // namespace moonring::lua

#endif  // MOONRING_LUA_DATASET_H_
