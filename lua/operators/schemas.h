#ifndef MOONRING_LUA_OPERATORS_SCHEMAS_H_
#define MOONRING_LUA_OPERATORS_SCHEMAS_H_

// The operators that scripts may call: every schema of LibTorch's dispatcher in the namespace aten
// whose arguments have types that Lua can represent.
//
// Overloads with named dims, storages, streams, quantizers and dictionaries are not included;
// Operators::Count counts them in `left_out`.

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
  kGenerator,  // written in Lua as an integer seed
};

struct ArgumentRule {
  std::string name;
  ArgumentKind kind;
  bool is_list = false;
  bool optional = false;           // a Lua nil becomes None
  bool optional_elements = false;  // elements of a list may be nil
  int32_t fixed_size = 0;          // for a list: length to which a single number is expanded; 0:
                                   // none
  bool written = false;            // the operator writes into this argument
  bool keyword_only = false;
  bool has_default = false;
};

// Whether an operator computes the quotient of its first two arguments, and for which calls the
// quotient of integers is an integer.
enum class Division {
  kNone,
  kWhole,   // integer quotients of integers
  kByMode,  // integer quotients only with rounding_mode
};

// One overload of an operator: its schema, and how each argument is read from Lua.
struct Overload {
  c10::OperatorHandle handle;
  std::vector<ArgumentRule> arguments;
  int positional = 0;  // number of positional arguments
  int self = 0;        // index of the argument that receives a method's object (x in x:add(y))
  Division divides = Division::kNone;
  int outs = 0;              // number of `out` arguments, the last ones
  bool takes_sizes = false;  // its only positional argument besides self is a list of integers,
                             // which may be written without braces: x:view(2, 3)

  const c10::FunctionSchema& schema() const { return handle.schema(); }
};

// All overloads of a name, ordered: those without an `out` argument first, then by number of
// arguments.
struct Operator {
  std::string name;
  std::vector<Overload> overloads;
};

class Operators {
 public:
  // `allowed`: the names of the available operators; empty: all operators. If it is not empty,
  // overloads with `out` are excluded, because they would resize `out` before the memory limit is
  // checked.
  explicit Operators(std::vector<absl::string_view> allowed);
  Operators(const Operators&) = delete;
  Operators& operator=(const Operators&) = delete;

  // Returns the operator; null for an unknown or forbidden name. `name`: as in the dispatcher,
  // without "aten::". A name that is a reserved word in Lua gets a trailing underscore (repeat_).
  const Operator* Find(absl::string_view name);

  // All names, sorted.
  std::vector<std::string> Names() const;

  // Returns " (did you mean 'x'?)" with the known name nearest to `name`, or "".
  std::string DidYouMean(absl::string_view name) const;

  struct Count {
    int names = 0, overloads = 0;
    std::map<std::string, int> left_out;  // number of overloads, by the type that Lua cannot
                                          // represent
  };
  Count CountAll();

 private:
  std::unique_ptr<Operator> Read(const std::string& name, Count* count) const;

  bool confined_ = false;
  std::map<std::string, std::vector<c10::OperatorName>, std::less<>> names_;
  absl::flat_hash_map<std::string, std::unique_ptr<Operator>> read_;
};

// The schema as PyTorch prints it, without the namespace: "add(Tensor self, Tensor other, *, Scalar
// alpha=1) -> Tensor".
std::string SchemaText(const Overload& overload);

}  // namespace moonring::lua

#endif  // MOONRING_LUA_OPERATORS_SCHEMAS_H_
