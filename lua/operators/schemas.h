#ifndef MOONRING_LUA_OPERATORS_SCHEMAS_H_
#define MOONRING_LUA_OPERATORS_SCHEMAS_H_

// The operators that scripts may call: every schema of LibTorch's dispatcher in the namespace aten
// whose arguments are of kinds that Lua has values for.
//
// Left out are overloads with named dims, storages, streams, quantisers and dictionaries
// (`left_out` of Operators::Count).

#include <map>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/dispatch/Dispatcher.h>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"

namespace moonring::lua {

enum class ArgumentKind {
  kTensor,
  kInt,
  kFloat,
  kBool,
  kString,
  kScalar,  // a number of any kind
  kDtype,
  kDevice,
  kLayout,
  kMemoryFormat,
  kGenerator,  // from Lua: a seed
};

struct ArgumentRule {
  std::string name;
  ArgumentKind kind;
  bool is_list = false;
  bool optional = false;           // nil is None
  bool optional_elements = false;  // of a list
  int32_t fixed_size = 0;          // of a list, where a single number stands for all; 0: none
  bool written = false;            // the operator writes into it
  bool keyword_only = false;
  bool has_default = false;
};

// Whether an operator gives the quotient of its first two arguments, integers too.
enum class Division {
  kNone,
  kWhole,   // a whole one of whole numbers
  kByMode,  // a whole one only if rounding_mode is given
};

// One overload: a schema and how its arguments are read.
struct Overload {
  c10::OperatorHandle handle;
  std::vector<ArgumentRule> arguments;
  int positional = 0;  // arguments that may be given by place
  int self = 0;        // the argument that a method's object is
  Division divides = Division::kNone;
  int outs = 0;              // arguments at the end that results are written to
  bool takes_sizes = false;  // its one argument by place besides self is a list of integers, which
                             // may be written without braces: x:view(2, 3)

  const c10::FunctionSchema& schema() const { return handle.schema(); }
};

// All overloads of one name; those without `out` first, then by the number of their arguments.
struct Operator {
  std::string name;
  std::vector<Overload> overloads;
};

class Operators {
 public:
  // `allowed`: the names that there are, without overloads that write into `out`, which would be
  // given a size before the memory for it; empty: all.
  explicit Operators(std::vector<absl::string_view> allowed);
  Operators(const Operators&) = delete;
  Operators& operator=(const Operators&) = delete;

  // Null where there is none, or it is not allowed. `name`: as in the dispatcher, without "aten::";
  // a word that Lua reserves has a trailing underscore (repeat_).
  const Operator* Find(absl::string_view name);

  // In their order.
  std::vector<std::string> Names() const;

  // " (did you mean 'x'?)" with the nearest name, or "".
  std::string DidYouMean(absl::string_view name) const;

  struct Count {
    int names = 0, overloads = 0;
    std::map<std::string, int> left_out;  // overloads, by the kind that Lua has no value for
  };
  Count CountAll();

 private:
  std::unique_ptr<Operator> Read(const std::string& name, Count* count) const;

  bool confined_ = false;
  std::map<std::string, std::vector<c10::OperatorName>, std::less<>> names_;
  absl::flat_hash_map<std::string, std::unique_ptr<Operator>> read_;
};

// "add(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor": as PyTorch prints it, without the
// namespace.
std::string SchemaText(const Overload& overload);

}  // namespace moonring::lua

#endif  // MOONRING_LUA_OPERATORS_SCHEMAS_H_
