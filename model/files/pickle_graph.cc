#include "model/files/pickle_graph.h"

#include <bit>
#include <cstring>
#include <unordered_map>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status/status_macros.h"
#include "model/files/json_text.h"

namespace moonring::model {

static_assert(std::endian::native == std::endian::little);

using Kind = PickleValue::Kind;
using Refs = std::vector<PickleRef>;

class PickleMachine {
 public:
  PickleMachine(absl::string_view pickle, absl::Span<const absl::string_view> allowed,
                const std::string& where)
      : pickle_(pickle), allowed_(allowed), where_(where) {}

  absl::StatusOr<PickleGraph> Run() {
    while (at_ < pickle_.size()) {
      const uint8_t opcode = static_cast<uint8_t>(pickle_[at_++]);
      if (opcode == '.') {
        ASSIGN_OR_RETURN(graph_.root_, Pop());
        return std::move(graph_);
      }
      RETURN_IF_ERROR(Step(opcode));
    }
    return Broken("it has no end (truncated?)");
  }

 private:
  template <typename... Pieces>
  absl::Status Broken(const Pieces&... pieces) const {
    return absl::InvalidArgumentError(absl::StrCat(where_, ": not a valid pickle: at byte ", at_,
                                                   " of ", pickle_.size(), ": ", pieces...));
  }
  std::string Described(PickleRef ref) const { return graph_.Described(graph_[ref]); }

  absl::Status Step(uint8_t opcode);

  absl::StatusOr<absl::string_view> Take(uint64_t bytes);
  absl::StatusOr<absl::string_view> TakeLine();
  absl::StatusOr<absl::string_view> TakeCounted(int count_bytes);
  absl::StatusOr<uint64_t> TakeUnsigned(int bytes);
  absl::Status Skip(uint64_t bytes) { return Take(bytes).status(); }

  PickleValue& New(Kind kind);
  absl::Status Push(Kind kind, int64_t number = 0);
  absl::Status PushUnsigned(int bytes);
  absl::Status PushSigned(absl::StatusOr<absl::string_view> bytes);
  absl::Status PushFloat();
  absl::Status PushText(int count_bytes);
  absl::Status PushTuple(absl::StatusOr<Refs> items);
  absl::Status PushGlobal(absl::string_view module, absl::string_view name);
  absl::Status PushGlobalOfLines();
  absl::Status PushGlobalOfStack();
  absl::Status PushPersistent();
  absl::Status PushCall();

  absl::StatusOr<PickleRef> Top() const;
  absl::StatusOr<PickleRef> Pop();
  absl::StatusOr<Refs> PopMany(size_t count);
  absl::StatusOr<Refs> PopToMark();
  absl::Status Put(absl::StatusOr<uint64_t> place);
  absl::Status Get(absl::StatusOr<uint64_t> place);
  absl::Status AddTo(bool list, absl::StatusOr<Refs> items);
  absl::Status SetState();

  absl::string_view pickle_;
  absl::Span<const absl::string_view> allowed_;
  const std::string& where_;
  size_t at_ = 0;
  PickleGraph graph_;
  Refs stack_;
  std::vector<size_t> marks_;  // indices into stack_
  std::unordered_map<uint64_t, PickleRef> memo_;
};

// One opcode per line; clang-format would break the lines.
// clang-format off
absl::Status PickleMachine::Step(uint8_t opcode) {
  switch (opcode) {
    case 0x80: return Skip(1);                      // PROTO
    case 0x95: return Skip(8);                      // FRAME
    case '(': marks_.push_back(stack_.size()); return absl::OkStatus();
    case '0': return Pop().status();
    case '1': return PopToMark().status();
    case 'N': return Push(Kind::kNone);
    case 0x88: return Push(Kind::kBool, 1);         // NEWTRUE
    case 0x89: return Push(Kind::kBool, 0);         // NEWFALSE
    case 'K': return PushUnsigned(1);               // BININT1
    case 'M': return PushUnsigned(2);               // BININT2
    case 'J': return PushSigned(Take(4));           // BININT
    case 0x8a: return PushSigned(TakeCounted(1));   // LONG1
    case 'G': return PushFloat();                   // BINFLOAT
    case 0x8c: return PushText(1);                  // SHORT_BINUNICODE
    case 'X': return PushText(4);                   // BINUNICODE
    case 0x8d: return PushText(8);                  // BINUNICODE8
    case 'U': case 'C': return PushText(1);         // SHORT_BINSTRING, SHORT_BINBYTES
    case 'T': case 'B': return PushText(4);         // BINSTRING, BINBYTES
    case ')': return PushTuple(Refs());             // EMPTY_TUPLE
    case 0x85: return PushTuple(PopMany(1));        // TUPLE1
    case 0x86: return PushTuple(PopMany(2));        // TUPLE2
    case 0x87: return PushTuple(PopMany(3));        // TUPLE3
    case 't': return PushTuple(PopToMark());        // TUPLE
    case ']': return Push(Kind::kList);             // EMPTY_LIST
    case 'a': return AddTo(true, PopMany(1));       // APPEND
    case 'e': return AddTo(true, PopToMark());      // APPENDS
    case '}': return Push(Kind::kDict);             // EMPTY_DICT
    case 's': return AddTo(false, PopMany(2));      // SETITEM
    case 'u': return AddTo(false, PopToMark());     // SETITEMS
    case 'q': return Put(TakeUnsigned(1));          // BINPUT
    case 'r': return Put(TakeUnsigned(4));          // LONG_BINPUT
    case 0x94: return Put(uint64_t{memo_.size()});  // MEMOIZE
    case 'h': return Get(TakeUnsigned(1));          // BINGET
    case 'j': return Get(TakeUnsigned(4));          // LONG_BINGET
    case 'c': return PushGlobalOfLines();           // GLOBAL
    case 0x93: return PushGlobalOfStack();          // STACK_GLOBAL
    case 'Q': return PushPersistent();              // BINPERSID
    case 'R': return PushCall();                    // REDUCE
    case 'b': return SetState();                    // BUILD
    default: return Broken("the opcode 0x", absl::Hex(opcode, absl::kZeroPad2),
                           " is not one that data need: refused");
  }
}
// clang-format on

absl::StatusOr<absl::string_view> PickleMachine::Take(uint64_t bytes) {
  const uint64_t left = pickle_.size() - at_;
  if (bytes > left) return Broken(bytes, " bytes are expected, ", left, " are left (truncated?)");
  const absl::string_view taken = pickle_.substr(at_, bytes);
  at_ += bytes;
  return taken;
}

absl::StatusOr<absl::string_view> PickleMachine::TakeLine() {
  const size_t end = pickle_.find('\n', at_);
  if (end == absl::string_view::npos) return Broken("a name has no end (truncated?)");
  ASSIGN_OR_RETURN(const absl::string_view line, Take(end - at_));
  ++at_;
  return line;
}

absl::StatusOr<uint64_t> PickleMachine::TakeUnsigned(int bytes) {
  ASSIGN_OR_RETURN(const absl::string_view taken, Take(static_cast<uint64_t>(bytes)));
  uint64_t number = 0;
  std::memcpy(&number, taken.data(), taken.size());
  return number;
}

absl::StatusOr<absl::string_view> PickleMachine::TakeCounted(int count_bytes) {
  ASSIGN_OR_RETURN(const uint64_t count, TakeUnsigned(count_bytes));
  return Take(count);
}

PickleValue& PickleMachine::New(Kind kind) {
  stack_.push_back(static_cast<PickleRef>(graph_.values_.size()));
  PickleValue& value = graph_.values_.emplace_back();
  value.kind = kind;
  return value;
}

absl::Status PickleMachine::Push(Kind kind, int64_t number) {
  New(kind).number = number;
  return absl::OkStatus();
}

absl::Status PickleMachine::PushUnsigned(int bytes) {
  ASSIGN_OR_RETURN(const uint64_t number, TakeUnsigned(bytes));
  return Push(Kind::kInt, static_cast<int64_t>(number));
}

absl::Status PickleMachine::PushSigned(absl::StatusOr<absl::string_view> bytes) {
  RETURN_IF_ERROR(bytes.status());
  if (bytes->size() > sizeof(int64_t))
    return Broken("a whole number has ", bytes->size(), " bytes, expected 8 at most");
  int64_t number = !bytes->empty() && (bytes->back() & 0x80) != 0
                       ? -1
                       : 0;  // sign extension of the missing bytes
  std::memcpy(&number, bytes->data(), bytes->size());
  return Push(Kind::kInt, number);
}

absl::Status PickleMachine::PushFloat() {
  RETURN_IF_ERROR(Skip(8));
  return Push(Kind::kFloat);
}

absl::Status PickleMachine::PushText(int count_bytes) {
  ASSIGN_OR_RETURN(const absl::string_view text, TakeCounted(count_bytes));
  New(Kind::kText).text = text;
  return absl::OkStatus();
}

absl::Status PickleMachine::PushTuple(absl::StatusOr<Refs> items) {
  RETURN_IF_ERROR(items.status());
  New(Kind::kTuple).items = *std::move(items);
  return absl::OkStatus();
}

absl::Status PickleMachine::PushGlobal(absl::string_view module, absl::string_view name) {
  const std::string whole = absl::StrCat(module, ".", name);
  for (const absl::string_view known : allowed_) {
    if (known != whole) continue;
    New(Kind::kGlobal).text = known;
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(where_, ": '", Shown(whole),
                   "' is not a tensor: refused (only tensors are read from a pickle)"));
}

absl::Status PickleMachine::PushGlobalOfLines() {
  ASSIGN_OR_RETURN(const absl::string_view module, TakeLine());
  ASSIGN_OR_RETURN(const absl::string_view name, TakeLine());
  return PushGlobal(module, name);
}

absl::Status PickleMachine::PushGlobalOfStack() {
  ASSIGN_OR_RETURN(const PickleRef name, Pop());
  ASSIGN_OR_RETURN(const PickleRef module, Pop());
  if (graph_[module].kind != Kind::kText || graph_[name].kind != Kind::kText) {
    return Broken("a function is named by ", Described(module), " and ", Described(name));
  }
  return PushGlobal(graph_[module].text, graph_[name].text);
}

absl::Status PickleMachine::PushPersistent() {
  ASSIGN_OR_RETURN(const PickleRef description, Pop());
  New(Kind::kPersistent).arguments = description;
  return absl::OkStatus();
}

absl::Status PickleMachine::PushCall() {
  ASSIGN_OR_RETURN(const PickleRef arguments, Pop());
  ASSIGN_OR_RETURN(const PickleRef callee, Pop());
  if (graph_[callee].kind != Kind::kGlobal || graph_[arguments].kind != Kind::kTuple) {
    return Broken(Described(callee), " is called with ", Described(arguments));
  }
  PickleValue& call = New(Kind::kCall);
  call.callee = callee;
  call.arguments = arguments;
  return absl::OkStatus();
}

absl::StatusOr<PickleRef> PickleMachine::Top() const {
  if (stack_.size() <= (marks_.empty() ? 0 : marks_.back()))
    return Broken("a value is expected and there is none");
  return stack_.back();
}

absl::StatusOr<PickleRef> PickleMachine::Pop() {
  ASSIGN_OR_RETURN(const PickleRef top, Top());
  stack_.pop_back();
  return top;
}

absl::StatusOr<Refs> PickleMachine::PopMany(size_t count) {
  Refs items(count);
  for (size_t i = count; i-- > 0;) {
    ASSIGN_OR_RETURN(items[i], Pop());
  }
  return items;
}

absl::StatusOr<Refs> PickleMachine::PopToMark() {
  if (marks_.empty()) return Broken("a mark is expected and there is none");
  const auto begin = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
  Refs items(begin, stack_.end());
  stack_.erase(begin, stack_.end());
  marks_.pop_back();
  return items;
}

absl::Status PickleMachine::Put(absl::StatusOr<uint64_t> place) {
  RETURN_IF_ERROR(place.status());
  ASSIGN_OR_RETURN(memo_[*place], Top());
  return absl::OkStatus();
}

absl::Status PickleMachine::Get(absl::StatusOr<uint64_t> place) {
  RETURN_IF_ERROR(place.status());
  const auto found = memo_.find(*place);
  if (found == memo_.end()) return Broken("the value ", *place, " is expected before it is there");
  stack_.push_back(found->second);
  return absl::OkStatus();
}

absl::Status PickleMachine::AddTo(bool list, absl::StatusOr<Refs> items) {
  RETURN_IF_ERROR(items.status());
  ASSIGN_OR_RETURN(const PickleRef ref, Top());
  PickleValue& target = graph_.values_[ref];
  const bool fits =
      list ? target.kind == Kind::kList
           : (target.kind == Kind::kDict || target.kind == Kind::kCall) && items->size() % 2 == 0;
  if (!fits)
    return Broken(items->size(), list ? " values are added to " : " keys and values are set in ",
                  Described(ref));
  target.items.insert(target.items.end(), items->begin(), items->end());
  return absl::OkStatus();
}

absl::Status PickleMachine::SetState() {
  RETURN_IF_ERROR(Pop().status());
  ASSIGN_OR_RETURN(const PickleRef ref, Top());
  graph_.values_[ref].has_state = true;
  return absl::OkStatus();
}

absl::StatusOr<PickleGraph> PickleGraph::Read(absl::string_view pickle,
                                              absl::Span<const absl::string_view> allowed,
                                              const std::string& where) {
  return PickleMachine(pickle, allowed, where).Run();
}

bool PickleGraph::IsCallOf(const PickleValue& value, absl::string_view name) const {
  return value.kind == Kind::kCall && values_[value.callee].text == name;
}

std::string PickleGraph::Described(const PickleValue& value) const {
  constexpr const char* kKinds[] = {"None",   "a truth value", "a whole number", "a number",
                                    "a text", "a tuple",       "a list",         "a dictionary"};
  if (value.kind == Kind::kGlobal) return std::string(value.text);
  if (value.kind == Kind::kCall) return absl::StrCat(values_[value.callee].text, "(...)");
  if (value.kind == Kind::kPersistent) return "a storage";
  return kKinds[static_cast<size_t>(value.kind)];
}

}  // namespace moonring::model
