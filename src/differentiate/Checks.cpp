#include "differentiate/Checks.h"

#include "differentiate/Access.h"
#include "differentiate/Refuse.h"
#include "differentiate/Rules.h"
#include "ir/tile/WithTangent.h"
#include "transforms/Provenance.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/UB/IR/UBOps.h"

using namespace mlir;
using nereid::transforms::Origins;
using nereid::transforms::Provenance;

namespace nereid::differentiate {
namespace {

/// A type as the language writes it.
std::string typeName(Type type) {
  if (isa<Float8E4M3FNType>(type))
    return "fp8e4nv";
  if (isa<Float8E5M2Type>(type))
    return "fp8e5";
  if (type.isBF16())
    return "bf16";
  unsigned bits = type.isIntOrFloat() ? type.getIntOrFloatBitWidth() : 64;
  return (isa<FloatType>(type)     ? "fp"
          : isa<IntegerType>(type) ? "int"
                                   : "pointer") +
         (isa<tile::PtrType>(type) ? "" : std::to_string(bits));
}

class Checker {
public:
  Checker(func::FuncOp kernel, ArrayRef<Argument> arguments, const Activity &activity)
      : kernel(kernel), arguments(arguments), activity(activity), provenance(kernel) {}

  std::optional<Refusal> run() {
    findReads();
    std::optional<Refusal> found;
    kernel.getBody().walk<WalkOrder::PreOrder>([&](Operation *op) {
      found = check(op);
      return found ? WalkResult::interrupt() : WalkResult::advance();
    });
    return found;
  }

private:
  std::string name(unsigned argument) const { return argumentName(kernel, argument); }

  /// The arguments that the kernel reads.
  void findReads() {
    isRead.resize(arguments.size());
    kernel.walk([&](Operation *op) {
      std::optional<Access> access = accessOf(op);
      if (!access || !access->loaded)
        return;
      const Origins &from = provenance.of(access->address);
      readsUnknown |= from.unknown;
      for (unsigned argument : from.arguments.set_bits())
        isRead.set(argument);
    });
  }

  std::optional<Refusal> check(Operation *op) const {
    if (std::optional<Access> access = accessOf(op))
      return checkAccess(op, *access);
    StringRef name = op->getName().getStringRef();
    if (isa<func::ReturnOp, scf::YieldOp, scf::ConditionOp, tile::YieldOp>(op))
      return std::nullopt;
    if (auto device = dyn_cast<tile::ExternOp>(op))
      return checkDevice(device);
    if (auto assembly = dyn_cast<tile::InlineAsmOp>(op)) {
      if (activity.hasAny(op->getOperands()) && !findAssemblyRow(assembly.getAssembly()))
        return refuse(op->getLoc(), diag::DerivativeRefused, "inline assembly",
                      "the compiler does not know what it computes; write it in the language");
      return std::nullopt;
    }
    const Row *row = findRow(name);
    if (!row)
      return activity.hasAny(op->getOperands()) || op->getNumRegions()
                 ? std::optional(refuse(op->getLoc(), diag::DerivativeRefused,
                                        "`" + name.str() + "`", "differentiation does not know it"))
                 : std::nullopt;
    if (row->kind == Row::Kind::Refused &&
        (activity.hasAny(op->getOperands()) || op->getNumRegions()))
      return refuse(op->getLoc(), diag::DerivativeRefused, "`" + name.str() + "`", row->why);
    return checkValues(op);
  }

  /// Floats of 8 bits, floats made from bits, pointers of which only some have shadows.
  std::optional<Refusal> checkValues(Operation *op) const {
    if (isa<scf::WhileOp>(op))
      if (auto mixed = checkSources(op))
        return mixed;
    bool bits = llvm::any_of(op->getOperands(), [&](Value v) { return activity.hasBits(v); });
    for (Value result : op->getResults()) {
      Type element = tile::elementOf(result.getType());
      if (bits && isa<FloatType>(element) && op->getNumRegions() == 0 && !isChoice(op))
        return refuse(op->getLoc(), diag::DerivativeOfBits, typeName(element));
      if (activity.hasTangent(result) && tile::isFloat8(element))
        return refuse(op->getLoc(), diag::DerivativeOfFloat8, typeName(element));
      if (activity.hasShadow(result))
        if (auto mixed = checkSources(op))
          return mixed;
    }
    for (Value operand : op->getOperands())
      if (activity.hasTangent(operand) && tile::isFloat8(tile::elementOf(operand.getType())))
        return refuse(op->getLoc(), diag::DerivativeOfFloat8,
                      typeName(tile::elementOf(operand.getType())));
    return std::nullopt;
  }

  /// Whether integers only say which floats the results are.
  static bool isChoice(Operation *op) { return isa<tile::GatherOp, arith::SelectOp>(op); }

  /// Everything that a shadow is made of has one.
  std::optional<Refusal> checkSources(Operation *op) const {
    auto check = [&](ValueRange made, ValueRange sources) -> std::optional<Refusal> {
      for (auto [value, source] : llvm::zip(made, sources))
        if (activity.hasShadow(value) && !activity.hasShadow(source) &&
            !source.getDefiningOp<ub::PoisonOp>())
          return mixedPointers(op, source);
      return std::nullopt;
    };
    if (auto loop = dyn_cast<scf::ForOp>(op)) {
      if (auto refusal = check(loop.getResults(), loop.getInitArgs()))
        return refusal;
      return check(loop.getResults(), loop.getBody()->getTerminator()->getOperands());
    }
    if (auto loop = dyn_cast<scf::WhileOp>(op)) {
      if (auto refusal = check(loop.getBeforeArguments(), loop.getInits()))
        return refusal;
      if (auto refusal = check(loop.getBeforeArguments(), loop.getYieldOp().getResults()))
        return refusal;
      return check(loop.getResults(), loop.getConditionOp().getArgs());
    }
    if (isa<scf::IfOp>(op)) {
      for (Region &region : op->getRegions())
        if (auto refusal = check(op->getResults(), region.front().getTerminator()->getOperands()))
          return refusal;
      return std::nullopt;
    }
    if (op->getNumRegions())
      return refuse(op->getLoc(), diag::DerivativePointerUnknown);
    for (Value operand : op->getOperands())
      if (isa<tile::PtrType, tile::DescType>(tile::elementOf(operand.getType())) &&
          !activity.hasShadow(operand) && !operand.getDefiningOp<ub::PoisonOp>())
        return mixedPointers(op, operand);
    return std::nullopt;
  }

  std::optional<Refusal> mixedPointers(Operation *op, Value without) const {
    const Origins &from = provenance.of(without);
    for (unsigned argument : from.arguments.set_bits())
      if (arguments[argument].tangent < 0)
        return refuse(op->getLoc(), diag::DerivativePointerMixed, name(argument));
    return refuse(op->getLoc(), diag::DerivativePointerUnknown);
  }

  std::optional<Refusal> checkDevice(tile::ExternOp op) const {
    if (!activity.hasAny(op->getOperands()) || tile::isWithTangent(op))
      return std::nullopt;
    const Row *row = op.getLibrary() == "libdevice" ? findDeviceRow(op.getSymbol()) : nullptr;
    if (!row && isa<IntegerType>(tile::elementOf(op.getResult().getType())) && op.getPure())
      return checkValues(op);
    if (!row)
      return refuse(op.getLoc(), diag::DerivativeRefused, "`" + op.getSymbol().str() + "`",
                    "the compiler does not know what it computes; write it in the language");
    if (row->kind == Row::Kind::Refused)
      return refuse(op.getLoc(), diag::DerivativeRefused, "`" + op.getSymbol().str() + "`",
                    row->why);
    return checkValues(op);
  }

  std::optional<Refusal> checkAccess(Operation *op, const Access &access) const {
    const Origins &from = provenance.of(access.address);
    bool shadowed = activity.hasShadow(access.address);
    Type element = pointeeOf(access.address.getType());
    bool isFloat = isa<FloatType>(element);
    Location at = op->getLoc();
    if (!shadowed) {
      for (unsigned argument : from.arguments.set_bits())
        if (arguments[argument].tangent >= 0)
          return refuse(at, diag::DerivativePointerUnknown);
      if (from.unknown && isFloat)
        return refuse(at, diag::DerivativePointerUnknown);
      return access.stored ? checkLost(op, access, from) : std::nullopt;
    }
    if (from.unknown)
      return refuse(at, diag::DerivativePointerUnknown);
    for (unsigned argument : from.arguments.set_bits()) {
      const Argument &buffer = arguments[argument];
      if (buffer.tangent < 0)
        return refuse(at, diag::DerivativePointerMixed, name(argument));
      if (access.isAtomic && (access.kind != tile::AtomicKind::FAdd || access.loaded))
        return refuse(at, diag::DerivativeAtomic, name(argument));
      Type whole = pointeeOf(kernel.getArgumentTypes()[argument]);
      if (whole != element && (access.stored || isFloat))
        return refuse(at, diag::DerivativeElementType, name(argument), typeName(element),
                      typeName(whole));
      if (access.loaded && !access.isAtomic && !buffer.isInput)
        return refuse(at, diag::DerivativeReadsOutput, name(argument));
      if (access.stored && !buffer.isOutput)
        return refuse(at, diag::DerivativeWritesInput, name(argument));
    }
    return std::nullopt;
  }

  /// A tangent that is stored where nobody keeps it is lost, unless nobody reads it either.
  std::optional<Refusal> checkLost(Operation *op, const Access &access, const Origins &from) const {
    bool depends = activity.hasTangent(access.stored) || activity.hasBits(access.stored);
    if (!depends)
      return std::nullopt;
    if (readsUnknown || from.unknown)
      return refuse(op->getLoc(), diag::DerivativePointerUnknown);
    for (unsigned argument : from.arguments.set_bits())
      if (isRead.test(argument))
        return refuse(op->getLoc(), diag::DerivativeLost, name(argument));
    return std::nullopt;
  }

  mutable func::FuncOp kernel;
  ArrayRef<Argument> arguments;
  const Activity &activity;
  Provenance provenance;
  llvm::BitVector isRead;
  bool readsUnknown = false;
};

} // namespace

std::optional<Refusal> findRefusal(func::FuncOp kernel, ArrayRef<Argument> arguments,
                                   const Activity &activity) {
  return Checker(kernel, arguments, activity).run();
}

} // namespace nereid::differentiate
