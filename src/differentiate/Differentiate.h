// Differentiation of kernels: tile IR to tile IR, after inlining and before everything else.
//
// Forward mode. The kernel computes, beside every value that depends on a chosen input, that
// value's tangent: its derivative in the direction that the tangents of the inputs give. Attributes
// of the kernel's arguments say what is asked for:
//
//   tile.tangent = N   argument N is this argument's tangent: a pointer to (or a scalar of) the
//   same
//                      type. Of an argument that a descriptor is made of, sizes and strides: the
//                      same number of the tangent's descriptor.
//   tile.wrt           what this argument holds is an input: its tangent is read
//   tile.out           it is an output: its tangent is written
//
// A pointer that is made from an argument with a tangent has a shadow: the same offsets from the
// argument's tangent. A load reads through both, a store writes through both. What depends on no
// input has no tangent, and costs nothing.
//
// The front end notes derivatives in the kernel's attribute `tile.derivatives` instead, one array
// of numbers for each: 1 for reverse mode, 3 for one with outputs (below) or 0, then three numbers
// for each argument with a tangent: its number, that of its tangent (-1 for none where one could
// be), and 1 (`tile.wrt`) + 2 (`tile.out`). With partial sums (below) three numbers more for each
// of these gradients: its number, that of the argument `tile.row`, and 4; and for each argument of
// `tile.programs`: its number, 0, and 8. With two steps (below) the same with 16 for `tile.saved`,
// 32 for `tile.step`. Each differentiates what those before it have made of the kernel, so a kernel
// may be differentiated twice.
//
// Reverse mode, with the kernel's attribute `tile.reverse`: the kernel computes gradients of the
// inputs from those of the outputs, and nothing else (Transpose.h). A gradient is a pointer to
// elements of the same type, or of fp32 for narrower ones; that of a number is a pointer too. The
// attribute `tile.gradients` then says of each gradient how it is summed and why, for people.
// With the attribute `tile.outputs`, the kernel also does what it did before: it writes its outputs
// and everything else, once, in the first of two steps. Hints to load saved values are of no use
// then, as the kernel stores these values.
//
// Partial sums: with the attribute `tile.programs`, the numbers of three arguments (i32), the
// kernel has as many programs as these say, and fewer are launched, along axis 0. The attribute
// `tile.row` of a gradient is the number of an argument (i64): the gradient is a matrix of zeros
// with rows of so many elements, one for each launched program, and their sum is the gradient
// (PartialSums.cpp).
//
// A gradient kernel may have two steps, which are two launches with the same grid and arguments.
// Its argument with `tile.saved`, a pointer to bytes, leads to memory for what the first step saves
// for the second; that with `tile.step`, an i32, says which is meant: 0 or 1. With the step -1, the
// first program stores there, as an i64, how many bytes each program saves, and the kernel does
// nothing else. The attribute `tile.saved_bytes` is the same number. A kernel without it has one
// step, whatever the argument is. A kernel with partial sums has one step.
//
// Schedules: whether a gradient is summed in another order than the kernel's (Schedules.cpp) is
// decided at run time, by conditions on scalars and the grid. The attribute
// `tile.gradient_conditions` gives those that a launcher can evaluate, as texts (Conditions.h).
// What is known of them when the kernel is compiled stands in `tile.known_conditions` before
// differentiation, as the option `gradient_conditions` has it: the kernel then has only the
// alternatives that are taken. Without it, it has all.
//
// With the kernel's attribute `tile.compact` the kernel has less code, which compiles faster: the
// two loops that compute the states of a recurrence again share one copy of its body
// (TransposeLoops.cpp). Launches on CPUs ask for it.
//
// Two arguments are taken not to overlap. Everything else that could make a tangent wrong without a
// word is refused.
#pragma once

#include "support/diagnostics.h"
#include "support/gradient_facts.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace nereid::differentiate {

/// Why a kernel cannot be differentiated.
struct Refusal {
  mlir::Location where;
  /// Reports it at the place in the source that belongs to `where`.
  std::function<Diagnostic &(DiagnosticEngine &, SourceSpan)> report;

  /// The message alone.
  std::string text() const;
};

/// Whether the kernel's arguments ask for tangents, or a derivative is left to make.
bool isWanted(mlir::func::FuncOp kernel);

/// Whether a derivative is left to make behind the one that is being made.
bool isDifferentiatedAgain(mlir::func::FuncOp kernel);

/// Rewrites the kernel, which calls no functions any more, and removes the attributes of this
/// derivative. When it refuses, the kernel is no longer of use.
std::optional<Refusal> differentiate(mlir::func::FuncOp kernel);

/// Replaces what the functions of WithTangent.h give by their values, in a module that is not
/// differentiated any more.
void dropTangentMarks(mlir::ModuleOp module);

/// Of a gradient kernel, how each gradient is summed and why, a sentence each.
std::vector<std::string> gradientNotes(mlir::func::FuncOp kernel);

/// Of each argument of a gradient kernel a set of GradientFact. Removes the attributes that
/// say so, `tile.gradient_facts`.
std::vector<uint8_t> gradientFacts(mlir::func::FuncOp kernel);

/// Says before differentiation which conditions of schedules hold: the value of the option
/// `gradient_conditions`. False where it is malformed.
bool setKnownConditions(mlir::func::FuncOp kernel, llvm::StringRef text);

/// Asks for less code, before differentiation.
inline constexpr llvm::StringLiteral compactAttribute = "tile.compact";

/// Of a gradient kernel, the conditions of its schedules. Removes the attribute
/// `tile.gradient_conditions`.
std::vector<GradientCondition> gradientConditions(mlir::func::FuncOp kernel);

/// Makes the pass `differentiate` known by name to command-line tools.
void registerPasses();

} // namespace nereid::differentiate
