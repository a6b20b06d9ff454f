#include "differentiate/Conditions.h"

#include "ir/tile/Dialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/xxhash.h"

using namespace mlir;

namespace nereid::differentiate {

namespace {

/// Steps of more operations are not worth evaluating for a launch.
constexpr unsigned mostSteps = 1000;

class Writer {
public:
  std::optional<ConditionText> run(Value condition) {
    if (!numberOf(condition))
      return std::nullopt;
    return std::move(text);
  }

private:
  static std::string nameOf(Type type) {
    return type.isIndex() ? "i64" : "i" + std::to_string(type.getIntOrFloatBitWidth());
  }

  unsigned step(const std::string &words) {
    text.steps += (count ? "; " : "") + words;
    return count++;
  }

  /// The number of the step that gives a value.
  std::optional<unsigned> numberOf(Value value) {
    if (auto hint = value.getDefiningOp<tile::HintOp>())
      return numberOf(hint.getSrc());
    if (auto known = steps.find(value); known != steps.end())
      return known->second;
    if (!value.getType().isIntOrIndex() || count >= mostSteps)
      return std::nullopt;
    std::optional<unsigned> found = writeStep(value);
    if (found)
      steps[value] = *found;
    return found;
  }

  std::optional<unsigned> writeStep(Value value) {
    std::string type = ":" + nameOf(value.getType()) + " ";
    if (auto argument = dyn_cast<BlockArgument>(value)) {
      if (!isa<func::FuncOp>(argument.getOwner()->getParentOp()))
        return std::nullopt;
      text.arguments.push_back(argument.getArgNumber());
      return step("argument" + type + std::to_string(argument.getArgNumber()));
    }
    Operation *op = value.getDefiningOp();
    if (APInt number; matchPattern(value, m_ConstantInt(&number)))
      return step("constant" + type +
                  std::to_string(number.getBitWidth() == 1 ? int64_t(number.getZExtValue())
                                                           : number.getSExtValue()));
    if (auto programs = dyn_cast<tile::NumProgramsOp>(op))
      return step("programs" + type + std::to_string(programs.getAxis()));
    std::string name = operationOf(op);
    if (name.empty())
      return std::nullopt;
    std::string places;
    for (Value operand : op->getOperands()) {
      std::optional<unsigned> place = numberOf(operand);
      if (!place)
        return std::nullopt;
      places += " " + std::to_string(*place);
    }
    name += ":" + nameOf(op->getOperand(op->getNumOperands() - 1).getType());
    if (isa<CastOpInterface>(op))
      name += ":" + nameOf(value.getType());
    return step(name + places);
  }

  /// Its name; empty for one that texts do not have.
  static std::string operationOf(Operation *op) {
    auto name = [&] { return op->getName().stripDialect().str(); };
    return llvm::TypeSwitch<Operation *, std::string>(op)
        .Case([&](arith::CmpIOp compare) {
          return name() + "." + arith::stringifyCmpIPredicate(compare.getPredicate()).str();
        })
        .Case<arith::AddIOp, arith::SubIOp, arith::MulIOp, arith::DivSIOp, arith::RemSIOp,
              arith::DivUIOp, arith::RemUIOp, arith::MinSIOp, arith::MaxSIOp, arith::MinUIOp,
              arith::MaxUIOp, arith::AndIOp, arith::OrIOp, arith::XOrIOp, arith::SelectOp,
              arith::ExtSIOp, arith::ExtUIOp, arith::TruncIOp, arith::IndexCastOp,
              arith::IndexCastUIOp>([&](auto) { return name(); })
        .Default([](Operation *) { return std::string(); });
  }

  ConditionText text;
  unsigned count = 0;
  llvm::DenseMap<Value, unsigned> steps;
};

} // namespace

std::string idOfCondition(StringRef steps) {
  return llvm::utohexstr(llvm::xxh3_64bits(steps), /*LowerCase=*/true, 16);
}

std::optional<llvm::StringMap<bool>> parseConditions(StringRef text) {
  llvm::StringMap<bool> known;
  SmallVector<StringRef> items;
  text.split(items, ',', -1, /*KeepEmpty=*/!text.empty());
  for (StringRef item : items) {
    auto [id, holds] = item.split('=');
    bool isValid = id.size() == 16 &&
                   llvm::all_of(id, [](char c) { return llvm::isHexDigit(c); }) &&
                   (holds == "0" || holds == "1");
    if (!isValid || !known.try_emplace(id, holds == "1").second)
      return std::nullopt;
  }
  return known;
}

std::optional<ConditionText> textOf(Value condition) {
  return Writer().run(condition);
}

} // namespace nereid::differentiate
