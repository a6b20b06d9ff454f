#include "targets/nvidia/codegen/RegisterDemand.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/PostOrderIterator.h"
#include "llvm/IR/CFG.h"
#include "llvm/IR/Function.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/IntrinsicInst.h"

namespace nereid::nvidia {
namespace {

/// Registers besides those of values: addresses, masks, temporaries of functions.
constexpr int kBeside = 10;

bool isMatrixProduct(const llvm::CallInst &call) {
  if (auto *text = llvm::dyn_cast<llvm::InlineAsm>(call.getCalledOperand()))
    return text->getAsmString().contains("mma");
  const llvm::Function *callee = call.getCalledFunction();
  return callee && callee->isIntrinsic() && callee->getName().contains("mma");
}

bool isShuffle(const llvm::CallInst &call) {
  const llvm::Function *callee = call.getCalledFunction();
  return callee && callee->isIntrinsic() && callee->getName().contains("shfl.sync.bfly");
}

bool anyCall(const llvm::Function &function, bool (*is)(const llvm::CallInst &)) {
  return llvm::any_of(llvm::instructions(function), [&](const llvm::Instruction &instruction) {
    auto *call = llvm::dyn_cast<llvm::CallInst>(&instruction);
    return call && is(*call);
  });
}

/// Half registers of a type; packed 16-bit values share one.
int halvesOf(llvm::Type *type) {
  if (auto *structure = llvm::dyn_cast<llvm::StructType>(type)) {
    int sum = 0;
    for (llvm::Type *element : structure->elements())
      sum += halvesOf(element);
    return sum;
  }
  if (type->isPointerTy())
    return type->getPointerAddressSpace() == 3 ? 2 : 4;
  unsigned bits = type->getScalarSizeInBits();
  if (bits <= 1) // predicates, labels
    return 0;
  if (auto *vector = llvm::dyn_cast<llvm::FixedVectorType>(type))
    return int((bits * vector->getNumElements() + 15) / 16);
  return bits <= 16 ? 1 : int((bits + 31) / 32 * 2);
}

/// The liveness of values, in half registers.
class Liveness {
public:
  explicit Liveness(const llvm::Function &function) : function(function) {}

  /// Fills `acrossExchanges` and `most`; false where the estimate does not apply.
  bool run() {
    if (anyCall(function, isMatrixProduct))
      return false;
    llvm::SmallVector<const llvm::BasicBlock *> order(llvm::post_order(&function.getEntryBlock()));
    bool changed = true;
    while (changed) {
      changed = false;
      for (const llvm::BasicBlock *block : order) {
        Values values = walk(*block, /*measure=*/false);
        Values &known = liveIn[block];
        if (values.size() != known.size()) { // sets only grow
          known = std::move(values);
          changed = true;
        }
      }
    }
    for (const llvm::BasicBlock *block : order)
      walk(*block, /*measure=*/true);
    return exchanges;
  }

  int acrossExchanges = 0, most = 0;

private:
  using Values = llvm::DenseSet<const llvm::Value *>;

  /// Results that need registers of their own. Parts are counted, not the wholes that they are
  /// taken from and made to; addresses with constant offsets belong to the access.
  static bool isCounted(const llvm::Value *value) {
    auto *instruction = llvm::dyn_cast<llvm::Instruction>(value);
    if (!instruction || instruction->getType()->isVoidTy())
      return false;
    if (llvm::isa<llvm::InsertElementInst, llvm::InsertValueInst>(instruction))
      return false;
    if (auto *address = llvm::dyn_cast<llvm::GetElementPtrInst>(instruction))
      return !address->hasAllConstantIndices();
    auto isPart = [](const llvm::User *user) {
      return llvm::isa<llvm::ExtractElementInst, llvm::ExtractValueInst>(user);
    };
    bool isWhole = instruction->getType()->isStructTy() || instruction->getType()->isVectorTy();
    return !isWhole || !llvm::all_of(instruction->users(), isPart);
  }
  static void use(const llvm::Value *value, Values &live, int &halves) {
    // A value derived from an address or from parts keeps these alive.
    if (auto *instruction = llvm::dyn_cast<llvm::Instruction>(value);
        instruction && !isCounted(value) && !instruction->getType()->isVoidTy() &&
        llvm::isa<llvm::GetElementPtrInst, llvm::InsertElementInst, llvm::InsertValueInst>(
            instruction)) {
      if (live.insert(value).second)
        for (const llvm::Value *operand : instruction->operands())
          use(operand, live, halves);
      return;
    }
    if (isCounted(value) && live.insert(value).second)
      halves += halvesOf(value->getType());
  }

  /// The values live in front of a block.
  Values walk(const llvm::BasicBlock &block, bool measure) {
    Values live;
    int halves = 0;
    for (const llvm::BasicBlock *next : llvm::successors(&block)) {
      for (const llvm::Value *value : liveIn[next])
        use(value, live, halves);
      for (const llvm::PHINode &phi : next->phis())
        use(phi.getIncomingValueForBlock(&block), live, halves);
    }
    for (const llvm::Instruction &instruction : llvm::reverse(block)) {
      if (live.erase(&instruction) && isCounted(&instruction))
        halves -= halvesOf(instruction.getType());
      if (llvm::isa<llvm::PHINode>(instruction))
        continue;
      auto *call = llvm::dyn_cast<llvm::CallInst>(&instruction);
      if (measure && call && call->isConvergent()) {
        exchanges = true;
        acrossExchanges = std::max(acrossExchanges, halves);
      }
      for (const llvm::Value *operand : instruction.operands())
        use(operand, live, halves);
      if (measure)
        most = std::max(most, halves);
    }
    return live;
  }

  const llvm::Function &function;
  llvm::DenseMap<const llvm::BasicBlock *, Values> liveIn;
  bool exchanges = false;
};

} // namespace

int registerDemand(const llvm::Function &kernel) {
  Liveness liveness(kernel);
  if (!liveness.run())
    return 0;
  return std::max((liveness.acrossExchanges + 1) / 2 + kBeside, liveness.most * 3 / 10);
}

bool isBoundByProducts(const llvm::Function &kernel) {
  return anyCall(kernel, isMatrixProduct) && !anyCall(kernel, isShuffle);
}

} // namespace nereid::nvidia
