#include "targets/nvidia/codegen/RowPointers.h"

#include "llvm/Analysis/LoopInfo.h"
#include "llvm/IR/Dominators.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/Module.h"
#include "llvm/Transforms/Utils/Local.h"

#include <map>

namespace nereid::nvidia {
namespace {

bool isPtx(const llvm::User &user, llvm::StringRef name) {
  auto *call = llvm::dyn_cast<llvm::CallInst>(&user);
  auto *text = call ? llvm::dyn_cast<llvm::InlineAsm>(call->getCalledOperand()) : nullptr;
  return text && text->getAsmString().contains(name);
}

bool isProduct(const llvm::Instruction &op) {
  return isPtx(op, "wgmma.mma_async");
}
bool isCopy(const llvm::User *user) {
  return isPtx(*user, "cp.async");
}

/// Whether the loop only accumulates in its products: nothing else in it looks at a result.
bool onlyAccumulates(const llvm::Loop &loop) {
  for (llvm::BasicBlock *block : loop.blocks())
    for (llvm::Instruction &op : *block) {
      if (!isPtx(op, "wgmma."))
        continue;
      for (const llvm::User *part : op.users()) {
        auto used = [&](const llvm::User *user) {
          auto *reader = llvm::cast<llvm::Instruction>(user);
          return loop.contains(reader) && !llvm::isa<llvm::PHINode>(reader) &&
                 !isPtx(*reader, "wgmma.");
        };
        if (llvm::isa<llvm::ExtractValueInst>(part) ? llvm::any_of(part->users(), used)
                                                    : used(part))
          return false;
      }
    }
  return true;
}

/// `pointer` as an address in global memory some elements of a number past another one; null if it
/// is none.
llvm::GetElementPtrInst *stepIn(llvm::Value *pointer) {
  auto *step = llvm::dyn_cast<llvm::GetElementPtrInst>(pointer);
  return step && step->getNumIndices() == 1 && step->getPointerAddressSpace() == 1 &&
                 step->getType()->isPointerTy() && step->getSourceElementType()->isIntegerTy() &&
                 step->getOperand(1)->getType()->isIntegerTy(64)
             ? step
             : nullptr;
}

/// Numbers that a loop changes, and how many bytes each counts. The same ones are one offset.
using Moved = llvm::SmallVector<std::pair<llvm::Value *, int64_t>>;

/// An address as the sum of what a loop does not change, what it does, and a constant.
struct Sum {
  llvm::Value *base = nullptr;                      ///< invariant
  llvm::SmallVector<llvm::GetElementPtrInst *> row; ///< invariant steps, the last one first
  Moved moved;
  int64_t bytes = 0;
};

class Rewriter {
public:
  Rewriter(llvm::Loop &loop, const llvm::DominatorTree &dominators)
      : loop(loop), dominators(dominators), layout(loop.getHeader()->getModule()->getDataLayout()),
        before(loop.getLoopPreheader()->getTerminator()) {}

  void run() {
    llvm::SmallVector<std::pair<llvm::GetElementPtrInst *, Sum>> found;
    for (llvm::BasicBlock *block : loop.blocks())
      for (llvm::Instruction &op : *block)
        if (llvm::GetElementPtrInst *step = stepIn(&op);
            step && llvm::any_of(step->users(), isCopy))
          if (Sum sum = sumOf(step); !sum.moved.empty())
            found.emplace_back(step, std::move(sum));
    std::map<Moved, llvm::SmallVector<llvm::Instruction *>> uses;
    for (auto &[step, sum] : found)
      uses[sum.moved].push_back(step);
    // Where a row's pointer is computed in front of the loop already, rows share an offset.
    llvm::erase_if(found, [&](const auto &each) {
      return each.second.row.empty() && uses[each.second.moved].size() == 1;
    });
    for (auto &[step, sum] : found) {
      llvm::Value *start = sum.base;
      for (llvm::GetElementPtrInst *row : llvm::reverse(sum.row))
        start = before.CreateGEP(row->getSourceElementType(), start, row->getOperand(1));
      llvm::IRBuilder<> b(step);
      llvm::Value *address = b.CreatePtrAdd(start, bytesMoved(sum.moved, uses[sum.moved]));
      if (sum.bytes)
        address = b.CreatePtrAdd(address, b.getInt64(sum.bytes));
      step->replaceAllUsesWith(address);
    }
    for (auto &[step, sum] : found)
      llvm::RecursivelyDeleteTriviallyDeadInstructions(step);
  }

private:
  int64_t sizeOf(const llvm::GetElementPtrInst &step) const {
    return int64_t(layout.getTypeAllocSize(step.getSourceElementType()).getFixedValue());
  }

  Sum sumOf(llvm::Value *address) const {
    Sum sum;
    while (!loop.isLoopInvariant(address)) {
      llvm::GetElementPtrInst *step = stepIn(address);
      if (!step)
        return {};
      llvm::Value *index = step->getOperand(1);
      if (auto *number = llvm::dyn_cast<llvm::ConstantInt>(index))
        sum.bytes += number->getSExtValue() * sizeOf(*step);
      else if (loop.isLoopInvariant(index))
        sum.row.push_back(step);
      else
        sum.moved.emplace_back(index, sizeOf(*step));
      address = step->getPointerOperand();
    }
    sum.base = address;
    return sum;
  }

  /// The sum of what is moved, opaque, in front of all uses.
  llvm::Value *bytesMoved(const Moved &moved, llvm::ArrayRef<llvm::Instruction *> uses) {
    llvm::Value *&bytes = offsets[moved];
    if (bytes)
      return bytes;
    llvm::IRBuilder<> b(uses.front());
    if (llvm::any_of(uses.drop_front(),
                     [&](auto *use) { return !dominators.dominates(uses.front(), use); }))
      b.SetInsertPoint(behindAll(moved));
    for (auto [number, size] : moved) {
      llvm::Value *part = b.CreateMul(number, b.getInt64(size));
      bytes = bytes ? b.CreateAdd(bytes, part) : part;
    }
    auto *code =
        llvm::InlineAsm::get(llvm::FunctionType::get(b.getInt64Ty(), {b.getInt64Ty()}, false),
                             "mov.b64 $0, $1;", "=l,l", /*hasSideEffects=*/false);
    llvm::CallInst *call = b.CreateCall(code, {bytes});
    call->setDoesNotThrow();
    call->setDoesNotAccessMemory();
    return bytes = call;
  }

  /// The first place at which all numbers are known. They are at an address, so they are defined
  /// one behind the other.
  llvm::Instruction *behindAll(const Moved &moved) const {
    auto *last = llvm::cast<llvm::Instruction>(moved.front().first);
    for (auto [number, size] : moved)
      if (auto *op = llvm::cast<llvm::Instruction>(number); dominators.dominates(last, op))
        last = op;
    return &**last->getInsertionPointAfterDef();
  }

  llvm::Loop &loop;
  const llvm::DominatorTree &dominators;
  const llvm::DataLayout &layout;
  llvm::IRBuilder<> before;
  std::map<Moved, llvm::Value *> offsets;
};

} // namespace

void hoistRowPointers(llvm::Module &module) {
  for (llvm::Function &function : module) {
    if (function.isDeclaration())
      continue;
    llvm::SmallVector<llvm::BasicBlock *> products;
    for (llvm::BasicBlock &block : function)
      if (llvm::any_of(block, isProduct))
        products.push_back(&block);
    if (products.empty())
      continue;
    llvm::DominatorTree dominators(function);
    llvm::LoopInfo loops(dominators);
    llvm::SmallPtrSet<llvm::Loop *, 4> done;
    for (llvm::BasicBlock *block : products)
      if (llvm::Loop *loop = loops.getLoopFor(block))
        if (done.insert(loop).second && loop->getLoopPreheader() && onlyAccumulates(*loop))
          Rewriter(*loop, dominators).run();
  }
}

} // namespace nereid::nvidia
