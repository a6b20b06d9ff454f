#include "targets/nvidia/codegen/PinAccumulators.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Analysis/LoopInfo.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/Dominators.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/Module.h"

namespace nereid::nvidia {
namespace {

bool isWgmma(const llvm::User *user) {
  auto *call = llvm::dyn_cast<llvm::CallInst>(user);
  auto *text = call ? llvm::dyn_cast<llvm::InlineAsm>(call->getCalledOperand()) : nullptr;
  return text && text->getAsmString().contains("wgmma");
}

/// Where a constant comes in: operand `incoming` of a phi.
struct Entry {
  llvm::PHINode *phi;
  unsigned incoming;
};

/// One loop-carried accumulator that starts from a constant.
struct Accumulator {
  llvm::Constant *start;
  llvm::SmallVector<Entry, 2> entries; ///< of the loop's header, and of blocks after it
};

bool isStart(const llvm::Value *value) {
  return (llvm::isa<llvm::ConstantFP>(value) || llvm::isa<llvm::ConstantInt>(value)) &&
         value->getType()->getPrimitiveSizeInBits() == 32;
}

/// The accumulators that `loop` carries from constants.
llvm::SmallVector<Accumulator, 0> accumulatorsOf(llvm::Loop &loop) {
  llvm::SmallVector<Accumulator, 0> found;
  llvm::BasicBlock *latch = loop.getLoopLatch();
  if (!latch)
    return found;
  llvm::SmallVector<llvm::BasicBlock *, 4> exits;
  loop.getUniqueExitBlocks(exits);
  for (llvm::PHINode &phi : loop.getHeader()->phis()) {
    if (phi.getNumIncomingValues() != 2 || !llvm::any_of(phi.users(), isWgmma))
      continue;
    unsigned outside = phi.getIncomingBlock(0) == latch ? 1 : 0;
    llvm::Value *carried = phi.getIncomingValue(1 - outside);
    if (!isStart(phi.getIncomingValue(outside)))
      continue;
    Accumulator accumulator{llvm::cast<llvm::Constant>(phi.getIncomingValue(outside)),
                            {{&phi, outside}}};
    // Paths around the loop meet what it computed.
    for (llvm::BasicBlock *exit : exits)
      for (llvm::PHINode &after : exit->phis())
        if (llvm::is_contained(after.incoming_values(), carried) ||
            llvm::is_contained(after.incoming_values(), &phi))
          for (unsigned i = 0; i < after.getNumIncomingValues(); ++i)
            if (after.getIncomingValue(i) == accumulator.start)
              accumulator.entries.push_back({&after, i});
    found.push_back(std::move(accumulator));
  }
  return found;
}

/// Registers with these constants, as results of one instruction that nothing looks into.
llvm::Value *opaque(llvm::IRBuilder<> &builder, llvm::ArrayRef<Accumulator> accumulators) {
  std::string text, constraints;
  llvm::SmallVector<llvm::Type *> types;
  for (auto [i, accumulator] : llvm::enumerate(accumulators)) {
    auto *number = llvm::dyn_cast<llvm::ConstantFP>(accumulator.start);
    llvm::APInt bits = number ? number->getValueAPF().bitcastToAPInt()
                              : llvm::cast<llvm::ConstantInt>(accumulator.start)->getValue();
    text += "mov.b32 $" + std::to_string(i) + ", 0x" + llvm::utohexstr(bits.getZExtValue()) + ";\n";
    types.push_back(accumulator.start->getType());
    constraints += std::string(constraints.empty() ? "" : ",") + (number ? "=f" : "=r");
  }
  llvm::Type *result =
      types.size() == 1 ? types.front() : llvm::StructType::get(builder.getContext(), types);
  auto *code = llvm::InlineAsm::get(llvm::FunctionType::get(result, false), text, constraints,
                                    /*hasSideEffects=*/true);
  return builder.CreateCall(code, {});
}

void pin(llvm::Loop &loop, llvm::DominatorTree &dominators) {
  llvm::SmallVector<Accumulator, 0> all = accumulatorsOf(loop);
  if (all.empty())
    return;
  llvm::BasicBlock *place = nullptr;
  for (const Accumulator &accumulator : all)
    for (const Entry &entry : accumulator.entries) {
      llvm::BasicBlock *from = entry.phi->getIncomingBlock(entry.incoming);
      place = place ? dominators.findNearestCommonDominator(place, from) : from;
    }
  llvm::IRBuilder<> builder(place->getTerminator());
  // One instruction can name only so many operands.
  constexpr size_t batch = 64;
  for (size_t first = 0; first < all.size(); first += batch) {
    auto part = llvm::ArrayRef(all).slice(first, std::min(batch, all.size() - first));
    llvm::Value *registers = opaque(builder, part);
    for (auto [i, accumulator] : llvm::enumerate(part)) {
      llvm::Value *value =
          part.size() == 1 ? registers : builder.CreateExtractValue(registers, unsigned(i));
      for (const Entry &entry : accumulator.entries)
        entry.phi->setIncomingValue(entry.incoming, value);
    }
  }
}

} // namespace

void pinAccumulators(llvm::Module &module) {
  for (llvm::Function &function : module) {
    bool uses = false;
    for (llvm::BasicBlock &block : function)
      uses |= llvm::any_of(block, [](llvm::Instruction &op) { return isWgmma(&op); });
    if (!uses)
      continue;
    llvm::DominatorTree dominators(function);
    llvm::LoopInfo loops(dominators);
    for (llvm::Loop *loop : loops.getLoopsInPreorder())
      pin(*loop, dominators);
  }
}

} // namespace nereid::nvidia
