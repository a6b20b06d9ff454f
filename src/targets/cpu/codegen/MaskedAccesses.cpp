#include "targets/cpu/codegen/MaskedAccesses.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/Analysis/InstSimplifyFolder.h"
#include "llvm/Analysis/TargetTransformInfo.h"
#include "llvm/Analysis/VectorUtils.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/Module.h"
#include "llvm/Target/TargetMachine.h"

using namespace llvm;

namespace nereid::cpu {
namespace {

using Builder = IRBuilder<InstSimplifyFolder>;

Builder before(Instruction *instruction) {
  return Builder(instruction->getParent(), instruction->getIterator(),
                 InstSimplifyFolder(instruction->getDataLayout()));
}

SmallVector<int> lanes(unsigned first, unsigned count) {
  SmallVector<int> result;
  for (unsigned lane = 0; lane < count; ++lane)
    result.push_back(int(first + lane));
  return result;
}

/// Parts of the vectors of a function, `first` the first lane of each.
class Parts {
public:
  explicit Parts(Function &function, unsigned count) : function(function), count(count) {}

  /// The operations that compute a mask are split with it, so that constant parts fold and
  /// comparisons stay next to their users.
  Value *ofMask(Value *mask, unsigned first) {
    auto *op = dyn_cast<Instruction>(mask);
    bool taken = op && (op->isBitwiseLogicOp() || isa<CmpInst, SelectInst>(op));
    if (!taken || !mask->getType()->getScalarType()->isIntegerTy(1))
      return of(mask, first);
    if (Value *known = parts.lookup({mask, first}))
      return known;
    SmallVector<Value *, 3> operands;
    for (Value *operand : op->operands())
      operands.push_back(operand->getType()->isVectorTy() ? ofMask(operand, first) : operand);
    Builder b = after(op);
    Value *part;
    if (auto *compare = dyn_cast<CmpInst>(op))
      part = b.CreateCmp(compare->getPredicate(), operands[0], operands[1]);
    else if (isa<SelectInst>(op))
      part = b.CreateSelect(operands[0], operands[1], operands[2]);
    else
      part = b.CreateBinOp(cast<BinaryOperator>(op)->getOpcode(), operands[0], operands[1]);
    return parts[{mask, first}] = part;
  }

  Value *of(Value *vector, unsigned first) {
    if (Value *known = parts.lookup({vector, first}))
      return known;
    Builder b = after(vector);
    Value *scalar = getSplatValue(vector);
    return parts[{vector, first}] = scalar ? b.CreateVectorSplat(count, scalar)
                                           : b.CreateShuffleVector(vector, lanes(first, count));
  }

private:
  /// Behind what makes a value, so that parts leave loops as their wholes did.
  Builder after(Value *value) {
    auto *op = dyn_cast<Instruction>(value);
    BasicBlock::iterator place =
        op ? *op->getInsertionPointAfterDef() : function.getEntryBlock().getFirstInsertionPt();
    return before(&*place);
  }

  Function &function;
  unsigned count;
  DenseMap<std::pair<Value *, unsigned>, Value *> parts;
};

struct Access {
  IntrinsicInst *call;
  bool isLoad;
  Value *pointer() const { return call->getArgOperand(isLoad ? 0 : 1); }
  Value *mask() const { return call->getArgOperand(isLoad ? 1 : 2); }
  /// Of a load the value of masked lanes, of a store the stored value.
  Value *value() const { return call->getArgOperand(isLoad ? 2 : 0); }
  FixedVectorType *type() const { return cast<FixedVectorType>(value()->getType()); }
  Align align() const { return call->getParamAlign(isLoad ? 0 : 1).valueOrOne(); }
  unsigned elementBytes() const { return type()->getScalarSizeInBits() / 8; }
};

SmallVector<Access> maskedAccesses(Function &function) {
  SmallVector<Access> found;
  for (Instruction &instruction : instructions(function)) {
    auto *call = dyn_cast<IntrinsicInst>(&instruction);
    if (!call)
      continue;
    if (call->getIntrinsicID() == Intrinsic::masked_load)
      found.push_back({call, true});
    else if (call->getIntrinsicID() == Intrinsic::masked_store)
      found.push_back({call, false});
  }
  return found;
}

/// Leaves the access behind without uses: `parts` knows values by their addresses.
void splitAccess(const Access &access, unsigned count, Parts &parts) {
  unsigned width = access.type()->getNumElements();
  SmallVector<Value *> loaded;
  for (unsigned first = 0; first < width; first += count) {
    Value *mask = parts.ofMask(access.mask(), first), *part = parts.of(access.value(), first);
    auto *known = dyn_cast<Constant>(mask);
    bool isOff = known && known->isNullValue(), isOn = known && known->isAllOnesValue();
    uint64_t bytes = uint64_t(first) * access.elementBytes();
    Align align = commonAlignment(access.align(), bytes);
    Builder b = before(access.call);
    Value *pointer = isOff ? nullptr : b.CreateConstGEP1_64(b.getInt8Ty(), access.pointer(), bytes);
    if (access.isLoad && !isOff)
      part = isOn ? cast<Value>(b.CreateAlignedLoad(part->getType(), pointer, align))
                  : b.CreateMaskedLoad(part->getType(), pointer, align, mask, part);
    else if (isOn)
      b.CreateAlignedStore(part, pointer, align);
    else if (!isOff)
      b.CreateMaskedStore(part, pointer, align, mask);
    loaded.push_back(part);
  }
  if (access.isLoad) {
    Builder b = before(access.call);
    access.call->replaceAllUsesWith(concatenateVectors(b, loaded));
  }
}

/// The only lane that a constant mask lets through, when there is just one.
std::optional<unsigned> singleLane(Value *mask) {
  auto *constant = dyn_cast<Constant>(mask);
  if (!constant)
    return std::nullopt;
  std::optional<unsigned> found;
  unsigned count = cast<FixedVectorType>(mask->getType())->getNumElements();
  for (unsigned lane = 0; lane < count; ++lane) {
    Constant *element = constant->getAggregateElement(lane);
    if (element && element->isNullValue())
      continue;
    if (found || !element || !element->isOneValue())
      return std::nullopt;
    found = lane;
  }
  return found;
}

void storeLane(const Access &access, unsigned lane) {
  Builder b = before(access.call);
  Value *element = b.CreateExtractElement(access.value(), uint64_t(lane));
  uint64_t bytes = uint64_t(lane) * access.elementBytes();
  Value *address = b.CreateConstGEP1_64(b.getInt8Ty(), access.pointer(), bytes);
  b.CreateAlignedStore(element, address, commonAlignment(access.align(), bytes));
  access.call->eraseFromParent();
}

} // namespace

void simplifyMaskedAccesses(Module &module, TargetMachine &target) {
  for (Function &function : module) {
    if (function.isDeclaration())
      continue;
    TargetTransformInfo costs = target.getTargetTransformInfo(function);
    unsigned bits =
        costs.getRegisterBitWidth(TargetTransformInfo::RGK_FixedWidthVector).getFixedValue();
    SmallDenseMap<unsigned, std::unique_ptr<Parts>> partsOfWidth;
    SmallVector<Instruction *> split;
    for (const Access &access : maskedAccesses(function)) {
      unsigned width = access.type()->getNumElements(), count = bits / (8 * access.elementBytes());
      bool legal = access.isLoad ? costs.isLegalMaskedLoad(access.type(), access.align(), 0)
                                 : costs.isLegalMaskedStore(access.type(), access.align(), 0);
      std::unique_ptr<Parts> &parts = partsOfWidth[count];
      if (!parts)
        parts = std::make_unique<Parts>(function, count);
      if (!legal || !count || width <= count || width % count)
        continue;
      splitAccess(access, count, *parts);
      split.push_back(access.call);
    }
    for (Instruction *call : split)
      call->eraseFromParent();
    for (const Access &access : maskedAccesses(function))
      if (std::optional<unsigned> lane = access.isLoad ? std::nullopt : singleLane(access.mask()))
        storeLane(access, *lane);
  }
}

} // namespace nereid::cpu
