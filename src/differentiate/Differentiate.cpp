#include "differentiate/Differentiate.h"

#include "differentiate/Checks.h"
#include "differentiate/Conditions.h"
#include "differentiate/Forward.h"
#include "differentiate/Marks.h"
#include "differentiate/MergeLoads.h"
#include "differentiate/OnlineSums.h"
#include "differentiate/PickedElements.h"
#include "differentiate/Refuse.h"
#include "differentiate/Transpose.h"
#include "ir/tile/WithTangent.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/DenseSet.h"

using namespace mlir;

namespace nereid::differentiate {

/// Of derivatives that the front end notes: Differentiate.h.
static constexpr llvm::StringLiteral derivativesAttribute = "tile.derivatives";

/// Of a kernel that is differentiated more than once, until it is.
static constexpr llvm::StringLiteral severalAttribute = "tile.several_derivatives";

static ArrayAttr derivativesOf(func::FuncOp kernel) {
  return kernel->getAttrOfType<ArrayAttr>(derivativesAttribute);
}

/// Turns the first of the derivatives that the front end noted into attributes of arguments.
static void beginDerivative(func::FuncOp kernel) {
  ArrayAttr all = derivativesOf(kernel);
  if (!all)
    return;
  Builder builder(kernel.getContext());
  ArrayRef<int64_t> links = cast<DenseI64ArrayAttr>(all[0]).asArrayRef();
  if (links[0] & 1)
    kernel->setAttr("tile.reverse", builder.getUnitAttr());
  if (links[0] & 2)
    kernel->setAttr("tile.outputs", builder.getUnitAttr());
  SmallVector<int64_t> programs;
  for (size_t i = 1; i < links.size(); i += 3) {
    unsigned argument = links[i];
    if (links[i + 2] == 8) {
      programs.push_back(argument);
      continue;
    }
    if (links[i + 2] == 4) {
      kernel.setArgAttr(argument, "tile.row", builder.getI64IntegerAttr(links[i + 1]));
      continue;
    }
    if (links[i + 2] == 16 || links[i + 2] == 32) {
      kernel.setArgAttr(argument, links[i + 2] == 16 ? "tile.saved" : "tile.step",
                        builder.getUnitAttr());
      continue;
    }
    if (links[i + 1] < 0) {
      kernel.setArgAttr(argument, "tile.named", builder.getUnitAttr());
      continue;
    }
    kernel.setArgAttr(argument, "tile.tangent", builder.getI64IntegerAttr(links[i + 1]));
    if (links[i + 2] & 1)
      kernel.setArgAttr(argument, "tile.wrt", builder.getUnitAttr());
    if (links[i + 2] & 2)
      kernel.setArgAttr(argument, "tile.out", builder.getUnitAttr());
  }
  if (!programs.empty())
    kernel->setAttr("tile.programs", builder.getDenseI64ArrayAttr(programs));
  if (all.size() > 1)
    kernel->setAttr(severalAttribute, builder.getUnitAttr());
  if (all.size() == 1)
    kernel->removeAttr(derivativesAttribute);
  else
    kernel->setAttr(derivativesAttribute, builder.getArrayAttr(all.getValue().drop_front()));
}

bool isDifferentiatedAgain(func::FuncOp kernel) {
  return bool(derivativesOf(kernel));
}

bool isWanted(func::FuncOp kernel) {
  if (derivativesOf(kernel))
    return true;
  for (unsigned i = 0; i < kernel.getNumArguments(); ++i)
    if (kernel.getArgAttr(i, "tile.tangent"))
      return true;
  return false;
}

namespace {

/// Rules of an author's own are linear in tangents. They get zeros with the inputs' tangents
/// (`with_tangent` of the constant 0), so what a derivative multiplies tangents by must not be
/// computed from these zeros.
class LinearRules {
public:
  explicit LinearRules(func::FuncOp kernel) {
    kernel.walk([&](Operation *op) {
      before.insert(op);
      if (tile::isWithTangent(op) && isZero(op->getOperand(0)))
        add(op->getResult(0));
    });
    while (!pending.empty()) {
      Value value = pending.pop_back_val();
      for (Operation *user : value.getUsers()) {
        if (tile::isWithTangent(user)) // whose value is the first operand
          continue;
        for (Value result : isa<scf::YieldOp, tile::YieldOp>(user)
                                ? user->getParentOp()->getResults()
                                : user->getResults())
          add(result);
      }
    }
  }

  /// After tangents were added.
  std::optional<Refusal> check(func::FuncOp kernel) const {
    std::optional<Refusal> found;
    if (!fromTangents.empty())
      kernel.walk([&](Operation *op) {
        if (found || before.contains(op) || op->getNumRegions() ||
            llvm::none_of(op->getOperands(), [&](Value v) { return fromTangents.contains(v); }))
          return;
        found =
            refuse(op->getLoc(), diag::DerivativeRefused, "a rule that is not linear in tangents",
                   "each result is a sum of tangents, each multiplied by what does not depend "
                   "on tangents");
      });
    return found;
  }

private:
  void add(Value value) {
    if (fromTangents.insert(value).second)
      pending.push_back(value);
  }
  static bool isZero(Value value) {
    if (auto splat = value.getDefiningOp<tile::SplatOp>())
      value = splat.getSrc();
    return matchPattern(value, m_AnyZeroFloat());
  }

  llvm::DenseSet<Operation *> before;
  llvm::DenseSet<Value> fromTangents;
  SmallVector<Value> pending;
};

} // namespace

static void dropMarks(Operation *within) {
  within->walk([](Operation *op) {
    if (!tile::isDerivativeMark(op))
      return;
    op->getResult(0).replaceAllUsesWith(op->getOperand(0));
    op->erase();
  });
}

std::optional<Refusal> differentiate(func::FuncOp kernel) {
  beginDerivative(kernel);
  SmallVector<Argument> arguments = argumentsOf(kernel);
  bool isReverse = kernel->hasAttr("tile.reverse");
  if (std::optional<Refusal> refusal = applyMarks(kernel, arguments, isReverse,
                                                  /*loadsSaved=*/!isDifferentiatedAgain(kernel) &&
                                                      !kernel->hasAttr("tile.outputs")))
    return refusal;
  if (std::optional<Refusal> refusal = findRefusal(kernel, arguments, Activity(kernel, arguments)))
    return refusal;
  if (isReverse) {
    if (std::optional<Refusal> refusal = findGradientRefusal(kernel, arguments))
      return refusal;
    mergeLoads(kernel, arguments);
    movePickedLoads(kernel, arguments);
    separateOnlineSums(kernel, arguments);
  }
  Activity activity(kernel, arguments);
  LinearRules rules(kernel);
  addTangents(kernel, arguments, activity, isReverse);
  if (std::optional<Refusal> refusal = rules.check(kernel))
    return refusal;
  dropMarks(kernel); // which would count as uses of what they were computed from
  if (isReverse)
    if (std::optional<Refusal> refusal =
            transpose(kernel, arguments, /*mayHaveSchedules=*/!kernel->hasAttr(severalAttribute)))
      return refusal;
  for (unsigned i = 0; i < kernel.getNumArguments(); ++i)
    for (StringRef name : {"tile.tangent", "tile.wrt", "tile.out", "tile.named", "tile.row",
                           "tile.saved", "tile.step"})
      kernel.removeArgAttr(i, name);
  kernel.walk([](Operation *op) { op->removeAttr(constantAttribute); });
  kernel->removeAttr("tile.reverse");
  kernel->removeAttr("tile.outputs");
  kernel->removeAttr("tile.programs");
  if (!derivativesOf(kernel))
    for (StringRef name : {StringRef(knownConditionsAttribute), StringRef(severalAttribute),
                           StringRef(compactAttribute)})
      kernel->removeAttr(name);
  return std::nullopt;
}

void dropTangentMarks(ModuleOp module) {
  dropMarks(module);
}

std::vector<std::string> gradientNotes(func::FuncOp kernel) {
  std::vector<std::string> notes;
  if (auto all = kernel->getAttrOfType<ArrayAttr>("tile.gradients"))
    for (StringRef note : all.getAsValueRange<StringAttr>())
      if (!llvm::is_contained(notes, note)) // a tensor that is read in several places
        notes.push_back(note.str());
  return notes;
}

bool setKnownConditions(func::FuncOp kernel, StringRef text) {
  if (!parseConditions(text))
    return false;
  kernel->setAttr(knownConditionsAttribute, StringAttr::get(kernel.getContext(), text));
  return true;
}

std::vector<GradientCondition> gradientConditions(func::FuncOp kernel) {
  std::vector<GradientCondition> conditions;
  if (auto all = kernel->getAttrOfType<ArrayAttr>(conditionsAttribute))
    for (StringRef steps : all.getAsValueRange<StringAttr>())
      conditions.push_back({idOfCondition(steps), steps.str()});
  kernel->removeAttr(conditionsAttribute);
  return conditions;
}

std::vector<uint8_t> gradientFacts(func::FuncOp kernel) {
  std::vector<uint8_t> facts(kernel.getNumArguments());
  for (unsigned i = 0; i < facts.size(); ++i)
    if (auto known = kernel.getArgAttrOfType<IntegerAttr>(i, "tile.gradient_facts")) {
      facts[i] = uint8_t(known.getInt());
      kernel.removeArgAttr(i, "tile.gradient_facts");
    }
  return facts;
}

} // namespace nereid::differentiate
