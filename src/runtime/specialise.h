// Specialisation: from the arguments of a launch to a kernel's key, and to its compile-time facts.
//
// Which kernel a launch needs depends on the types of its arguments, on a few facts about their
// values, and on the options. The rules, argument by argument (tests/unit/runtime/specialise):
//
//   integer       1 is folded into the code as a constant; else i32 where it fits, i64, u64; a
//                 multiple of 16 (0 too) is known to be one
//   bool, float   u1 and fp32; their values are never folded
//   pointer       its element type; an address that is a multiple of 16 is known to be one
//   None          a constant
//   constexpr     a constant by value
//   tuple         its items, each by these rules; the policies of the parameter do not reach them
//
// A forced type (an annotation, or set by the face) fixes the type and stops the folding of 1.
// NO_SPECIALIZE stops both facts about values, NO_ALIGNMENT only the multiple of 16.
//
// The key is a short byte string, a byte or two an argument, built in the caller's buffer: a warm
// launch allocates nothing. Equal keys mean equal `ParamSpec`s, which are only built on a miss.
#pragma once

#include "frontend/frontend.h"
#include "frontend/function.h"
#include "nereid/nereid.h"
#include "runtime/error.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SmallVector.h"

#include <optional>
#include <string>
#include <vector>

/// The object behind the ABI's nrd_value: a known value with what makes it a key, and with the
/// function it refers to kept alive.
struct nrd_value {
  nereid::frontend::Value value;
  /// Identifies the value: equal keys, equal values. Empty for what cannot be a constant.
  std::string key;
  /// Keeps the functions and trees alive that `value` points to.
  std::vector<std::shared_ptr<const void>> owners;

  mutable std::string text; ///< storage of what nrd_value_get_text and its kin hand out

  /// For what nrd_value_builtin gives: the name.
  std::string languageName{};
  bool isNameAlone = false; ///< nrd_value_named: `value` is nothing
};

namespace nereid::runtime {

/// What the runtime knows of one parameter; made once per function.
struct ParamRule {
  std::string name;
  bool isConstexpr = false;
  bool isConst = false; ///< pointers are to const
  bool hasDefault = false;
  bool isStrict = false; ///< a forced pointer takes no integers and no pointers to other elements
  bool foldsOne = true;  ///< an integer that is 1 is a constant
  uint32_t policy = 0;   ///< NRD_PARAM_*
  std::optional<frontend::Type> forcedType; ///< by annotation, or set by the face
};

/// The part of a rule that launches with ordinary arguments need; a byte a parameter, close
/// together.
enum class RuleKind : uint8_t {
  Usual,    ///< neither policy nor type
  Constant, ///< constexpr
  Special   ///< anything else
};
std::vector<RuleKind> ruleKinds(llvm::ArrayRef<ParamRule> rules);

using KeyBuffer = llvm::SmallVector<uint8_t, 256>;

/// The rules of `function`'s parameters as its `def` line gives them.
std::vector<ParamRule> paramRules(const frontend::Function &function);

/// Appends the key of these arguments, one per rule; `kinds`: ruleKinds(rules). `usual` says that
/// there are neither tuples nor other rarities among them. An error when an argument cannot be
/// given for its parameter.
ErrorPtr appendKey(KeyBuffer &key, llvm::ArrayRef<ParamRule> rules, llvm::ArrayRef<RuleKind> kinds,
                   llvm::ArrayRef<nrd_arg> args, llvm::StringRef functionName, bool &usual);

/// The specialisation that the key stands for.
std::vector<frontend::ParamSpec> specialise(llvm::ArrayRef<ParamRule> rules,
                                            llvm::ArrayRef<nrd_arg> args);

/// The arguments with the items of tuples in their places, in `storage` when there are tuples.
llvm::ArrayRef<nrd_arg> flatten(llvm::ArrayRef<nrd_arg> args,
                                llvm::SmallVectorImpl<nrd_arg> &storage);

/// Each parameter that is no tuple, and each item of tuples, in the order of `flatten`; with what
/// messages call it.
using LeafFn = llvm::function_ref<void(const frontend::ParamSpec &, const std::string &name)>;
void forEachLeaf(llvm::ArrayRef<ParamRule> rules, llvm::ArrayRef<frontend::ParamSpec> specs,
                 LeafFn leaf);

/// The same from signature texts: "*fp32:16", "i32", "i32:1", "(*fp32, i32)" for a tuple, and a
/// Python literal for a constexpr parameter.
ErrorPtr specialiseSignature(llvm::ArrayRef<ParamRule> rules, llvm::ArrayRef<llvm::StringRef> texts,
                             llvm::StringRef functionName, std::vector<frontend::ParamSpec> &specs);

/// "*fp32:16", "i32", "1024": what `specialiseSignature` would take for this specialisation.
std::string signatureText(const frontend::ParamSpec &spec);

/// A type as signatures write it: "*fp32", "*kfp16", "i32", "u1".
std::string signatureText(const frontend::Type &type);

/// A known Python literal ("1024", "-3.5", "True", "None", "'tf32'"); nothing when it is not one.
std::optional<frontend::Value> parseLiteral(llvm::StringRef text);

/// Whether the integer argument can be given for a parameter of this integer type.
bool fits(const nrd_arg &arg, frontend::DType type);

/// Whether the argument is this value, as far as the two can be compared.
bool isConstant(const nrd_arg &arg, const frontend::Value &value);

/// Why tuples among the arguments, nested ones too, cannot be read: something is null.
ErrorPtr checkTuples(llvm::ArrayRef<nrd_arg> args, llvm::StringRef functionName);

/// Why the descriptor cannot be given for a parameter that was compiled for `spec`.
ErrorPtr checkDescriptor(const nrd_arg &arg, const frontend::ParamSpec &spec, llvm::StringRef param,
                         llvm::StringRef functionName);

/// What an argument is, for messages: "an integer", "a pointer", "None"...
const char *kindText(const nrd_arg &arg);
/// "a pointer to `fp32`", by nrd_dtype.
std::string pointerText(uint8_t dtype);

/// The bytes that identify a known value (see nrd_value::key), for values without host objects and
/// functions.
std::string keyOfLiteral(const frontend::Value &value);

} // namespace nereid::runtime
