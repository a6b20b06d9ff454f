// Values of the abstract interpreter: what an expression of a kernel evaluates to during
// compilation.
//
// A value is either known now (None, numbers, strings, dtypes, tuples, functions, modules, objects
// of the host) or stands for something known only at run time (`Tensor`: a scalar, pointer or block
// in the IR). There is no box around known values: `tl.constexpr(3)` is the number 3.
//
// A plain assignment `x = 3` makes the name a run-time value (surface a.7), so x has `.to`, takes
// part in type promotion as an int32, and may change in a loop. The tensor keeps the number it came
// from as its `literal`, so that it can still be used where only a known value will do
// (`tl.arange(0, BLOCK_SIZE)`); anything computed from it at run time is an ordinary tensor.
#pragma once

#include "frontend/types.h"

#include "mlir/IR/Value.h"
#include "llvm/ADT/APSInt.h"

#include <initializer_list>
#include <memory>
#include <string>
#include <variant>
#include <vector>

namespace nereid::frontend {

class Value;
class Function; // a function written in the language: interpreter.h
struct Builtin; // a row of the builtin table: builtin.h
class Class;    // a class of values that the author defines: class.h

struct None {};

/// A scalar, pointer or block that exists in the IR.
struct Tensor {
  mlir::Value ir;
  Type type;
  std::shared_ptr<const Value>
      literal; ///< the known number a plain assignment turned into this tensor
};

/// The items of a tuple or aggregate. Copies share them until one of them is changed, so that a
/// name can be read, and a tuple of tuples be made, in constant time.
class Items {
public:
  Items() = default;
  Items(std::vector<Value> values);
  Items(std::initializer_list<Value> values);

  const std::vector<Value> &all() const;
  operator const std::vector<Value> &() const { return all(); }
  size_t size() const;
  bool empty() const { return size() == 0; }
  const Value &operator[](size_t index) const;
  const Value *begin() const;
  const Value *end() const;
  /// For changes: from now on these items are not shared. The reference is good until the next
  /// copy.
  std::vector<Value> &edit();
  void push_back(Value value);
  /// Bytes of memory of the values in it, shared ones counted each time: what it costs to walk
  /// over them. Saturates.
  uint64_t weight() const;
  /// Levels of tuples and aggregates, these items the first of them.
  unsigned nesting() const;

private:
  struct Node;
  std::shared_ptr<Node> node;
};

/// A tuple; a named tuple when `fields` is not empty. `hostClass` is the host's handle of its
/// class, or 0.
struct Tuple {
  Items items;
  std::vector<std::string> fields = {};
  uint64_t hostClass = 0;
};

/// A value of a class made with `@triton.aggregate`: one item per field. Immutable. Unlike those of
/// a tuple, its numbers stay known when it is bound to a name or goes round a loop.
struct Aggregate {
  std::shared_ptr<const Class> cls;
  Items items;
};

/// A class whose text we read ourselves; calling it makes an Aggregate. (Under Python a class is an
/// object of the host.)
struct ClassValue {
  std::shared_ptr<const Class> cls;
};

/// A dtype or another type used as a value (`tl.float32`, `x.dtype`, `tl.pointer_type(tl.int8)`).
struct TypeValue {
  Type type;
};

/// A function of the language, bound to `self` where it was read as a member of a value. A function
/// that was defined inside another one also sees the names of that `activation`: the number of the
/// call whose names they are.
struct FunctionValue {
  const Function *function;
  std::shared_ptr<const Value> self;
  uint64_t activation = 0;
};

struct BuiltinValue {
  const Builtin *builtin;
  std::shared_ptr<const Value> self; ///< the tensor in `x.to`
};

/// A module of ours: "triton", "triton.language", "triton.language.math",
/// "triton.language.extra.libdevice"...
struct ModuleValue {
  std::string name;
};

/// Anything the host knows and we do not: a Python object. The handle belongs to the host and lives
/// as long as the compilation.
struct HostObject {
  uint64_t handle;
  std::string typeName;
  std::shared_ptr<const Value> self = nullptr; ///< of a method: the value it was read from
};

/// `range`, `tl.range`, `tl.static_range` after their call: bounds and hints, consumed by `for`.
struct RangeValue {
  enum class Kind : uint8_t { Range, Static } kind;
  std::shared_ptr<const Value> start, stop, step;
  std::vector<std::pair<std::string, int64_t>> hints; ///< num_stages, loop_unroll_factor...
};

/// A subscript `a:b:c`; members are None when absent.
struct SliceValue {
  std::shared_ptr<const Value> start, stop, step;
};

class Value {
public:
  using Storage = std::variant<None, bool, llvm::APSInt, double, std::string, TypeValue, Tuple,
                               Tensor, FunctionValue, BuiltinValue, ModuleValue, HostObject,
                               RangeValue, SliceValue, Aggregate, ClassValue>;

  Value() : storage(None{}) {}
  template <typename T, typename = std::enable_if_t<!std::is_same_v<std::decay_t<T>, Value>>>
  Value(T &&value) : storage(std::forward<T>(value)) {}

  /// A Python integer of any size. Known integers are signed and as wide as they need to be.
  static Value integer(int64_t value);

  template <typename T> bool is() const { return std::holds_alternative<T>(storage); }
  template <typename T> const T &get() const { return *std::get_if<T>(&storage); }
  template <typename T> T &get() { return *std::get_if<T>(&storage); }
  template <typename T> const T *getIf() const { return std::get_if<T>(&storage); }

  bool isNone() const { return is<None>(); }
  bool isTensor() const { return is<Tensor>(); }
  /// Known during compilation: everything but a tensor (and tuples and aggregates are known when
  /// their items are).
  bool isKnown() const;
  /// bool, int or float.
  bool isNumber() const;

  /// Python's repr, for messages and `static_print`; `fp32[constexpr[16]]` for a tensor.
  std::string repr() const;
  /// What the author would call it: "int", "str", "fp32 block of shape [16]", "function `f`".
  std::string kindName() const;

  /// Bytes of memory, those of its items included (`Items::weight`).
  uint64_t weight() const;
  /// Levels of tuples and aggregates in it; 0 for anything else.
  unsigned nesting() const;

  const Storage &variant() const { return storage; }

private:
  Storage storage;
};

struct Items::Node {
  std::vector<Value> values;
  mutable uint64_t weight = 0; ///< 0: not counted since the last change
  mutable unsigned nesting = 0;
};

inline size_t Items::size() const {
  return node ? node->values.size() : 0;
}
inline const Value &Items::operator[](size_t index) const {
  return node->values[index];
}
inline const Value *Items::begin() const {
  return node ? node->values.data() : nullptr;
}
inline const Value *Items::end() const {
  return begin() + size();
}

/// The value itself, or the number behind a tensor made by a plain assignment; null when it is a
/// tensor that is known only at run time. For places that need a known value.
const Value *knownOrNull(const Value &value);

/// The items of a tuple or aggregate; null for anything else.
const std::vector<Value> *itemsOf(const Value &value);
/// The same, to be changed: they are not shared any more.
std::vector<Value> *editItemsOf(Value &value);
/// Whether two values are tuples of the same fields, or aggregates of the same class, with as many
/// items.
bool sameForm(const Value &a, const Value &b);

/// Structural equality of known values, as Python's == (1 == True == 1.0).
bool equalKnown(const Value &a, const Value &b);

} // namespace nereid::frontend
